"""Read HBM bandwidth from NVML's GPU performance monitoring (GPM).

It is a cross-check, on Hopper and later.

GPM needs no profiler permission.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ioaware.measurement.nvml import Gpu

SM_ACTIVITY, DRAM_BANDWIDTH = 2, 10
"""Metrics of GPM: SM utilisation and HBM bandwidth, in percent.

They are NVML_GPM_METRIC_SM_UTIL (of the time) and NVML_GPM_METRIC_DRAM_BW_UTIL (of the peak).
"""

MINIMUM_WINDOW_S = 0.2
"""The driver averages over at least 100 ms.

A shorter window has no separate reading.
"""


@dataclass(frozen=True, slots=True)
class GpmReading:
    """Averages over a window. `hbm_bytes_per_s` includes the window's idle edges."""

    sm_activity: float
    hbm_bytes_per_s: float

    @property
    def corrected_bytes_per_s(self) -> float | None:
        """Bandwidth while the SMs were busy; too high for launches that leave SMs idle."""
        return self.hbm_bytes_per_s / self.sm_activity if self.sm_activity > 0 else None

    def to_dict(self) -> dict[str, Any]:
        return {
            "sm_activity": self.sm_activity,
            "hbm_bytes_per_s": self.hbm_bytes_per_s,
            "hbm_bytes_per_s_corrected_by_sm_activity": self.corrected_bytes_per_s,
        }


class GpmWindow:
    """Two samples of the GPU's monitor and the averages between them."""

    def __init__(self, gpu: Gpu) -> None:
        self.gpu = gpu
        self.samples: list[Any] = []

    @staticmethod
    def is_supported(gpu: Gpu) -> bool:
        """Whether GPU, driver and hypervisor support GPM."""
        try:
            return bool(gpu.library.nvmlGpmQueryDeviceSupport(gpu.handle).isSupportedDevice)
        except (gpu.library.NVMLError, AttributeError):
            return False

    def sample(self) -> None:
        """Take a sample, at the start and at the end of the window."""
        sample = self.gpu.library.nvmlGpmSampleAlloc()
        self.samples.append(sample)
        self.gpu.library.nvmlGpmSampleGet(self.gpu.handle, sample)

    def read(self) -> GpmReading | None:
        """Return the averages between the samples and free them.

        None where the driver has none.
        """
        library, peak = self.gpu.library, self.gpu.limits.peak_hbm_bytes_per_s
        try:
            request = library.c_nvmlGpmMetricsGet_t()
            request.version = library.NVML_GPM_METRICS_GET_VERSION
            request.numMetrics = 2
            request.sample1, request.sample2 = self.samples
            for slot, metric in enumerate((SM_ACTIVITY, DRAM_BANDWIDTH)):
                request.metrics[slot].metricId = metric
            library.nvmlGpmMetricsGet(request)
            answers = [request.metrics[slot] for slot in range(2)]
            if peak is None or any(answer.nvmlReturn != 0 for answer in answers):
                return None
            return GpmReading(float(answers[0].value) / 100, float(answers[1].value) / 100 * peak)
        finally:
            for sample in self.samples:
                library.nvmlGpmSampleFree(sample)
            self.samples.clear()
