"""Calls are timed with pauses if the power cap lowers the clock, else without."""

from itertools import cycle

import pytest

from ioaware.measurement import timed_calls
from ioaware.measurement.nvml import open_gpu
from ioaware.measurement.stability import throttled_reasons
from ioaware.measurement.timed_calls import time_calls
from tests.support.fakes import FakeNvml, constantly


def test_pauses_avoid_a_power_cap_and_a_note_names_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Back to back the cap lowers the clock; after a pause it does not."""
    nvml, pauses = FakeNvml(reasons=0x4, clocks=cycle([1980, 1500])), list[float]()

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        nvml.reasons, nvml.clocks = 0, constantly(1980)

    monkeypatch.setattr(timed_calls.time, "sleep", pause)
    gpu = open_gpu(nvml, {})
    timing, snapshots, notes = time_calls(lambda: 2e7 if pauses else 3e7, gpu, 0.3)
    assert timing.median_ns == 2e7
    assert throttled_reasons(gpu.limits, snapshots) == []
    assert notes == ["pauses of 100 ms before each call: without them the power cap lowers the clock"]
    assert len(pauses) > timing.count
    assert set(pauses[1:]) == {0.1}


def test_after_a_pause_calls_run_before_the_timed_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first milliseconds after a pause are slower."""
    nvml, calls = FakeNvml(reasons=0x4), [0]

    def pause(seconds: float) -> None:
        nvml.reasons, calls[0] = 0, 0

    def once() -> float:
        calls[0] += 1
        return 5e5 if nvml.reasons else 6e5 - 1e4 * calls[0]

    monkeypatch.setattr(timed_calls.time, "sleep", pause)
    timing, _, notes = time_calls(once, open_gpu(nvml, {}), 0.3)
    assert timing.median_ns == 5e5  # the tenth of ten calls
    assert notes[0].startswith("pauses of 20 ms before each 10 calls, the last of which is timed:")


def test_a_cap_that_pauses_do_not_avoid_leaves_the_first_times(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses = list[float]()
    monkeypatch.setattr(timed_calls.time, "sleep", pauses.append)
    gpu = open_gpu(FakeNvml(reasons=0x4), {})
    timing, snapshots, notes = time_calls(lambda: 2e6 if pauses else 3e6, gpu, 0.3)
    assert (timing.median_ns, notes) == (3e6, [])
    assert throttled_reasons(gpu.limits, snapshots) == ["software power cap (clocks-event reason 0x4)"]


@pytest.mark.parametrize("nvml", [FakeNvml(), FakeNvml(clocks=cycle([1980, 1500]))], ids=["steady", "steps"])
def test_without_a_power_cap_calls_are_timed_once(nvml: FakeNvml, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timed_calls.time, "sleep", lambda seconds: pytest.fail(f"a pause of {seconds} s"))
    assert time_calls(lambda: 1e3, open_gpu(nvml, {}), 0.3)[2] == []
