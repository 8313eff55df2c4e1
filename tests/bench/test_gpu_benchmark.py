"""The fixture `gpu_benchmark` on an invented GPU.

Tested are rounds, refusals, what is saved, and pytest-benchmark's files.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ioaware.bench import benchmark_device, benchmark_plugin, gpu_benchmark
from ioaware.bench.benchmark_device import own_processes, reset_persisting_l2
from ioaware.bench.gpu_benchmark import LEAST_ROUNDS, WARM_UP_ROUNDS, extra_info, measure_rounds, work_info
from ioaware.environment import installed_version
from ioaware.errors import InconclusiveError, MachineError, UsageError
from ioaware.measurement.nvml import Limits, Snapshot
from ioaware.result import Result, Traffic

UUID = "GPU-1"
LIMITS = Limits("NVIDIA H200", UUID, "580.1", 1980, 3201, 6016, 700_000, 89, True, False)
IDLE = Snapshot(UUID, 1980, 3201, 310_000, 40, 0, (7,))


class FakeDevice:
    """Calls take the nanoseconds that `time_ns` gives.

    The machine is in the state `state`.
    """

    def __init__(self, time_ns: Callable[[str, int], float] = lambda name, at: 1000.0 + at % 3, state: Snapshot = IDLE) -> None:
        self.limits, self.uuid, self.own_processes, self.cuda_version = LIMITS, UUID, frozenset({7}), "13.0"
        self.time_ns, self.state = time_ns, state
        self.log: list[str] = []

    def snapshot(self) -> Snapshot:
        self.log.append("snapshot")
        return self.state

    def timer(self, run: Callable[[], object]) -> Callable[[], float]:
        def once() -> float:
            name = str(run())
            self.log.append(name)
            return self.time_ns(name, self.log.count(name))

        return once


def calls(*names: str) -> dict[str, Callable[[], object]]:
    return {name: lambda name=name: name for name in names}


def test_rounds_are_interleaved_after_a_warm_up() -> None:
    device = FakeDevice()
    found = measure_rounds(calls("a", "b"), device, 6)
    assert {name: len(times) for name, times in found.times_ns.items()} == {"a": 6, "b": 6}
    assert found.times_ns["a"] == [1000.0 + at % 3 for at in range(WARM_UP_ROUNDS + 1, WARM_UP_ROUNDS + 7)]
    timed = [name for name in device.log if name != "snapshot"][2 * WARM_UP_ROUNDS :]
    assert [set(timed[at : at + 2]) for at in range(0, 12, 2)] == [{"a", "b"}] * 6
    assert timed[:4] == ["a", "b", "b", "a"]  # the order changes
    assert len(found.snapshots) == 8  # before, in each round, after


STATES = [
    (replace(IDLE, throttle_bits=0x4), "software power cap (clocks-event reason 0x4)"),
    (replace(IDLE, throttle_bits=0x48), "hardware slowdown (clocks-event reason 0x8)"),
    (replace(IDLE, sm_clock_mhz=900), "SM clock at 900 MHz, below 75% of its 1980 MHz"),
    (replace(IDLE, temperature_c=90), "90 C, at or above the slowdown temperature of 89 C"),
    (replace(IDLE, processes=(7, 8)), "1 other process computing on this GPU"),
    (replace(IDLE, uuid="GPU-2"), "the GPU changed during the measurement"),
]


@pytest.mark.parametrize(("state", "why"), STATES, ids=[why for _, why in STATES])
def test_a_machine_that_is_not_quiet_is_refused(state: Snapshot, why: str) -> None:
    with pytest.raises(InconclusiveError) as raised:
        measure_rounds(calls("a"), FakeDevice(state=state))
    assert why in raised.value.what
    assert raised.value.exit_code == 3


TIMES = {
    "a: the median is known to 10.": lambda name, at: 1000.0 + 40 * (at % 30),
    "a: a round took no time, or has none": lambda name, at: 0.0,
    "a round took no time": lambda name, at: float("nan") if at == 9 else 5.0,
    "or has none": lambda name, at: float("inf") if at == 9 else 5.0,
}  # fmt: skip


@pytest.mark.parametrize(("why", "time_ns"), TIMES.items(), ids=TIMES)
def test_times_that_say_nothing_are_refused(why: str, time_ns: Callable[[str, int], float]) -> None:
    with pytest.raises(InconclusiveError) as raised:
        measure_rounds(calls("a"), FakeDevice(time_ns), 20)
    assert why.rstrip(".0123456789") in raised.value.what


def test_too_few_rounds_are_refused() -> None:
    with pytest.raises(InconclusiveError, match=f"4 rounds are fewer than {LEAST_ROUNDS}"):
        measure_rounds(calls("a"), FakeDevice(), 4)


def test_what_is_saved() -> None:
    slow = FakeDevice(lambda name, at: 1000.0 if name == "" else 3000.0, replace(IDLE, throttle_bits=0x1))
    rounds = measure_rounds({"": lambda: "", "other": lambda: "other"}, slow, 5)
    moved = Result("derive", "k", requested=Traffic(600, 400), compulsory=Traffic(500, 400), flops=10**6)
    simulated = Result("simulate", "k", requested=Traffic(1, 1), hbm=Traffic(550, 400), exact=False)
    found = extra_info("", rounds, slow, [moved, simulated])
    assert (found["gpu"], found["driver"], found["rounds"], found["throttle_bits"]) == ("NVIDIA H200", "580.1", 5, 1)
    assert (found["cuda"], found["triton"]) == ("13.0", installed_version("triton"))
    assert (found["requested_read_bytes"], found["requested_write_bytes"], found["hbm_read_bytes"]) == (600, 400, 550)
    assert found["throttle_reasons"] == []  # bit 0x1 is an idle GPU
    assert found["sm_clock_mhz"] == {"min": 1980, "median": 1980, "max": 1980}
    assert (found["requested_bytes"], found["requested_bytes_source"], found["requested_bytes_exact"]) == (1000, "derive", True)
    assert (found["hbm_bytes"], found["hbm_bytes_source"], found["hbm_bytes_exact"]) == (950, "simulate", False)
    assert found["requested_bytes_per_s"] == pytest.approx(1e9)
    assert found["flops_per_s"] == pytest.approx(1e12)
    assert found["interleaved"] == {"other": {"median_ns": 3000.0, "time_ratio": 3.0, "ratio_p25": 3.0, "ratio_p75": 3.0}}
    assert json.loads(json.dumps(found, allow_nan=False)) == found


def test_unknown_work_is_not_saved() -> None:
    assert work_info([], 1.0) == {}
    assert work_info([Result("trace", "k", flops=None)], 1.0) == {}


def test_the_gpu_waits_longer_than_the_host_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A gap between launches is no time of a kernel, also with a slow host."""
    log: list[Any] = []

    def timer(run: Callable[[], object], hold_s: float, clock_mhz: int) -> Callable[[], float]:
        log.append((hold_s, clock_mhz))
        return lambda: log.append("timed") or 7.0

    device = object.__new__(benchmark_device.CudaBenchmarkDevice)
    device.limits = LIMITS
    device._cuda = SimpleNamespace(timer=timer, host_seconds=lambda run: 1e-3)  # type: ignore[assignment]
    monkeypatch.setattr(benchmark_device, "reset_persisting_l2", lambda: log.append("reset"))
    assert device.timer(lambda: log.append("run"))() == 7.0
    assert log == ["run", (pytest.approx(4.5e-3), 1980), "reset", "timed"]


