"""Two measured runs compared: growth of bytes is always found.

There are at most 1 % false alarms.

Growth of time is found where the noise allows it.
"""

from __future__ import annotations

import itertools
import json
import random
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ioaware.cli.main import run as run_command
from ioaware.cli.options import Settings
from ioaware.gate.measured.comparison import compare_runs, measured_results
from ioaware.gate.measured.measured_row import SAME_MACHINE, Compared
from ioaware.gate.verdict import BaselineError, Verdict
from ioaware.measurement.timing import summarize
from ioaware.result import Check, Result
from ioaware.result_file import write_jsonl
from tests.support import ROOT
from tests.support.measured_runs import ENVIRONMENT, Noise, gaussian, point, run, skewed, times

FEW = 60
MANY = pytest.param(300, marks=pytest.mark.slow)


def one(old: Result, new: Result, again: Result | None = None, **how: Any) -> Compared:
    (found,) = compare_runs([old], [new], None if again is None else [again], **how).points
    return found


@pytest.mark.parametrize("runs", [FEW, MANY])
@pytest.mark.parametrize(
    "noise", [gaussian(0.005), gaussian(0.05), gaussian(0.24), skewed], ids=["0.5 %", "5 %", "24 %", "skewed"]
)
def test_a_run_without_a_change_raises_no_alarm(runs: int, noise: Noise) -> None:
    """50 rows. At most 1 % of the runs may raise an alarm."""
    alarms = sum(compare_runs(run(2 * at, noise), run(2 * at + 1, noise)).verdict is Verdict.WORSE for at in range(runs))
    assert alarms <= runs / 100


def resampled(draw: random.Random, results: list[Result], rounds: int) -> list[Result]:
    """Return 50 points with rounds drawn from those of recorded ones."""
    found: list[Result] = []
    for at in range(50):
        one = results[at % len(results)]
        assert one.timing
        timing = summarize(draw.choices(one.timing.rounds_ns, k=rounds))
        found.append(replace(one, target=f"{one.target} {at}", timing=timing))
    return found


@pytest.mark.parametrize("runs", [FEW, MANY])
@pytest.mark.parametrize("rounds", [9, 30])
@pytest.mark.parametrize("name", ["first", "second"])
def test_noise_of_a_real_gpu_raises_no_alarm(name: str, rounds: int, runs: int) -> None:
    """Both runs are drawn from the rounds of one recorded run on an H200."""
    recorded = measured_results(ROOT / "ioaware" / "recorded" / "benchmarks" / f"h200-{name}.json")
    draw, alarms = random.Random(6), 0
    for _ in range(runs):
        old, new = (resampled(draw, recorded, rounds) for _ in range(2))
        alarms += compare_runs(old, new).verdict is Verdict.WORSE
    assert alarms <= runs / 100


@pytest.mark.parametrize("runs", [FEW, MANY])
def test_a_slowdown_of_two_percent_is_found(runs: int) -> None:
    """At 0.5 % noise and 9 rounds, in at least 90 % of the runs of 50 rows.

    The old version is measured twice.
    """
    found = 0
    for at in range(runs):
        old, new, again = (run(3 * at + side, gaussian(0.005)) for side in range(3))
        new[-1] = point(49, times(random.Random(at), gaussian(0.005), slower=1.02))
        found += compare_runs(old, new, again).verdict is Verdict.WORSE
    assert found >= 0.9 * runs


