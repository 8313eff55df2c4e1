"""The worker's two modes on a fake GPU: its reports, and outputs that it refuses."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from ioaware.case import Work
from ioaware.errors import DataError, MachineError, UsageError
from ioaware.measurement import worker
from ioaware.measurement.nvml import open_gpu
from ioaware.measurement.parent_watchdog import hold_parent_lock
from ioaware.measurement.subprocesses import run_process
from ioaware.measurement.worker import GpuContext, check_work, measure_point, profile_work, time_work
from ioaware.measurement.worker_protocol import MAX_BYTES, Report, Spec
from ioaware.targets import output_check
from tests.support.fakes import FakeDevice, FakeNvml


def spec_for(directory: Path, target: str = "t", **params: Any) -> Spec:
    return Spec(target, params, 60, 1, 0.001, 0.3, str(directory / "waiting"), str(directory / "parent_lock"))


def context_of(nvml: FakeNvml, device: FakeDevice) -> GpuContext:
    return GpuContext(device, open_gpu(nvml, {}), frozenset())  # type: ignore[arg-type]


def doubling(rows: int = 4, *, tolerance: float = 1e-6) -> Work:
    x = torch.arange(rows * 4, dtype=torch.float32).reshape(rows, 4)
    return Work(lambda: x * 2, inputs=(x,), reference=lambda: x.double() * 2, tolerance=tolerance)


def time_report(work: Work, tmp_path: Path, nvml: FakeNvml | None = None, device: FakeDevice | None = None) -> Report:
    return time_work("t", {}, work, context_of(nvml or FakeNvml(), device or FakeDevice()), spec_for(tmp_path))


def test_the_report_of_a_timing_is_complete(tmp_path: Path) -> None:
    report = time_report(doubling(), tmp_path, device=FakeDevice(extra_bytes=512))
    assert report.refused is None
    assert report.check is not None
    assert report.check.relative_error == 0.0
    assert report.timing is not None
    assert report.timing.median_ns == 1000.0
    assert report.timing.count >= 5
    assert report.extra_memory_bytes == 512
    assert report.unstable == ()
    assert report.telemetry["before"]["sm_clock_mhz"] == 1980
    assert report.telemetry["energy_per_call_mj"] == 500 / 100
    assert report.telemetry["gpm"]["sm_activity"] == pytest.approx(0.887)
    assert report.environment["gpu"] == "NVIDIA H200"
    assert report.environment["peak_hbm_bytes_per_s"] == 4_814_304_000_000


@pytest.mark.parametrize(
    ("nvml", "note"),
    [
        (FakeNvml(gpm=None), "no GPM bandwidth"),
        (FakeNvml(missing=("nvmlDeviceGetTotalEnergyConsumption",)), "no energy"),
    ],
)
def test_missing_nvml_functions_get_a_note(tmp_path: Path, nvml: FakeNvml, note: str) -> None:
    assert any(note in item for item in time_report(doubling(), tmp_path, nvml).notes)


def test_a_short_window_has_no_energy(tmp_path: Path) -> None:
    spec = replace(spec_for(tmp_path), window_s=0.05)
    report = time_work("t", {}, doubling(), context_of(FakeNvml(), FakeDevice()), spec)
    assert "energy_per_call_mj" not in report.telemetry
    assert any("shorter than 0.2 s" in note for note in report.notes)


def test_a_throttled_gpu_marks_the_point(tmp_path: Path) -> None:
    assert time_report(doubling(), tmp_path, FakeNvml(reasons=0x4)).throttled == (
        "software power cap (clocks-event reason 0x4)",
    )


def test_a_wrong_output_is_refused_before_any_number(tmp_path: Path) -> None:
    x = torch.ones(4, 4)
    wrong = Work(lambda: x * 3, inputs=(x,), reference=lambda: x.double() * 2, tolerance=1e-3)
    report = time_report(wrong, tmp_path)
    assert report.refused is not None
    assert "relative error 0.5, allowed 0.001" in report.refused
    assert report.timing is None
    assert report.telemetry == {}


def test_an_unwritten_tile_is_refused(tmp_path: Path) -> None:
    """A kernel leaves a row unwritten.

    Poisoned memory holds no result of the previous run.
    """
    x = torch.ones(4, 4)
    memory = x * 2

    def run() -> torch.Tensor:
        memory[:3] = x[:3] * 2
        return memory

    incomplete = Work(run, inputs=(x,), reference=lambda: x.double() * 2, tolerance=1e-3)
    assert check_work(incomplete, FakeDevice(), 1)[2] is None  # type: ignore[arg-type]
    device = FakeDevice(on_poison=lambda: memory.view(torch.uint8).fill_(255))
    report = time_report(incomplete, tmp_path, device=device)
    assert report.check is not None
    assert report.check.relative_error == output_check.NOT_FINITE_ERROR
    assert not report.check.passed
    assert report.refused is not None
    json.dumps(report.check.relative_error, allow_nan=False)


def test_a_changed_input_is_refused(tmp_path: Path) -> None:
    x, y = torch.ones(4), torch.ones(4)
    report = time_report(Work(lambda: y.mul_(1.5), inputs=(x, y)), tmp_path)
    assert report.refused is not None
    assert "changes its input 1" in report.refused


def test_an_input_with_nan_in_it_is_not_changed() -> None:
    x = torch.tensor([1.0, float("nan")])
    assert output_check.changed_inputs([x.clone()], [x]) == []
    assert output_check.changed_inputs([x.clone()], [torch.tensor([float("nan"), 1.0])]) == [0]


def test_an_output_of_another_shape_is_the_users_error(tmp_path: Path) -> None:
    x = torch.ones(4, 4)
    with pytest.raises(UsageError, match=r"shape \(4,\), its reference \(4, 4\)"):
        time_report(Work(lambda: x[0], inputs=(x,), reference=lambda: x.double(), tolerance=1e-3), tmp_path)


def test_without_a_reference_nothing_is_checked(tmp_path: Path) -> None:
    report = time_report(Work(lambda: {"o": [torch.ones(2), (torch.ones(3),)]}), tmp_path)
    assert report.check is None
    assert report.refused is None
    assert report.output_norm == pytest.approx(5**0.5)


def test_output_memory_is_counted_once_per_storage() -> None:
    x = torch.ones(8)
    assert output_check.output_bytes((x, x[2:], {"y": torch.ones(2, dtype=torch.float16)}, "text", None)) == 36


def test_profiling_gives_each_launch_a_range_and_notes_differing_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from types import SimpleNamespace

    from triton.runtime.jit import JITFunction

    def launch(name: str) -> None:
        JITFunction.run(SimpleNamespace(__name__=name), grid=(1,), warmup=False)  # type: ignore[arg-type]

    monkeypatch.setattr(JITFunction, "run", lambda self, *args, grid, **kwargs: None)
    calls = iter(["tune", "fast", "fast"])

    def run() -> torch.Tensor:
        launch(next(calls))
        return torch.ones(4)

    device = FakeDevice()
    report = profile_work("t", {}, Work(run), context_of(FakeNvml(), device), spec_for(tmp_path))
    assert device.ranges == ["ioaware:0"]
    assert [launch.kernel for launch in report.launches] == ["fast"]
    assert report.notes == ()
    assert report.output_norm == 2.0
    calls = iter(["tune", "fast", "other"])
    report = profile_work("t", {}, Work(run), context_of(FakeNvml(), device), spec_for(tmp_path))
    assert "depends on its history" in report.notes[0]


TARGET = """
import torch
from ioaware.case import Work

