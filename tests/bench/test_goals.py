"""Goals and tables from hand-made records.

The tests cover the reference back end, its ratio, and met goals.
"""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from ioaware.bench.attention_points import Point, grid
from ioaware.bench.goals import best_other, goals, ratio, share
from ioaware.bench.race_record import Entry, Record
from ioaware.cli.race_tables import scores_text

FORWARD = grid(["forward"], [128], [4096], (), False)[0]
SHORT = grid(["forward"], [128], [512], (), True)[0]
DECODE = grid(["decode"], [128], (), [65536])[0]


def record(point: Point, **times_ns: float) -> Record:
    """Return a record of two rounds.

    Every back end takes twice as long in the second, at half the clock.
    """
    entries = [Entry(name.replace("_", "-"), "ok", "", "", (t, 2 * t), 12.0, True, 1e-3) for name, t in times_ns.items()]
    seen = {"sm_clock_mhz": {"min": 1800, "median": 1850.0, "max": 1900}, "throttled": ["SM clock stepped between 1 and 2"]}
    return Record(point, tuple(entries), (8e14, 4e14), (4e12, 2e12), seen, {})


def text(records: list[Record], **how: bool) -> str:
    console = Console(file=io.StringIO(), width=400, markup=False)
    for part in scores_text(records, verbose=how.get("verbose", False)):
        console.print(part)
    return console.file.getvalue()  # type: ignore[attr-defined]


def test_the_ratio_is_to_the_fastest_other_back_end() -> None:
    one = record(FORWARD, ioaware=100.0, ioaware_triton=50.0, flash=300.0, cudnn=110.0, tutorial=120.0)
    other, ahead = best_other(one), ratio(one)
    assert other is not None
    assert other.name == "cudnn"
    assert ahead is not None
    assert ahead.median == pytest.approx(1.1)


def test_the_share_is_of_the_ceiling_measured_between_the_rounds() -> None:
    """Speed and ceiling both halve in the second round."""
    time_ns = FORWARD.flops / 6e14 * 1e9
    one = record(FORWARD, ioaware=time_ns)
    entry = one.entry("ioaware")
    assert entry is not None
    assert share(one, entry) == pytest.approx(0.75)
    decode = record(DECODE, ioaware=DECODE.compulsory_bytes / 3.6e12 * 1e9)
    entry = decode.entry("ioaware")
    assert entry is not None
    assert share(decode, entry) == pytest.approx(0.9)


def test_goals_cover_every_point_and_name_the_worst() -> None:
    time_ns = FORWARD.flops / 7e14 * 1e9
    records = [
        record(FORWARD, ioaware=time_ns, cudnn=1.21 * time_ns, ioaware_triton=2 * time_ns, tutorial=1.9 * time_ns),
        record(SHORT, ioaware=100.0, cudnn=99.0),
    ]
    found = {goal.name: goal for goal in goals(records)}
    mean, worst = (found[f"forward, against the best other: {what}"] for what in ("geometric mean", "worst point"))
    assert (mean.value, mean.met) == (pytest.approx((1.21 * 0.99) ** 0.5), True)
    assert (worst.value, worst.met, worst.worst, worst.points) == (pytest.approx(0.99), False, SHORT.label, 2)
    plain = found["plain Triton against the tutorial's design: worst point"]
    assert (plain.value, plain.met, plain.points) == (pytest.approx(0.95), False, 1)
    both = goals([record(FORWARD, ioaware_triton=10.0, tutorial=9.9, tutorial_file=9.8)])
    assert [goal.value for goal in both] == [pytest.approx(0.98)]
    assert not any("decode" in name or "backward" in name for name in found)


def test_no_goal_without_a_run() -> None:
    lonely = Record(FORWARD, (Entry("ioaware", "failed", reason="why"), Entry("cudnn", "ok", times_ns=(1.0,))))
    assert goals([lonely]) == []
    assert ratio(lonely) is None


def test_the_table_has_speeds_and_reasons_of_failures() -> None:
    flops_ns = FORWARD.flops / 6e14 * 1e9
    one = record(FORWARD, ioaware=flops_ns, cudnn=1.1 * flops_ns)
    entries = (
        *one.entries,
        Entry("flex", "failed", reason="RuntimeError: \x1b[31mred"),
        Entry("tutorial", "wrong", reason="0.05"),
    )
    one = Record(one.point, entries, one.matmul_flops_per_s, one.copy_bytes_per_s, one.telemetry, {})
    shown = text([one])
    row = next(line for line in shown.splitlines() if line.startswith("d=128 N=4096"))
    assert row.split()[2:] == ["450", "409", "failed", "WRONG", "1.100", "cudnn", "600", "75%", "12", "1850*"]
    assert "note: flex: failed: RuntimeError: \\x1b[31mred" in shown
    assert "\x1b" not in shown
    assert "note: throttled*: SM clock stepped (every point)" in shown
    assert "forward, against the best other: geometric mean" in shown
    assert "microseconds of the host" not in shown
    assert "12 ±" in text([one], verbose=True)


def test_one_refusal_at_every_shape_is_one_note() -> None:
    def refusal(point: Point, sizes: str) -> Record:
        return replace(record(point, ioaware=1.0), entries=(Entry("flash", "unsupported", reason=f"not for {sizes}"),))

    shown = text([refusal(FORWARD, "[1, 2, 3]"), refusal(SHORT, "[4, 5, 6]")])
    assert "note: flash: unsupported: not for [...] (every point)" in shown


def test_the_machine_and_the_versions_come_first() -> None:
    known = {"gpu": "NVIDIA H200", "power_limit_mw": 700000, "torch": "2.11.0", "commit": "abc", "numpy": "2.5"}
    shown = text([replace(record(FORWARD, ioaware=1.0), environment=known)])
    assert shown.startswith("NVIDIA H200, 700 W, torch 2.11.0, commit abc\n\n")


def test_decode_is_shown_in_bytes_a_second() -> None:
    shown = text([record(DECODE, ioaware=DECODE.compulsory_bytes / 3e12 * 1e9)])
    assert "decode, bfloat16, TB/s" in shown
    assert "d=128 1 row x 1 heads N_k=65536" in shown
    assert "2.25" in shown
