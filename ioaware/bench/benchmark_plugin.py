"""Register the fixture `gpu_benchmark`: GPU time by CUDA events.

pytest-benchmark saves, compares and draws the times.

    def test_scale(gpu_benchmark):
        gpu_benchmark.describe(ioaware.derive(scale, x, w))
        gpu_benchmark.against("torch", torch.mul, x, w)
        gpu_benchmark(scale, x, w)

Nothing heavy is imported at collection.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from ioaware.errors import MachineError, UsageError

if TYPE_CHECKING:
    from ioaware.bench.gpu_benchmark import BenchmarkDevice
    from ioaware.result import Result

OpenBenchmark = Callable[[Callable[[], float]], Any]
"""Returns pytest-benchmark's fixture with a timer."""


class GpuBenchmark:
    """Time one call of a test on the GPU.

    `rounds` may be set before the call. Without a device the call runs once, untimed.
    """

    rounds = 30

    def __init__(self, open_benchmark: OpenBenchmark, device: BenchmarkDevice | None) -> None:
        self._open_benchmark, self._device = open_benchmark, device
        self._results: list[Result] = []
        self._others: dict[str, Callable[[], object]] = {}

    def describe(self, *results: Result) -> None:
        """Save bytes and FLOPs of results of any source beside the times.

        The first that knows a number counts.
        """
        self._results += results

    def against(self, name: str, function: Callable[..., object], *args: Any, **kwargs: Any) -> None:
        """Run another call in the same rounds.

        Its time and ratio are saved beside the test's.
        """
        if name in self._others or name == "":
            raise UsageError(f"two calls of one benchmark are named {name!r}", "Give each a name of its own.")
        self._others[name] = partial(function, *args, **kwargs)

    def __call__(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Time the call in rounds with a cold L2; return its output.

        Raises `InconclusiveError` for unstable rounds.
        """
        from ioaware.bench.gpu_benchmark import extra_info, measure_rounds
        from ioaware.bench.gpu_timing import without_gc

        run = partial(function, *args, **kwargs)
        if self._device is None:
            return run()
        with without_gc():
            rounds = measure_rounds({"": run, **self._others}, self._device, self.rounds)
        replay = Replay(rounds.times_ns[""])
        benchmark = self._open_benchmark(replay.timer())  # of rounds that are refused, pytest-benchmark learns nothing
        benchmark.pedantic(replay.step, rounds=len(rounds.times_ns[""]), iterations=1)
        benchmark.extra_info.update(extra_info("", rounds, self._device, self._results))
        return run()


class Replay:
    """A clock that pytest-benchmark reads.

    It goes on by one measured time a step.
    """

    def __init__(self, times_ns: Sequence[float]) -> None:
        self._seconds, self._times = 0.0, iter(times_ns)

    def step(self) -> None:
        """Go on by the next time."""
        self._seconds += next(self._times) * 1e-9

    def timer(self) -> Callable[[], float]:
        """Return the function that reads the clock, in seconds.

        Its name is that of the timer in what is saved.
        """

        def cuda_events() -> float:
            return self._seconds

        return cuda_events


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Generator[None]:
    """Let pytest-benchmark take these tests for benchmarks.

    `--benchmark-only` skips all others. Why not for longer: its fixture is opened by the call, with a timer.
    """
    lent: list[list[str]] = []
    for item in items:
        names: list[str] = getattr(item, "fixturenames", [])  # one list for all parameters of a test
        if "gpu_benchmark" in names and "benchmark" not in names:
            names.append("benchmark")
            lent.append(names)
    try:
        return (yield)
    finally:
        for names in lent:
            names.remove("benchmark")


@pytest.fixture
def gpu_benchmark(request: pytest.FixtureRequest) -> GpuBenchmark:
    """Time a call on the GPU by CUDA events with a cold L2, through pytest-benchmark.

    Skips where there is no GPU.
    """
    config = request.config
    if not config.pluginmanager.has_plugin("pytest-benchmark"):
        raise pytest.UsageError("gpu_benchmark needs pytest-benchmark: pip install 'ioaware[benchmark]'")
    if config.getoption("benchmark_skip"):
        pytest.skip("benchmarks are skipped (--benchmark-skip)")
    shared = "PYTEST_XDIST_WORKER" in os.environ and not config.getoption("benchmark_enable")  # as pytest-benchmark decides

    def open_benchmark(timer: Callable[[], float]) -> Any:
        node: pytest.Item = request.node
        marker = node.get_closest_marker("benchmark")
        options: dict[str, Any] = {**(marker.kwargs if marker else {}), "timer": timer}
        node.add_marker(pytest.mark.benchmark(**options), append=False)
        return request.getfixturevalue("benchmark")

    timed = not (config.getoption("benchmark_disable") or shared)
    return GpuBenchmark(open_benchmark, open_device() if timed else None)  # before the test creates a CUDA context


def open_device() -> BenchmarkDevice:
    """Return the GPU of this process; skip the test, saying why, where there is none."""
    try:
        from ioaware.bench.benchmark_device import opened_device

        return opened_device()
    except MachineError as error:
        pytest.skip(f"no GPU to time on: {error.what}")