def triple(rows: int = 4, device: str = "cpu"):
    x = torch.ones(rows, device=device)
    return Work(lambda: x * 3, inputs=(x,), reference=lambda: x.double() * 3, tolerance=1e-6)
"""


@pytest.fixture
def fake_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[FakeNvml], str]:
    """Return a function that sets up a machine and returns a target for it.

    The machine has this NVML and a fake GPU.
    """

    def install(nvml: FakeNvml) -> str:
        monkeypatch.setattr(worker, "load_nvml", lambda: nvml)
        monkeypatch.setattr("ioaware.measurement.cuda_device.Cuda", FakeDevice)
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
        (tmp_path / "own.py").write_text(TARGET)
        return f"{tmp_path / 'own.py'}:triple"

    return install


def test_a_target_is_loaded_and_measured_under_the_gpu_lock(fake_machine: Callable[[FakeNvml], str], tmp_path: Path) -> None:
    target = fake_machine(FakeNvml())
    report = measure_point(time_work, spec_for(tmp_path, target, rows=6))
    assert report.error is None
    assert dict(report.params) == {"rows": 6}
    assert report.target.endswith("own.py:triple")
    assert list(tmp_path.glob("ioaware-GPU-*.lock"))


def test_only_processes_from_before_the_worker_make_a_point_unstable(
    fake_machine: Callable[[FakeNvml], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NVML numbers processes differently in a container.

    The worker's context is therefore recognised by its appearance, not by its number.
    """
    contexts = iter([()] + [(4711,)] * 1000)
    assert measure_point(time_work, spec_for(tmp_path, fake_machine(FakeNvml(processes=lambda: next(contexts))))).unstable == ()
    monkeypatch.setattr(worker, "PROCESS_EXIT_WAIT_S", 0.1)
    other_process = FakeNvml(processes=lambda: (99,))
    report = measure_point(time_work, spec_for(tmp_path, fake_machine(other_process)))
    assert report.unstable == ("1 other process computing on this GPU",)


