"""Read one GPU's limits, clocks, power and processes from NVML.

Limits are fixed, the others are snapshots.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from ioaware.errors import MachineError

NvmlLibrary = Any
"""The module `pynvml` of nvidia-ml-py, or an object with the same functions."""

CLOCK_SM, CLOCK_MEMORY = 1, 2
TEMPERATURE_GPU = 0
THRESHOLD_SLOWDOWN = 1


def no_gpu(detail: str = "") -> MachineError:
    """Return the error of a machine without a usable GPU."""
    return MachineError(
        f"no NVIDIA GPU is visible here{f': {detail}' if detail else ''}",
        "These work without one: ioaware predict, derive, explain, trace, verify, report. "
        "`ioaware doctor` lists what is missing to measure.",
    )


@dataclass(frozen=True, slots=True)
class Limits:
    """Fixed properties: identity, maximum clocks, slowdown temperatures.

    None: NVML does not report it.
    """

    name: str
    uuid: str
    driver: str | None
    max_sm_clock_mhz: int | None
    max_memory_clock_mhz: int | None
    memory_bus_bits: int | None
    power_limit_mw: int | None
    slowdown_temperature_c: int | None
    ecc: bool | None
    mig: bool
    application_sm_clock_mhz: int | None = None
    """The SM clock that NVML's application clocks are set to."""

    @property
    def peak_hbm_bytes_per_s(self) -> int | None:
        """Peak HBM bandwidth: memory clock x 2 transfers per cycle x bus width.

        On an H200: 3201 MHz x 2 x 6016 bit / 8 = 4.81 TB/s.
        """
        if not self.max_memory_clock_mhz or not self.memory_bus_bits:
            return None
        return self.max_memory_clock_mhz * 10**6 * 2 * self.memory_bus_bits // 8


