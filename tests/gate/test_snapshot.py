"""Verdicts of a snapshot on derivations that are made up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import sympy

from ioaware.analysis.ir import Count
from ioaware.errors import UsageError
from ioaware.gate.derived_snapshot import Recorded
from ioaware.gate.kernel_facts import FACTS
from ioaware.gate.row import Header
from ioaware.gate.snapshot import Judgement, judge_snapshot, snapshot_of
from ioaware.result import Launch, Traffic

M, N = sympy.symbols("m n", integer=True, positive=True)
MADE_WITH = "triton 3.7.1, cuda:90, ir 0123456789ab"
HEADER = Header("3.7.1", "cuda:90", "0123456789ab")
MOVED = Header("3.7.1", "cuda:90", "ba9876543210")
HERE, THERE = {"n": 10, "m": 4}, {"n": 10, "m": 6}


def count(expr: Any) -> Any:
    return SimpleNamespace(expr=sympy.sympify(expr))


def derived(reads: Any = 8 * N, writes: Any = 4 * N, atomics: Any = 0, sectors: int = 64, **more: Any) -> Any:
    """Return a derivation whose size m is a constant of its kernel."""
    kernel = Launch("k", requested=Traffic(1, 1, read_sector_bytes=sectors, write_sector_bytes=0))
    given: dict[str, Any] = {
        "formulas": SimpleNamespace(
            read_bytes=count(reads), write_bytes=count(writes), atomic_bytes=count(atomics),
            read_sector_bytes=Count(sympy.Integer(sectors)), write_sector_bytes=Count(sympy.Integer(0)),
        ),
        "requested": None, "assumed": None, "assumed_formulas": None, "exact": True, "exact_here_only": False, "notes": (),
        "params": HERE, "values": HERE, "symbols": {"n": 10}, "validity": None, "kernels": (), "launches": (kernel,),
    }  # fmt: skip
    return SimpleNamespace(**(given | more))


NOW = Recorded({"reads": "8*n", "writes": "4*n"}, ((HERE, (80, 40)),), dict.fromkeys(FACTS), MOVED)


def nowhere(point: Any) -> Any:
    raise UsageError(f"not at {point}", "")


def judged(
    given: dict[str, Any], now: Recorded = NOW, derive_at: Callable[[Any], Any] = nowhere, **options: Any
) -> tuple[str, str]:
    found = judge(given, now, derive_at, **options)
    return str(found.verdict), found.reason


def judge(given: dict[str, Any], now: Recorded, derive_at: Callable[[Any], Any], **options: Any) -> Judgement:
    texts = {"reads": "8*n", "writes": "4*n", "made_with": MADE_WITH}
    return judge_snapshot(snapshot_of(**{**texts, **given}), now, derived(), derive_at, **options)


def test_an_unchanged_kernel_and_one_with_more_bytes() -> None:
    assert judged({}) == ("SAME", "reads: equal at every size")
    assert judged({"reads": "6*n"}) == ("WORSE", "reads: +20 at n=10, m=4")
    assert judged({"writes": "9*n"}) == ("BETTER", "writes: -50 at n=10, m=4")
    assert judged({"reads": "6*n"}, replace(NOW, header=HEADER)) == (
        "INCOMPARABLE", "the same IR: ioaware derives it differently now",
    )  # fmt: skip


def test_a_kind_of_bytes_that_one_side_lacks_is_zero() -> None:
    more = replace(NOW, texts={**NOW.texts, "atomics": "2*n"})
    assert judged({}, more) == ("WORSE", "atomics: +20 at n=10, m=4")
    assert judged({"atomics": "2*n"}) == ("BETTER", "atomics: -20 at n=10, m=4")
    assert judged({"atomics": "0"}) == ("SAME", "reads: equal at every size")


def test_text_that_is_no_formula_is_the_same_only_as_itself() -> None:
    unknown = replace(NOW, texts={"reads": "unknown", "writes": "4*n"})
    assert judged({"reads": "unknown"}, unknown) == ("SAME", "reads: the same formula")
    verdict, reason = judged({}, unknown)
    assert verdict == "INCOMPARABLE"
    assert reason.startswith("reads: the new formula cannot be read: ")
    same = judge({"reads": "unknown"}, unknown, nowhere).comparisons["reads"]
    assert same.reason == "the same formula"


def test_a_snapshot_whose_values_are_not_those_of_its_formulas() -> None:
    assert judged({"at": {"n=10, m=4": (80, 40)}})[0] == "SAME"
    assert judged({"at": {"n=10, m=4": (80, 41)}}) == (
        "INCOMPARABLE", "the snapshot contradicts itself: its writes are 41, and 40 by its formula",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("reads", "writes", "atomics", "verdict", "reason"),
    [
        (90, 40, 0, "SAME", "reads: equal at every size"),
        (93, 40, 0, "GROWTH", "reads: +3 at n=10, m=6, where a constant of the kernel is another"),
        (90, 32, 0, "BETTER", "writes: -8 at n=10, m=6, where a constant of the kernel is another"),
        (90, 40, 7, "GROWTH", "atomics: +7 at n=10, m=6, where a constant of the kernel is another"),
    ],
)
def test_the_bytes_at_another_constant_are_compared(reads: int, writes: int, atomics: int, verdict: str, reason: str) -> None:
    now = replace(NOW, texts={**NOW.texts, "atomics": "0"})
    points: list[Any] = []

    def derive_at(point: Any) -> Any:
        points.append(point)
        return derived(reads, writes, atomics)

    given = {"at": {"n=10, m=4": (80, 40), "n=10, m=6": (90, 40)}}
    found = judge(given, now, derive_at)
    assert (str(found.verdict), found.reason) == (verdict, reason)
    assert points == [THERE]
    witnesses = [one.witness for one in found.comparisons.values() if one.witness]
    assert [point for point, _, _ in witnesses] == [THERE] * (verdict != "SAME")


def test_bytes_that_are_no_longer_there_at_another_constant_are_zero() -> None:
    given = {"atomics": "0", "at": {"n=10, m=4": (80, 40, 0), "n=10, m=6": (90, 40, 5)}}
    with_atomics = judged(given, derive_at=lambda _: derived(90, 40, 5))
    assert with_atomics == ("SAME", "reads: equal at every size")
    without = judged(given, derive_at=lambda _: derived(90, 40))
    assert without == ("BETTER", "atomics: -5 at n=10, m=6, where a constant of the kernel is another")


def test_another_constant_where_nothing_can_be_derived() -> None:
    found = judge({"at": {"n=10, m=6": (90, 40)}}, NOW, nowhere)
    assert (str(found.verdict), found.reason) == (
        "INCOMPARABLE", "cannot be derived at n=10, m=6: not at {'n': 10, 'm': 6}",
    )  # fmt: skip
    assert list(found.comparisons) == ["reads", "writes"]


def test_more_sectors_at_another_point_are_another_growth() -> None:
    now = replace(NOW, facts={**NOW.facts, "sector_bytes": 64})

    def with_sectors(second: int, now: Recorded = now) -> tuple[str, str]:
        given = {"at": {"n=10, m=4": (80, 40), "n=10, m=6": (80, 40)}, "sector_bytes": (64, second)}
        return judged(given, now, lambda _: derived(sectors=96))

    label = "at n=10, m=6"
    assert with_sectors(96) == ("SAME", "reads: equal at every size")
    assert with_sectors(64)[0] == "GROWTH"
    assert with_sectors(64)[1].endswith(f"{label}: 64 -> 96")
    assert with_sectors(128)[0] == "BETTER"
    verdict, reason = with_sectors(64, replace(now, facts={**NOW.facts, "sector_bytes": 65}))
    assert (verdict, label in reason) == ("WORSE", False)  # the first point says enough


def test_sizes_and_conditions_of_the_snapshot() -> None:
    assert judged({"at": {"n=10, k=4": (80, 40)}}) == ("INCOMPARABLE", "the snapshot's sizes are k, n, the test's m, n")
    validity = SimpleNamespace(conditions=(SimpleNamespace(met=lambda point: point["n"] > 10),))
    snapshot = snapshot_of(reads="8*n", writes="4*n", at={"n=10, m=4": (80, 40)})
    found = judge_snapshot(snapshot, NOW, derived(validity=validity), nowhere)
    assert found.reason == "the formulas hold under other conditions now, and not at n=10, m=4"


def test_formulas_that_hold_at_fewer_sizes_are_not_proven() -> None:
    narrow = replace(NOW, where=("n >= 2 and m % 4 == 0", "n <= 99"))
    assert judged({"where": "n >= 2 and m % 4 == 0 and n <= 99"}, narrow)[0] == "SAME"
    assert judged({"where": "n >= 2 and n <= 99"}, narrow) == ("UNSURE", "the formulas now hold only where m % 4 == 0")
    assert judged({}, narrow) == ("UNSURE", "the formulas now hold only where n >= 2 and m % 4 == 0 and n <= 99")
    assert judged({"reads": "6*n", "where": "n >= 2"}, narrow) == (
        "WORSE", "reads: +20 at n=10, m=4; the formulas now hold only where m % 4 == 0 and n <= 99",
    )  # fmt: skip
    by_hand = snapshot_of(reads="8*n", writes="4*n")
    assert str(judge_snapshot(by_hand, narrow, derived(), nowhere).verdict) == "SAME"
    with pytest.raises(UsageError, match="`where` of a snapshot is conditions in text"):
        judged({"where": " "})


def test_configurations_of_autotuned_kernels() -> None:
    held, other = "2, 0123456789ab", "2, ba9876543210"
    tuned = replace(NOW, choices=2, configurations=held, facts={**NOW.facts, "most_bytes": 120})
    given = {"configurations": held, "most_bytes": 120}
    assert judged(given, tuned) == ("SAME", "reads: equal at every size")
    changed = "other configurations, or other bytes or sectors in some: "
    assert judged({**given, "configurations": other}, tuned) == ("UNSURE", f"{changed}{other} -> {held}")
    assert judged({"most_bytes": 120}, tuned) == ("UNSURE", f"{changed}not held -> {held}")
    assert judged({"configurations": held}) == ("UNSURE", f"{changed}{held} -> none")
    assert judged({"configurations": held}, tuned) == (
        "UNSURE", "the formulas are those of one of 2 configurations, and the snapshot has no most_bytes of all",
    )  # fmt: skip
    assert judged(given, replace(tuned, unknown="BLOCK=64")) == ("UNSURE", "the bytes of BLOCK=64 are not exact")
    by_hand = snapshot_of(reads="8*n", writes="4*n", most_bytes=120)
    assert str(judge_snapshot(by_hand, tuned, derived(), nowhere).verdict) == "SAME"
    with pytest.raises(UsageError, match="is no fingerprint of configurations"):
        judged({"configurations": "2"})


def test_a_fact_beside_equal_bytes_and_beside_more() -> None:
    now = replace(NOW, facts={**NOW.facts, "registers": 50})
    assert judged({"registers": 40}, now) == ("WORSE", "registers of a thread: 40 -> 50")
    assert judged({"registers": 60}, now) == ("BETTER", "registers of a thread: 60 -> 50")
    assert judged({"registers": 60, "reads": "6*n"}, now) == (
        "WORSE", "reads: +20 at n=10, m=4; registers of a thread: 60 -> 50",
    )  # fmt: skip


def test_another_toolchain_passes_only_where_allowed_and_equal() -> None:
    now = replace(NOW, header=replace(MOVED, triton="3.9.0"))
    moved = f"the toolchain moved: {MADE_WITH} -> triton 3.9.0, cuda:90, ir ba9876543210"
    equal = "; the formulas are proven equal (--traffic-cross-toolchain lets that pass)"
    assert judged({}, now) == ("INCOMPARABLE", moved + equal)
    assert judged({}, now, cross_toolchain=True) == ("SAME", "reads: equal at every size")
    assert judged({"reads": "6*n"}, now, cross_toolchain=True) == ("INCOMPARABLE", moved)
    assert list(judge({}, now, nowhere).comparisons) == ["reads", "writes"]  # which the message shows


def test_a_missing_snapshot_says_what_else_is_wrong() -> None:
    now = replace(NOW, facts={**NOW.facts, "registers": 50}, unknown="BLOCK=64")

    def missing(**given: Any) -> tuple[str, str]:
        found = judge_snapshot(snapshot_of(**given), now, derived(), nowhere)
        return str(found.verdict), found.reason

    unknown = "the bytes of BLOCK=64 are not exact"
    assert missing() == ("INCOMPARABLE", f"the snapshot is missing; {unknown}")
    assert missing(registers=40) == ("WORSE", f"the snapshot is missing; registers of a thread: 40 -> 50; {unknown}")


def test_what_needs_machine_code_and_other_configurations() -> None:
    assert [snapshot_of(**one).needs_machine_code for one in ({}, {"max_spills": 0}, {"registers": 1}, {"max_bytes": 1})] == [
        False, True, True, False,
    ]  # fmt: skip
    formulas = {"reads": "n", "writes": "n"}
    assert snapshot_of(**formulas, max_bytes=3, registers=4).budgets == {"max_bytes": 3}
    tuned: tuple[dict[str, Any], ...] = ({}, {"most_bytes": 1}, {"configurations": "2, 0123456789ab"})
    assert [snapshot_of(**formulas, **one).holds_configurations for one in tuned] == [False, True, True]


def test_bytes_that_are_not_exact_have_no_verdict() -> None:
    """The note of a Triton kernel comes first, then one of the whole."""
    kernels = (
        Launch("t", origin="torch", exact=False, notes=("of torch",)),
        Launch("a", exact=True, notes=("of a",)),
        Launch("b", exact=False, notes=("of b",)),
    )
    snapshot = snapshot_of(reads="8*n", writes="4*n")
    said = "the bytes are not exact, and a snapshot holds exact ones: "
    for launches, notes, why in (
        (kernels, ("of all",), "of b"),
        (kernels[:2], ("of all",), "of all"),
        ((), (), "see `ioaware derive`"),
    ):
        found = judge_snapshot(snapshot, NOW, derived(exact=False, launches=launches, notes=notes), nowhere)
        assert (str(found.verdict), found.reason) == ("INCOMPARABLE", said + why)


def test_no_sectors_at_a_point_are_a_number_too() -> None:
    given = {"at": {"n=10, m=4": (80, 40), "n=10, m=6": (80, 40)}, "sector_bytes": (0, 0)}
    now = replace(NOW, facts={**NOW.facts, "sector_bytes": 0})
    assert judged(given, now, lambda _: derived(sectors=0)) == ("SAME", "reads: equal at every size")
