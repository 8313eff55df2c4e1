"""`measure` with fakes of ncu, worker and NVML.

The tests cover numbers, statuses, and every failure of a point.
"""

import time
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from ioaware.errors import MachineError, UsageError
from ioaware.measurement.assemble_result import Profiled, assemble_result
from ioaware.measurement.counters.launch_log import TritonLaunch
from ioaware.measurement.counters.ncu import Ncu
from ioaware.measurement.measure import Options, measure
from ioaware.measurement.worker_protocol import Report
from ioaware.result import Check, Launch, Result, Timing, Traffic
from ioaware.result_file import decode, encode
from tests.support.fakes import FIXTURES, FakeNvml, fake_ncu, fake_python

COPY = TritonLaunch("copy_kernel", "copy_kernel", (65536,), 16, 0)
TIMED = Report(
    target="own",
    params={"rows": 4},
    launches=(COPY, COPY),
    check=Check(1e-4, 2e-3),
    output_norm=10.0,
    timing=Timing(62_000.0, 61_000.0, 63_000.0, 60_500.0, 50),
    extra_memory_bytes=256,
    telemetry={"energy_per_call_mj": 4.5},
    environment={"gpu": "NVIDIA H200", "peak_hbm_bytes_per_s": 4_814_304_000_000},
)
PROFILED = Report(target="own", params={"rows": 4}, launches=(COPY, COPY), output_norm=10.0)
REAL_LOG = FIXTURES / "h200_two_launches.csv"