@pytest.mark.parametrize("place", ["read_bytes", "hbm_bytes"])
def test_five_percent_more_bytes_are_always_found(place: str) -> None:
    draw = random.Random(4)
    for _ in range(300):
        size = draw.randrange(20, 10**9)
        more = -(-size * 105 // 100)
        found = compare_runs([point(**{place: size})], [point(**{place: more})])
        assert found.verdict is Verdict.WORSE
        assert compare_runs([point(**{place: more})], [point(**{place: size})]).verdict is Verdict.BETTER


def test_requested_bytes_are_compared_exactly_and_hbm_within_two_percent() -> None:
    assert one(point(), point(read_bytes=1_000_001)).bytes_verdict is Verdict.WORSE
    assert one(point(), point(hbm_bytes=917_000)).bytes_verdict is Verdict.SAME
    assert one(point(), point(hbm_bytes=919_000)).bytes_verdict is Verdict.WORSE


@pytest.mark.parametrize("runs", [FEW, MANY])
def test_a_drift_is_no_growth_where_the_old_version_is_measured_again(runs: int) -> None:
    """The machine slows down by 10 % or 30 % over A, B, A: an alarm in at most 1 %.

    A/B alone takes the larger drift for growth.
    """
    for drift in (0.1, 0.3):
        draw, alarms, fooled = random.Random(5), 0, 0
        at = [1 + drift * third / 3 for third in range(4)]
        for _ in range(runs):
            old, new, again = (point(times=times(draw, gaussian(0.005), drift=ends)) for ends in itertools.pairwise(at))
            alarms += one(old, new, again).time_verdict is Verdict.WORSE
            fooled += one(old, new).time_verdict is Verdict.WORSE
        assert alarms <= runs / 100
        assert (fooled > runs / 2) == (drift > 0.2)


def test_a_run_against_itself_is_the_same() -> None:
    for noise in (gaussian(0.001), skewed):
        found = run(6, noise)
        assert compare_runs(found, found).verdict is Verdict.SAME


def slower(clock_mhz: int = 1980) -> Result:
    return point(times=times(random.Random(8), gaussian(0.005), slower=1.1), clock_mhz=clock_mhz)


def base() -> Result:
    return point(times=times(random.Random(7), gaussian(0.005)))


def test_growth_is_confirmed_in_cycles() -> None:
    assert one(base(), slower()).time_verdict is Verdict.WORSE
    assert one(base(), slower(clock_mhz=1800)).time_verdict is Verdict.UNSURE  # as many cycles at a lower clock
    assert one(base(), replace(slower(), telemetry=None)).time_verdict is Verdict.UNSURE
    assert one(slower(), base()).time_verdict is Verdict.BETTER
    unclocked = replace(base(), telemetry=None)
    assert one(unclocked, unclocked).time_verdict is Verdict.SAME  # nothing has grown: there is nothing to confirm


def test_unsure_times_block_nothing_and_are_counted() -> None:
    noisy = run(9, gaussian(0.24), points=3)
    found = compare_runs(noisy, run(10, gaussian(0.24), points=3))
    assert (found.verdict, found.unsure_times) == (Verdict.SAME, 3)


@pytest.mark.parametrize(
    "change",
    [
        {"status": "unstable"}, {"status": "impossible"}, {"status": "failed"}, {"check": Check(1.0, 0.1)},
        {"check": Check(float("nan"), 1)},
        {"requested": None, "hbm": None}, {"requested": None}, {"hbm": None},
        *({"environment": {**ENVIRONMENT, name: "other"}} for name in SAME_MACHINE),
        {"environment": None},
    ],
)  # fmt: skip
def test_incomparable_points_never_pass(change: dict[str, Any]) -> None:
    for old, new in ((base(), replace(base(), **change)), (replace(base(), **change), base())):
        found = compare_runs([old], [new])
        assert not found.verdict.passes
        assert found.verdict.exit_code in (1, 3)


def test_the_machine_is_gpu_software_and_clock_policy() -> None:
    policy = {"max_sm_clock_mhz", "max_memory_clock_mhz", "application_sm_clock_mhz", "power_limit_mw"}
    assert {"gpu", "driver", "triton", "torch", "cuda"} | policy == set(SAME_MACHINE)


def test_another_device_on_request() -> None:
    other = replace(base(), environment={**ENVIRONMENT, "gpu": "NVIDIA B200"})
    assert one(base(), other).bytes_reason == "gpu is NVIDIA H200 and NVIDIA B200"
    assert one(base(), other, cross_device=True).bytes_verdict is Verdict.SAME


def test_a_point_on_one_side_only_is_an_error() -> None:
    both = [point(1), point(2)]
    for old, new in ((both, both[:1]), (both[:1], both)):
        with pytest.raises(BaselineError, match="1 points are missing"):
            compare_runs(old, new)
    assert compare_runs(both[:1], both, allow_missing=True).new_points == ("add n=2",)
    with pytest.raises(BaselineError):
        compare_runs(both, both, both[:1])


def saved(path: Path, results: list[Result]) -> str:
    write_jsonl(path, results)
    return str(path)


def test_the_verb(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def compare(*arguments: str) -> int:
        return run_command(["compare", *arguments], Settings())

    quiet = run(11, gaussian(0.002), points=4, rounds=12)
    old, same = saved(tmp_path / "old.jsonl", quiet), saved(tmp_path / "same.jsonl", run(12, gaussian(0.002), 4, 12))
    more = saved(tmp_path / "more.jsonl", [*quiet[:-1], replace(quiet[-1], requested=point(read_bytes=1_050_000).requested)])
    assert compare(old, same) == 0
    assert compare(old, more) == 1
    assert "requested reads: 1,000,000 -> 1,050,000 (+5.0 %)" in capsys.readouterr().out
    assert compare(old, more, "--json") == 1
    assert json.loads(capsys.readouterr().out)["verdict"] == "WORSE"
    assert compare(old, saved(tmp_path / "few.jsonl", quiet[:2])) == 4
    assert compare(old, str(tmp_path / "none.jsonl")) == 4
    noisy = saved(tmp_path / "noisy.jsonl", run(13, gaussian(0.24), 4, 12))
    assert (compare(old, noisy), compare(old, noisy, "--strict")) == (0, 3)
    whole = Path(old).read_bytes()
    for length in range(0, len(whole) - 1, 97):
        (tmp_path / "cut.jsonl").write_bytes(whole[:length])
        assert compare(old, str(tmp_path / "cut.jsonl")) in (4, 6), length
    assert "Traceback" not in capsys.readouterr().err


def test_points_that_only_the_new_run_has_are_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old, new = saved(tmp_path / "old.jsonl", [point(1)]), saved(tmp_path / "new.jsonl", [point(1), point(2)])
    assert run_command(["compare", old, new], Settings()) == 4
    assert run_command(["compare", old, new, "--allow-missing"], Settings()) == 0
    assert "new: add n=2" in capsys.readouterr().out


def test_points_without_times_have_bytes_alone_in_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = saved(tmp_path / "bytes.jsonl", [point()])
    assert run_command(["compare", path, path, "--json"], Settings()) == 0
    (row,) = json.loads(capsys.readouterr().out)["points"]
    assert row == {"target": "add", "params": "n=0", "bytes_verdict": "SAME", "bytes_reason": "equal"}


def test_times_of_too_few_rounds_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = saved(tmp_path / "few.jsonl", run(11, gaussian(0.002), points=4, rounds=3))
    assert run_command(["compare", path, path], Settings()) == 0
    said = "SAME: 4 points, 4 times decide nothing, 4 for too few rounds: measure each point more often"
    assert said in capsys.readouterr().out


def test_no_slow_library_is_loaded(tmp_path: Path) -> None:
    path = saved(tmp_path / "run.jsonl", run(14, gaussian(0.005), points=3))
    code = "import sys\nfrom ioaware.cli.main import run\nfrom ioaware.cli.options import Settings\n"
    code += f"assert run(['compare', {path!r}, {path!r}], Settings()) == 0\n"
    code += "assert not {'torch', 'sympy', 'triton', 'numpy', 'rich'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_reasons_of_bytes() -> None:
    def moved(**counts: int) -> Result:
        made = point()
        assert made.requested
        return replace(made, requested=replace(made.requested, **counts))

    assert one(point(), moved(read_sector_bytes=9)).bytes_reason == "requested read sectors are known on one side only"
    grown = one(moved(write_sector_bytes=8), moved(write_sector_bytes=10))
    assert (str(grown.bytes_verdict), grown.bytes_reason) == ("WORSE", "requested write sectors: 8 -> 10 (+25.0 %)")
    fewer = one(moved(read_sector_bytes=10), moved(read_sector_bytes=8))
    assert (str(fewer.bytes_verdict), fewer.bytes_reason) == ("BETTER", "requested read sectors: 10 -> 8 (-20.0 %)")
    assert one(moved(atomic_bytes=0), moved(atomic_bytes=8)).bytes_reason == "requested atomics: 0 -> 8 (from none)"
    assert one(point(hbm_bytes=100), point(hbm_bytes=200)).bytes_reason == "hbm reads: 100 -> 200 (+100.0 %)"


def test_reasons_of_times() -> None:
    def reason(old: Result, new: Result) -> tuple[str, str]:
        found = one(old, new)
        return str(found.time_verdict), found.time_reason

    assert reason(base(), point()) == ("UNSURE", "timed on one side only")
    assert reason(base(), replace(slower(), status="throttled")) == ("UNSURE", "the clocks moved")
    assert reason(point(times=[1.0, 2.0]), point(times=[1.0, 2.0])) == (
        "UNSURE", "too few rounds on record to decide at this many points",
    )  # fmt: skip
    assert reason(slower(), replace(base(), telemetry=None)) == ("UNSURE", "no clocks on record to confirm it in cycles")
    times = [100.0 + at for at in range(9)]
    exact = one(point(times=times), point(times=[1.5 * time for time in times]))
    assert (exact.ratio, exact.time_reason) == (pytest.approx(1.5), "+50.0 % (+44.4 to +55.8 %)")
    little = one(point(times=times), point(times=[1.03 * time for time in times]))
    assert (str(little.time_verdict), little.time_reason) == ("UNSURE", "+3.0 % (-0.8 to +7.0 %)")
    steady = [100.0 + at / 100 for at in range(9)]
    more = point(times=[1.04 * time for time in steady])
    spread = "+4.0 % (+4.0 to +4.0 %): two runs of one version may differ by 5.0 %"
    assert reason(point(times=steady), more) == ("UNSURE", f"{spread}; measure the old version again (--again)")
    repeated = one(point(times=steady), more, point(times=steady))
    assert (str(repeated.time_verdict), repeated.time_reason) == ("UNSURE", spread)