def test_a_parameter_that_does_not_exist_is_the_users_error(fake_machine: Callable[[FakeNvml], str], tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="columns"):
        measure_point(time_work, spec_for(tmp_path, fake_machine(FakeNvml()), columns=6))


def test_reports_survive_a_round_trip(tmp_path: Path) -> None:
    report = time_report(doubling(), tmp_path)
    report.write(tmp_path / "report.json")
    assert Report.read(tmp_path / "report.json") == report
    assert Report.read(tmp_path / "absent.json") is None


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"{}", b'{"launches": 3}', b"\xff", b"[" * 100_000, b" " * (MAX_BYTES + 2)]
)
def test_a_forged_report_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "report.json").write_bytes(content)
    with pytest.raises(DataError, match="not readable"):
        Report.read(tmp_path / "report.json")


@pytest.mark.skipif(Path("/dev/nvidia0").exists(), reason="checks the message of a machine without a GPU")
def test_the_real_worker_reports_a_missing_gpu(tmp_path: Path) -> None:
    import sys

    spec_for(tmp_path, "flash2").write(tmp_path / "spec.json")
    out = tmp_path / "out.json"
    with hold_parent_lock(tmp_path / "parent_lock"):
        argv = [sys.executable, "-m", "ioaware.measurement.worker", "time", str(tmp_path / "spec.json"), str(out)]
        finished = run_process(argv, timeout_s=30)
    assert finished.returncode == 1, finished.stderr
    report = Report.read(out)
    assert report is not None
    with pytest.raises(MachineError, match="no NVIDIA GPU"):
        report.raise_user_error()


def test_throttling_under_sustained_load_is_only_a_note(tmp_path: Path) -> None:
    class Hot(FakeDevice):
        def run_back_to_back(self, run: Callable[[], object], seconds: float, one_ns: float) -> tuple[int, float]:
            nvml.reasons = 0x4
            return super().run_back_to_back(run, seconds, one_ns)

    nvml = FakeNvml()
    report = time_report(doubling(), tmp_path, nvml, Hot())
    assert report.throttled == ()
    assert any("not the timed ones: software power cap" in note for note in report.notes)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b" " * (MAX_BYTES + 1), "longer than"),
        (b'{"target": "a", "target": "b"}', "twice"),
        (b'{"output_norm": 1e400}', "out of range"),
        (b"{}", "KeyError"),
        (b"", "JSONDecodeError"),
    ],
    ids=["size", "key twice", "infinite", "empty", "nothing"],
)
def test_an_invalid_report_is_refused(content: bytes, reason: str, tmp_path: Path) -> None:
    (tmp_path / "report.json").write_bytes(content)
    with pytest.raises(DataError, match=reason):
        Report.read(tmp_path / "report.json")
    assert Report.read(tmp_path / "none.json") is None
