"""Machines: consistent presets with sources, and spellings of names.

Detection from the driver is tested too.
"""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from ioaware.errors import MachineError, UsageError
from ioaware.machine import PRESETS, detect_machine, find_machine
from ioaware.machine.detect import Reported, describe, report

H200_REPORTED = Reported(
    device="NVIDIA H200",
    compute_capability=90,
    sms=132,
    hbm_bytes=150_754_820_096,
    l2_bytes=60 * 2**20,
    shared_bytes=233_472,
    register_bytes=4 * 65_536,
    sm_clock_hz=1.98e9,
    memory_clock_hz=3.201e9,
    memory_bus_bits=6016,
)


@pytest.mark.parametrize("machine", PRESETS.values(), ids=PRESETS)
def test_every_preset_is_complete_and_names_its_sources(machine) -> None:
    assert [level.name for level in machine.levels] == ["registers", "shared", "l1", "l2", "hbm"]
    for level in machine.levels:
        assert level.capacity_bytes > 0
        assert len(level.capacity_source) > 5
        assert len(level.bandwidth_source) > 5
        assert level.scope == ("gpu" if level.name in ("l2", "hbm") else "sm")
    assert machine.sms_source
    assert {"float16", "bfloat16", "float32"} <= machine.peaks.keys()
    assert all(peak.source and peak.flops_per_s > 1e12 for peak in machine.peaks.values())
    assert machine.level("shared").capacity_bytes <= machine.level("l1").capacity_bytes
    assert machine.level("l2").capacity_bytes < machine.level("hbm").capacity_bytes


@pytest.mark.parametrize("name", ["A100", "H100", "H200", "L40S", "RTX4090"])
def test_peaks_agree_with_the_clock_and_the_cores(name: str) -> None:
    """fp32 is 2 FLOP x fp32 lanes of an SM (64 on A100, else 128) x SMs x clock.

    Shared memory moves 128 bytes a clock, which gives the clock.
    """
    machine = PRESETS[name]
    clock = machine.level("shared").bandwidth_bytes_per_s / 128
    lanes = 64 if name == "A100" else 128
    assert machine.peak("float32").flops_per_s == pytest.approx(2 * lanes * machine.sms * clock, rel=0.01)


def test_the_h200_is_the_one_that_was_measured() -> None:
    h200 = find_machine("h200")
    assert h200.sms == 132
    assert h200.level("l2").capacity_bytes == 62_914_560
    assert h200.level("hbm").bandwidth_bytes_per_s == pytest.approx(4.81e12, rel=1e-3)
    assert h200.peak("fp16").flops_per_s == 989e12
    assert h200.sram_elements("float16") == 228 * 1024 // 2


@pytest.mark.parametrize("typed", ["rtx4090", "RTX 4090", "rtx-4090", "NVIDIA GeForce RTX 4090"])
def test_spellings_of_a_name_are_accepted(typed: str) -> None:
    assert find_machine(typed).name == "RTX4090"


@pytest.mark.parametrize("typed", ["", "H20", "V100", "../H200"])
def test_an_unknown_machine_names_the_choices(typed: str) -> None:
    with pytest.raises(UsageError, match="A100, H100, H200, B200, L40S, RTX4090"):
        find_machine(typed)


def test_the_roofline() -> None:
    h200 = find_machine("H200")
    ridge = h200.ridge_flops_per_byte("float16")
    assert h200.attainable_flops_per_s(ridge / 2, "float16") == pytest.approx(989e12 / 2)
    assert h200.attainable_flops_per_s(2 * ridge, "float16") == 989e12
    assert h200.bandwidth_bytes_per_s("shared") == 132 * h200.level("shared").bandwidth_bytes_per_s
    with pytest.raises(UsageError, match="bandwidth of l2 is not known"):
        find_machine("H100").attainable_flops_per_s(1, "float16", "l2")
    with pytest.raises(UsageError, match=r"float64.*\n.*float16"):
        h200.peak("float64")