@pytest.mark.parametrize("code", [0, 801])
def test_persisting_lines_are_reset(code: int) -> None:
    reset_persisting_l2(SimpleNamespace(cuCtxResetPersistingL2Cache=lambda: code))


@pytest.mark.parametrize("driver", [SimpleNamespace(cuCtxResetPersistingL2Cache=lambda: 201), SimpleNamespace()])
def test_persisting_lines_that_stay_are_an_error(driver: Any) -> None:
    with pytest.raises(MachineError, match="persisting L2 lines cannot be reset"):
        reset_persisting_l2(driver)


def test_two_calls_of_one_name() -> None:
    made = benchmark_plugin.GpuBenchmark(lambda timer: None, FakeDevice())
    made.against("torch", int)
    for name in ("torch", ""):
        with pytest.raises(UsageError, match="two calls of one benchmark"):
            made.against(name, int)


SUITE = """
import pytest

def work(factor, *, more):
    return f"{factor}{more}"

@pytest.mark.benchmark(group="scale")
def test_work(gpu_benchmark):
    gpu_benchmark.rounds = 7
    gpu_benchmark.against("other", str, 1)
    assert gpu_benchmark(work, 2, more=3) == "23"
"""


class Suite:
    """A suite with one benchmark, run in this process on an invented GPU."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.monkeypatch = folder, monkeypatch
        (folder / "test_suite_of_benchmarks.py").write_text(SUITE)
        (folder / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n")
        monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
        monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)
        monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
        monkeypatch.chdir(folder)

    def run(self, device: Any, *arguments: str) -> int:
        self.monkeypatch.setattr(benchmark_plugin, "open_device", device)
        quiet = ("-p", "no:cacheprovider", "-p", "no:faulthandler", "-p", "no:unraisableexception", "-p", "no:threadexception")
        given = [*quiet, "-c", str(self.folder / "pytest.ini"), "--import-mode=importlib", "-p", "pytest_benchmark.plugin"]
        return int(pytest.main([*given, *arguments], plugins=[benchmark_plugin]))


@pytest.fixture
def suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Suite:
    pytest.importorskip("pytest_benchmark", reason="pytest-benchmark is an extra")
    return Suite(tmp_path, monkeypatch)


def test_files_and_comparison_of_pytest_benchmark(suite: Suite, capsys: pytest.CaptureFixture[str]) -> None:
    assert suite.run(FakeDevice, "--benchmark-json=out.json", "--benchmark-save=one") == 0
    (saved,) = json.loads((suite.folder / "out.json").read_text())["benchmarks"]
    assert (saved["group"], saved["stats"]["rounds"], saved["stats"]["iterations"]) == ("scale", 7, 1)
    assert (saved["stats"]["min"], saved["stats"]["max"]) == (pytest.approx(1.0e-6), pytest.approx(1.002e-6))
    assert saved["options"]["timer"].endswith("cuda_events")
    assert saved["extra_info"]["gpu"] == "NVIDIA H200"
    assert list(saved["extra_info"]["interleaved"]) == ["other"]
    capsys.readouterr()
    slower = FakeDevice(lambda name, at: 2000.0)
    compare = ("--benchmark-compare=0001", "--benchmark-compare-fail=mean:5%")
    assert suite.run(FakeDevice, *compare) == 0
    with pytest.raises(Exception, match="Performance has regressed"):  # which ends a process with 1
        suite.run(lambda: slower, *compare)


def test_benchmarks_alone(suite: Suite, capsys: pytest.CaptureFixture[str]) -> None:
    """The workflow for GPU runners asks for these.

    pytest-benchmark would skip tests that name our fixture alone.
    """
    other = '\n@pytest.mark.parametrize("n", [1, 2])\ndef test_two(gpu_benchmark, n):\n    gpu_benchmark(work, 2, more=n)\n'
    (suite.folder / "test_suite_of_benchmarks.py").unlink()
    file = suite.folder / "test_benchmarks_and_another.py"
    file.write_text(f"{SUITE}{other}\ndef test_other():\n    assert False\n")
    assert suite.run(FakeDevice, "--benchmark-only", "--benchmark-json=out.json") == 0
    assert "3 passed, 1 skipped" in capsys.readouterr().out
    saved = json.loads((suite.folder / "out.json").read_text())["benchmarks"]
    assert {one["options"]["timer"].rpartition(".")[2] for one in saved} == {"cuda_events"}
    assert suite.run(FakeDevice, "--benchmark-skip") == 1
    assert "3 skipped" in capsys.readouterr().out


def test_unstable_rounds_leave_no_times(suite: Suite, capsys: pytest.CaptureFixture[str]) -> None:
    hot = FakeDevice(state=replace(IDLE, throttle_bits=0x40))
    assert suite.run(lambda: hot) == 1
    printed = capsys.readouterr().out
    assert ("the rounds are unstable: hardware thermal slowdown" in printed, "OPS" in printed) == (True, False)


def test_disabled_benchmarks_call_once_and_need_no_gpu(suite: Suite) -> None:
    def none() -> Any:
        raise AssertionError

    assert suite.run(none, "--benchmark-disable") == 0


def test_no_gpu_is_a_skip_with_a_reason(
    suite: Suite, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def absent() -> Any:
        raise MachineError("no NVIDIA GPU is visible here", "")

    monkeypatch.setattr(benchmark_device, "opened_device", absent)
    assert suite.run(benchmark_plugin.open_device, "-rs") == 0
    assert "no GPU to time on: no NVIDIA GPU is visible here" in capsys.readouterr().out


def test_without_pytest_benchmark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    made = Suite(tmp_path, monkeypatch)
    monkeypatch.setattr(benchmark_plugin, "open_device", FakeDevice)
    given = ["-p", "no:cacheprovider", "-c", str(tmp_path / "pytest.ini"), "--import-mode=importlib", "-p", "no:benchmark"]
    assert pytest.main([*given, str(made.folder)], plugins=[benchmark_plugin]) == 1
    assert "pip install 'ioaware[benchmark]'" in capsys.readouterr().out


def test_the_defaults_hold_together() -> None:
    assert gpu_benchmark.ROUNDS == benchmark_plugin.GpuBenchmark.rounds >= LEAST_ROUNDS


@pytest.mark.parametrize(
    ("before", "now", "ours"),
    [
        ((3,), (3, 77), {77}),
        ((), (77,), {77}),
        (None, (os.getpid(), 3), {os.getpid()}),
        (None, (77,), {77}),
        (None, (3, 77), set()),
        (None, (), set()),
    ],
)
def test_own_processes(before: tuple[int, ...] | None, now: tuple[int, ...], ours: set[int]) -> None:
    assert own_processes(before, now, os.getpid()) == ours
