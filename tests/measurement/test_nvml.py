"""NVML: GPU identity, snapshots, GPM, and reasons for an unstable point.

Every reason for an unstable or impossible point is tested.
"""

import itertools
from dataclasses import replace

import pytest

from ioaware.errors import MachineError
from ioaware.measurement.gpm import GpmWindow
from ioaware.measurement.nvml import Gpu, open_gpu
from ioaware.measurement.stability import impossible_reasons, throttled_reasons, unstable_reasons
from ioaware.result import Launch, Traffic
from tests.support.fakes import UUID, FakeNvml

TORCH_UUID = UUID.removeprefix("GPU-")
PEAK = 4_814_304_000_000


def disturbances(nvml: FakeNvml, *, snapshots: int = 3, torch_uuid: str | None = TORCH_UUID) -> list[str]:
    gpu = open_gpu(nvml, {})
    loaded = [gpu.snapshot() for _ in range(snapshots)]
    return throttled_reasons(gpu.limits, loaded) + unstable_reasons(gpu.limits, loaded, [7], torch_uuid)


def test_limits_of_an_h200() -> None:
    limits = open_gpu(FakeNvml(), {}).limits
    assert (limits.name, limits.driver, limits.uuid, limits.ecc, limits.mig) == ("NVIDIA H200", "580.159.04", UUID, True, False)
    assert limits.peak_hbm_bytes_per_s == 3201 * 10**6 * 2 * 6016 // 8 == PEAK


@pytest.mark.parametrize(("visible", "handle"), [(None, "handle 0"), ("0", "handle 0"), ("3,1", "handle 3"), (UUID, UUID)])
def test_the_gpu_is_the_one_cuda_will_use(visible: str | None, handle: str) -> None:
    assert open_gpu(FakeNvml(count=4), {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}).handle == handle


@pytest.mark.parametrize("visible", ["", "-1", "4", "GPU-other", "none"])
def test_hidden_gpus_are_no_gpus(visible: str) -> None:
    with pytest.raises(MachineError, match="no NVIDIA GPU is visible here: NVML sees 4") as error:
        open_gpu(FakeNvml(count=4), {"CUDA_VISIBLE_DEVICES": visible})
    assert "ioaware predict" in error.value.remedy


def test_no_gpu_at_all() -> None:
    with pytest.raises(MachineError, match="no NVIDIA GPU is visible here") as error:
        open_gpu(FakeNvml(count=0), {})
    assert error.value.exit_code == 5


def test_an_old_driver_without_some_functions_is_no_error() -> None:
    old = FakeNvml(
        missing=(
            "nvmlDeviceGetCurrentClocksEventReasons",
            "nvmlDeviceGetTotalEnergyConsumption",
            "nvmlDeviceGetMigMode",
            "nvmlDeviceGetMemoryBusWidth",
            "nvmlGpmQueryDeviceSupport",
        )
    )
    gpu = open_gpu(old, {})
    assert gpu.limits.peak_hbm_bytes_per_s is None
    assert gpu.snapshot().throttle_bits is None
    assert gpu.energy_mj() is None
    assert not GpmWindow.is_supported(gpu)


def test_a_snapshot_for_the_record_names_neither_gpu_nor_processes() -> None:
    record = open_gpu(FakeNvml(processes=lambda: (7, 8)), {}).snapshot().to_dict()
    assert record == {
        "sm_clock_mhz": 1980,
        "memory_clock_mhz": 3201,
        "power_mw": 310_000,
        "temperature_c": 40,
        "throttle_bits": 0,
    }


def test_a_quiet_gpu_is_stable() -> None:
    assert disturbances(FakeNvml(processes=lambda: (7,))) == []
    assert disturbances(FakeNvml(reasons=0x1 | 0x2 | 0x10 | 0x100)) == []  # idle, application clocks, sync boost, display


@pytest.mark.parametrize(
    ("bit", "name"),
    [
        (0x4, "software power cap"),
        (0x8, "hardware slowdown"),
        (0x20, "software thermal slowdown"),
        (0x40, "hardware thermal slowdown"),
        (0x80, "hardware power brake"),
    ],
)
def test_each_throttle_bit_is_named(bit: int, name: str) -> None:
    assert disturbances(FakeNvml(reasons=bit | 0x1)) == [f"{name} (clocks-event reason {bit:#x})"]