class FakeMachine:
    """A fake GPU, ncu and Python, and `measure` on them."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.nvml = FakeNvml()
        self.python()
        self.ncu(log=REAL_LOG)

    def python(self, timed: Report = TIMED, profiled: Report = PROFILED, *, before: str = "") -> None:
        self._python = fake_python(self.directory, {"time": asdict(timed), "profile": asdict(profiled)}, before=before)

    def ncu(self, **changes: Any) -> None:
        self._ncu = Ncu(fake_ncu(self.directory, **changes), (2025, 3, 1))

    def measure(self, target: str = "own", **options: Any) -> Result:
        chosen = Options(python=str(self._python), ncu=self._ncu, **{"timeout_s": 20.0, **options})
        return measure(target, {"rows": 4}, options=chosen, nvml=self.nvml)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeMachine:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return FakeMachine(tmp_path)


def test_counters_time_and_telemetry_are_in_one_result(machine: FakeMachine) -> None:
    result = machine.measure()
    assert (result.source, result.target, result.status, dict(result.params)) == ("measure", "own", "ok", {"rows": 4})
    assert result.requested is not None
    assert result.hbm is not None
    assert result.assumed is not None
    assert (result.requested.read_bytes, result.requested.write_bytes) == (2 * 2**27, 2 * 2**27)
    assert result.hbm.read_bytes == 134_237_952 + 134_225_920
    assert result.assumed.read_bytes == 365_116_160 + 365_878_400
    assert [launch.origin for launch in result.launches] == ["triton", "torch", "triton", "torch"]
    assert (result.time_ns, result.timing, result.extra_memory_bytes) == (62_000.0, TIMED.timing, 256)
    assert result.telemetry is not None
    assert result.telemetry["energy_per_call_mj"] == 4.5
    assert result.telemetry["l2_read_sector_bytes"] == 32 * (4_194_304 * 2 + 11_406_652 + 11_441_380)
    assert result.environment is not None
    assert result.environment["ncu"] == "2025.3.1"
    assert any("2 kernels of torch's own are under assumed" in note for note in result.notes)
    assert decode(encode(result)) == result


def test_the_environment_names_neither_host_nor_paths(machine: FakeMachine) -> None:
    import socket

    text = encode(machine.measure())
    for secret in (str(Path.home()), str(Path.cwd()), str(machine.directory), socket.gethostname()):
        assert secret not in text


def test_without_a_gpu_measure_fails_at_once(machine: FakeMachine) -> None:
    machine.nvml = FakeNvml(count=0)
    start = time.monotonic()
    with pytest.raises(MachineError, match="no NVIDIA GPU") as error:
        machine.measure()
    assert time.monotonic() - start < 0.5
    assert "ioaware predict" in error.value.remedy


def test_forbidden_counters_stop_a_measurement_that_requires_them(machine: FakeMachine) -> None:
    machine.ncu(log=FIXTURES / "permission.log")
    start = time.monotonic()
    with pytest.raises(MachineError, match="ERR_NVGPUCTRPERM") as error:
        machine.measure()
    assert time.monotonic() - start < 5
    assert error.value.exit_code == 5
    assert "--cap-add=SYS_ADMIN" in error.value.remedy
    assert "still work" in error.value.remedy


def test_forbidden_counters_are_the_error_even_if_the_worker_fails(machine: FakeMachine) -> None:
    machine.python(profiled=Report(error={"kind": "RuntimeError", "what": "CUDA error", "remedy": ""}))
    machine.ncu(log=FIXTURES / "permission.log")
    with pytest.raises(MachineError, match="ERR_NVGPUCTRPERM"):
        machine.measure()


def test_optional_counters_leave_time_and_a_label(machine: FakeMachine) -> None:
    machine.ncu(log=FIXTURES / "permission.log")
    result = machine.measure(counters="optional")
    assert (result.requested, result.hbm) == (None, None)
    assert result.time_ns == 62_000.0
    assert result.status == "ok"
    assert [launch.registers for launch in result.launches] == [16, 16]
    assert any(note.startswith("no counters: this user may not read") for note in result.notes)


def test_counters_off_never_starts_ncu(machine: FakeMachine) -> None:
    machine.ncu(before="sys.exit(99)")
    result = machine.measure(counters="off")
    assert result.time_ns == 62_000.0
    assert "no counters: switched off" in result.notes


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"log": FIXTURES / "no_kernels.csv"}, "profiled no kernel"),
        ({"log": FIXTURES / "program_failed.csv", "code": 3}, "exit code 3"),
        ({"before": "time.sleep(60)"}, "did not end within its time"),
        ({"before": "import os; os.kill(os.getpid(), 11)"}, "killed by SIGSEGV"),
        ({"log": REAL_LOG, "runs": False}, "did not start the worker"),
    ],
)
def test_a_failing_ncu_is_a_machine_error(
    machine: FakeMachine, changes: dict[str, Any], what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ioaware.measurement.measure.KILL_MARGIN_S", 0.2)
    machine.ncu(**changes)
    with pytest.raises(MachineError, match=what):
        machine.measure(timeout_s=0.8)


@pytest.mark.parametrize("log", ["", "h200_unknown_metric.csv", "truncated"])
def test_an_unreadable_table_fails_the_point(machine: FakeMachine, log: str, tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text({"": "", "truncated": REAL_LOG.read_text()[:5000]}.get(log) or (FIXTURES / log).read_text() if log else "")
    machine.ncu(log=path)
    result = machine.measure()
    assert result.status == "failed"
    assert "cannot be trusted" in result.notes[0]
    assert result.requested is None


@pytest.mark.parametrize(
    ("before", "why"),
    [
        ("os._exit(0)", "the worker ended with exit code 0, without a report"),
        ("os.kill(os.getpid(), signal.SIGSEGV)", "the worker was killed by SIGSEGV, without a report"),
        ("os.kill(os.getpid(), signal.SIGKILL)", "the worker was killed by SIGKILL, without a report"),
        ("print('the last line', file=sys.stderr); os._exit(7)", "the last line"),
        ("time.sleep(60)", "the worker did not end within its time and was killed, without a report"),
        ("open(out, 'w').write('{'); os._exit(0)", "the worker's report is not readable"),
    ],
)
def test_a_worker_without_a_report_is_a_failed_point(
    machine: FakeMachine, before: str, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ioaware.measurement.measure.KILL_MARGIN_S", 0.2)
    machine.python(before=before)
    result = machine.measure(counters="off", timeout_s=0.8)
    assert result.status == "failed"
    assert why in result.notes[0]
    assert (result.requested, result.hbm, result.time_ns) == (None, None, None)
    assert decode(encode(result)) == result


def test_a_flooding_worker_is_a_failed_point(machine: FakeMachine) -> None:
    machine.python(before="for _ in range(200): os.write(2, b'x' * 2**20)\nos._exit(3)")
    result = machine.measure(counters="off")
    assert result.status == "failed"
    assert len(result.notes[0]) < 3000


def test_out_of_memory_is_a_failed_point_and_a_users_error_is_raised(machine: FakeMachine) -> None:
    machine.python(profiled=Report(error={"kind": "OutOfMemoryError", "what": "CUDA out of memory", "remedy": ""}))
    result = machine.measure()
    assert result.status == "failed"
    assert result.notes[0].startswith("profile: OutOfMemoryError: CUDA out of memory")
    machine.python(profiled=Report(error={"kind": "UsageError", "what": "there is no case 'flash9'", "remedy": "Cases: ..."}))
    with pytest.raises(UsageError, match="flash9"):
        machine.measure()


def test_the_worker_gets_a_clean_environment(machine: FakeMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    machine.python(before="assert 'TRITON_INTERPRET' not in os.environ and os.environ['LC_ALL'] == 'C.UTF-8'")
    assert machine.measure().status == "ok"


def test_no_files_are_left(machine: FakeMachine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    machine.measure()
    assert list(temporary.iterdir()) == []


COMPULSORY = Traffic(1000, 400)


def launch(reads: int, hbm: int, origin: Any = "triton") -> Launch:
    return Launch("k", (1,), origin, requested=Traffic(reads, 400), hbm=Traffic(hbm, 0), time_ns=1000.0)


def assemble(timed: Report = TIMED, *launches: Launch, profiled: Report = PROFILED) -> Result:
    counted = Profiled(profiled, launches or (launch(5000, 1200),), 64)
    return assemble_result(timed, counted, compulsory=COMPULSORY, environment={}, notes=())


def has_numbers(result: Result) -> bool:
    return any(value is not None for value in (result.requested, result.hbm, result.time_ns, result.timing))


@pytest.mark.parametrize(
    "change",
    [
        lambda report: replace(report, refused="the output is wrong"),
        lambda report: replace(report, output_norm=11.0),
        lambda report: replace(report, output_norm=None),
    ],
)
def test_no_number_of_a_wrong_output_is_shown(change: Callable[[Report], Report]) -> None:
    result = assemble(change(TIMED))
    assert result.status == "failed"
    assert not has_numbers(result)
    assert all(item.requested is None and item.hbm is None and item.time_ns is None for item in result.launches)
    assert result.notes[0].startswith("no bytes and no time are shown")


@pytest.mark.parametrize(("norm", "status"), [(10.05, "ok"), (10.2, "failed"), (9.8, "failed"), (20.0, "failed")])
def test_norms_of_an_unchecked_output_agree_to_a_percent(norm: float, status: str) -> None:
    """A target without a reference has no tolerance."""
    assert assemble(replace(TIMED, check=None, output_norm=norm)).status == status


def test_norms_within_the_tolerance_agree() -> None:
    assert assemble(replace(TIMED, output_norm=10.01)).status == "ok"


def test_an_unstable_point_keeps_its_numbers_with_a_reason() -> None:
    result = assemble(replace(TIMED, unstable=("1 other process computing on this GPU",), throttled=("software power cap",)))
    assert result.status == "unstable"
    assert result.notes[0] == "unstable: 1 other process computing on this GPU"
    assert has_numbers(result)


def test_a_throttled_point_keeps_its_bytes_and_a_note_on_its_time() -> None:
    result = assemble(replace(TIMED, throttled=("software power cap",)))
    assert result.status == "throttled"
    assert result.notes[0] == "throttled, so the time is not comparable: software power cap"
    assert has_numbers(result)


def test_impossible_numbers_are_the_first_note() -> None:
    result = assemble(replace(TIMED, unstable=("other process",)), launch(5000, 900))
    assert result.status == "impossible"
    assert result.notes[:2] == ("impossible: hbm read_bytes 900 below the compulsory 1000", "unstable: other process")


def test_torch_alone_has_no_totals() -> None:
    result = assemble(TIMED, launch(5000, 1200, "torch"))
    assert (result.requested, result.hbm) == (None, None)
    assert result.assumed is not None
    assert result.assumed.read_bytes == 5000
    assert any("no Triton kernel ran" in note for note in result.notes)


def test_an_unchecked_output_is_labelled() -> None:
    assert "the output was not checked: the target gives no reference" in assemble(replace(TIMED, check=None)).notes