def test_detected_values_replace_the_preset_and_the_rest_gets_notes() -> None:
    machine = describe(H200_REPORTED)
    assert machine.name == "H200"
    assert machine.level("hbm").capacity_bytes == 150_754_820_096
    assert machine.level("hbm").bandwidth_bytes_per_s == pytest.approx(4.81e12, rel=1e-3)
    assert machine.level("l1").bandwidth_bytes_per_s == 128 * 1.98e9
    assert any("l1: capacity from the preset" in note for note in machine.notes)
    assert any("peak FLOP/s are those of the preset H200" in note for note in machine.notes)


def test_without_nvml_the_bandwidth_is_the_presets_with_a_note() -> None:
    machine = describe(Reported("NVIDIA H200", compute_capability=90, sms=132, hbm_bytes=150_754_820_096))
    assert machine.level("hbm").bandwidth_bytes_per_s == PRESETS["H200"].level("hbm").bandwidth_bytes_per_s
    assert any("hbm: bandwidth from the preset" in note for note in machine.notes)
    assert any("l2: capacity from the preset" in note for note in machine.notes)


@pytest.mark.parametrize("device", ["NVIDIA H200 MIG 1g.18gb", "NVIDIA H20", "NVIDIA GH200 480GB", "Tesla V100-SXM2-16GB"])
def test_another_gpu_or_a_partition_has_no_peaks(device: str) -> None:
    machine = describe(Reported(device, compute_capability=90, sms=16, hbm_bytes=2**34, l2_bytes=2**20))
    assert machine.name == device
    assert not machine.peaks
    assert machine.level("l2").capacity_bytes == 2**20
    assert any("peak FLOP/s unknown" in note for note in machine.notes)
    with pytest.raises(UsageError, match="no known level"):
        machine.level("shared")


def test_no_gpu_is_one_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = SimpleNamespace(cuda=SimpleNamespace(is_available=lambda: False, device_count=lambda: 0))
    monkeypatch.setitem(sys.modules, "torch", fake)
    with pytest.raises(MachineError, match=r"no CUDA GPU 0[\s\S]*H200"):
        detect_machine()


class FakeNvml(SimpleNamespace):
    """The functions of NVML that `report` calls.

    `broken` names a function that raises.
    """

    NVML_CLOCK_SM, NVML_CLOCK_MEM = 1, 2

    class NVMLError(Exception):
        pass

    def __init__(self, broken: str = "") -> None:
        super().__init__(broken=broken, uuid="", closed=0)

    def nvmlInit(self) -> None:
        self._fail("init")

    def nvmlShutdown(self) -> None:
        self.closed += 1

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> str:
        self.uuid = uuid
        return "handle"

    def nvmlDeviceGetMaxClockInfo(self, handle: str, clock: int) -> int:
        return {1: 1980, 2: 3201}[clock]

    def nvmlDeviceGetMemoryBusWidth(self, handle: str) -> int:
        self._fail("bus")
        return 6016

    def _fail(self, where: str) -> None:
        if self.broken == where:
            raise self.NVMLError(where)


def fake_torch() -> SimpleNamespace:
    properties = SimpleNamespace(
        name="NVIDIA H200",
        major=9,
        minor=0,
        multi_processor_count=132,
        total_memory=150_754_820_096,
        L2_cache_size=60 * 2**20,
        shared_memory_per_multiprocessor=233_472,
        regs_per_multiprocessor=65_536,
        uuid="12345678-aaaa",
    )
    cuda = SimpleNamespace(is_available=lambda: True, device_count=lambda: 1, get_device_properties=lambda index: properties)
    return SimpleNamespace(cuda=cuda)


def test_the_report_has_the_values_of_torch_and_nvml(monkeypatch: pytest.MonkeyPatch) -> None:
    nvml = FakeNvml()
    monkeypatch.setitem(sys.modules, "torch", fake_torch())
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    assert report() == H200_REPORTED
    assert nvml.uuid == "GPU-12345678-aaaa"
    assert nvml.closed == 1


@pytest.mark.parametrize("broken", ["init", "bus", "absent"])
def test_a_failing_nvml_leaves_out_only_its_numbers(monkeypatch: pytest.MonkeyPatch, broken: str) -> None:
    monkeypatch.setitem(sys.modules, "torch", fake_torch())
    monkeypatch.setitem(sys.modules, "pynvml", None if broken == "absent" else FakeNvml(broken))
    found = report()
    assert found.sms == 132
    assert found.memory_clock_hz is None