@pytest.mark.parametrize(
    ("nvml", "expected"),
    [
        (FakeNvml(clocks=itertools.repeat(1400)), "below 75% of its 1980 MHz"),
        (FakeNvml(clocks=iter([1980, 1980, 1800])), "stepped between 1800 and 1980 MHz"),
        (FakeNvml(temperature=89), "slowdown temperature"),
        (FakeNvml(processes=lambda: (7, 99)), "1 other process computing"),
        (FakeNvml(processes=lambda: (7, 98, 99)), "2 other processes computing"),
        (FakeNvml(mig=1), "MIG is on"),
        (FakeNvml(uuids=iter([UUID, UUID, "GPU-other", "GPU-other"])), "the GPU changed"),
    ],
)
def test_each_disturbance_is_named(nvml: FakeNvml, expected: str) -> None:
    (reason,) = disturbances(nvml)
    assert expected in reason


def test_torch_on_another_gpu_is_unstable() -> None:
    (reason,) = disturbances(FakeNvml(), torch_uuid="fedcba98-0000-0000-0000-000000000000")
    assert "another GPU" in reason
    assert disturbances(FakeNvml(), torch_uuid=None) == []


def test_a_small_change_of_the_clock_is_not_a_step() -> None:
    assert disturbances(FakeNvml(clocks=iter([1980, 1965, 1950]))) == []


def test_gpm_is_corrected_by_sm_activity_as_measured_on_a_copy() -> None:
    window = GpmWindow(open_gpu(FakeNvml(), {}))
    window.sample()
    window.sample()
    samples = list(window.samples)
    reading = window.read()
    assert reading is not None
    assert reading.hbm_bytes_per_s == pytest.approx(0.784 * PEAK)
    assert reading.corrected_bytes_per_s == pytest.approx(4.255e12, rel=1e-3)
    assert all(sample.freed for sample in samples)


def test_gpm_of_an_idle_gpu_has_no_correction() -> None:
    window = GpmWindow(open_gpu(FakeNvml(gpm=(0.0, 0.0)), {}))
    window.sample()
    window.sample()
    reading = window.read()
    assert reading is not None
    assert reading.corrected_bytes_per_s is None


COMPULSORY = Traffic(1000, 400)
FAIR = Launch("k", requested=Traffic(5000, 400), hbm=Traffic(1200, 0), time_ns=1000.0)


@pytest.mark.parametrize(
    ("launches", "expected"),
    [
        ([FAIR], []),
        ([replace(FAIR, hbm=Traffic(991, 0))], []),  # within a percent
        ([replace(FAIR, hbm=Traffic(980, 0))], ["hbm read_bytes 980 below the compulsory 1000"]),
        ([replace(FAIR, hbm=Traffic(0, 0))], ["hbm read_bytes 0 below the compulsory 1000"]),
        ([replace(FAIR, requested=Traffic(980, 400))], ["requested read_bytes 980 below the compulsory 1000"]),
        ([replace(FAIR, requested=Traffic(5000, 300))], ["requested write_bytes 300 below the compulsory 400"]),
        ([replace(FAIR, hbm=Traffic(4_000_000, 2_000_000))], ["k: 6.00 TB/s from HBM, above the peak of 4.81"]),
        ([], []),
    ],
)
def test_impossible_numbers_have_a_reason(launches: list[Launch], expected: list[str]) -> None:
    assert impossible_reasons(launches, COMPULSORY, PEAK) == expected


def test_torchs_kernels_may_read_the_inputs_for_tritons() -> None:
    by_torch = Launch("copy", origin="torch", requested=Traffic(900, 0), hbm=Traffic(900, 0))
    triton = Launch("k", requested=Traffic(200, 400), hbm=Traffic(200, 0))
    assert impossible_reasons([by_torch, triton], COMPULSORY, None) == []
    assert impossible_reasons([triton], COMPULSORY, None)


def test_without_compulsory_bytes_and_peak_nothing_is_impossible() -> None:
    assert impossible_reasons([replace(FAIR, hbm=Traffic(0, 10**12))], None, None) == []


def test_a_gpu_reads_its_clock_each_time() -> None:
    gpu: Gpu = open_gpu(FakeNvml(clocks=iter([345, 1980])), {})
    assert [gpu.snapshot().sm_clock_mhz for _ in range(2)] == [345, 1980]