@dataclass(frozen=True, slots=True)
class Snapshot:
    """State at one moment.

    `throttle_bits` are NVML's clocks-event reasons; `processes` all with a compute context, ours included.
    """

    uuid: str
    sm_clock_mhz: int | None = None
    memory_clock_mhz: int | None = None
    power_mw: int | None = None
    temperature_c: int | None = None
    throttle_bits: int | None = None
    processes: tuple[int, ...] = ()
    energy_mj: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return it for the record, without the identifiers of GPU and processes."""
        keep = asdict(self)
        for name in ("uuid", "processes", "energy_mj"):
            del keep[name]
        return {name: value for name, value in keep.items() if value is not None}


def load_nvml() -> NvmlLibrary:
    """Load and initialise nvidia-ml-py.

    Raises `MachineError` where there is no driver.
    """
    try:
        import pynvml
    except ImportError as error:
        raise MachineError("nvidia-ml-py is not installed", "pip install nvidia-ml-py") from error
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        raise no_gpu(f"NVML does not start ({error})") from error
    return pynvml


class Gpu:
    """One GPU through NVML. A value that the GPU or driver does not support is None."""

    def __init__(self, library: NvmlLibrary, handle: Any) -> None:
        self.library = library
        self.handle = handle
        self.limits = self._limits()

    def _query(self, function: str, *arguments: Any) -> Any:
        """Return the value, or None where it is not supported.

        The GPU, the driver or this nvidia-ml-py may lack it.
        """
        try:
            return getattr(self.library, function)(self.handle, *arguments)
        except (self.library.NVMLError, AttributeError):
            return None

    def _limits(self) -> Limits:
        ecc, mig = self._query("nvmlDeviceGetEccMode"), self._query("nvmlDeviceGetMigMode")
        return Limits(
            name=_text(self._query("nvmlDeviceGetName")) or "unknown",
            uuid=self.uuid(),
            driver=_text(_try(self.library, lambda: self.library.nvmlSystemGetDriverVersion())),
            max_sm_clock_mhz=self._query("nvmlDeviceGetMaxClockInfo", CLOCK_SM),
            max_memory_clock_mhz=self._query("nvmlDeviceGetMaxClockInfo", CLOCK_MEMORY),
            memory_bus_bits=self._query("nvmlDeviceGetMemoryBusWidth"),
            power_limit_mw=self._query("nvmlDeviceGetEnforcedPowerLimit"),
            slowdown_temperature_c=self._query("nvmlDeviceGetTemperatureThreshold", THRESHOLD_SLOWDOWN),
            ecc=None if ecc is None else bool(ecc[0]),
            mig=mig is not None and bool(mig[0]),
            application_sm_clock_mhz=self._query("nvmlDeviceGetApplicationsClock", CLOCK_SM),
        )

    def uuid(self) -> str:
        return _text(self._query("nvmlDeviceGetUUID")) or ""

    def processes(self) -> tuple[int, ...]:
        """Return the process ids with a compute context.

        They are in the driver's numbering, in a container perhaps not ours.
        """
        return tuple(sorted(int(process.pid) for process in self._query("nvmlDeviceGetComputeRunningProcesses") or ()))

    def energy_mj(self) -> int | None:
        """Return the energy since the driver was loaded, in millijoules."""
        return self._query("nvmlDeviceGetTotalEnergyConsumption")

    def snapshot(self) -> Snapshot:
        reasons = self._query("nvmlDeviceGetCurrentClocksEventReasons")
        return Snapshot(
            uuid=self.uuid(),
            sm_clock_mhz=self._query("nvmlDeviceGetClockInfo", CLOCK_SM),
            memory_clock_mhz=self._query("nvmlDeviceGetClockInfo", CLOCK_MEMORY),
            power_mw=self._query("nvmlDeviceGetPowerUsage"),
            temperature_c=self._query("nvmlDeviceGetTemperature", TEMPERATURE_GPU),
            throttle_bits=self._query("nvmlDeviceGetCurrentClocksThrottleReasons") if reasons is None else reasons,
            processes=self.processes(),
            energy_mj=self.energy_mj(),
        )


def open_gpu(library: NvmlLibrary, environ: Mapping[str, str] | None = None) -> Gpu:
    """Open the GPU that CUDA calls device 0 under CUDA_VISIBLE_DEVICES.

    Raises `MachineError` if none is visible.
    """
    count = _try(library, library.nvmlDeviceGetCount) or 0
    visible = (os.environ if environ is None else environ).get("CUDA_VISIBLE_DEVICES")
    first = "0" if visible is None else visible.split(",")[0].strip()
    if first.startswith(("GPU-", "MIG-")):
        handle = _try(library, lambda: library.nvmlDeviceGetHandleByUUID(first))
    elif first.isdigit() and int(first) < count:
        handle = _try(library, lambda: library.nvmlDeviceGetHandleByIndex(int(first)))
    else:
        handle = None
    if handle is None:
        raise no_gpu(f"NVML sees {count}, CUDA_VISIBLE_DEVICES={visible!r}" if visible is not None and count else "")
    return Gpu(library, handle)


def open_uuid(library: NvmlLibrary, uuid: str) -> Gpu:
    """Open the GPU of this identifier, with or without its `GPU-`.

    Raises `MachineError` if NVML does not see it.
    """
    name = uuid if uuid.startswith(("GPU-", "MIG-")) else f"GPU-{uuid}"
    handle = _try(library, lambda: library.nvmlDeviceGetHandleByUUID(name))
    if handle is None:
        raise no_gpu("NVML does not see a GPU that CUDA sees")
    return Gpu(library, handle)


def _try(library: NvmlLibrary, call: Callable[[], Any]) -> Any:
    try:
        return call()
    except (library.NVMLError, AttributeError):
        return None


def _text(value: Any) -> str | None:
    """Decode the bytes that older versions of nvidia-ml-py return."""
    return value.decode() if isinstance(value, bytes) else value
