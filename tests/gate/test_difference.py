"""Differences of two rows: growth is WORSE, another toolchain is INCOMPARABLE.

A lost TMA load and a new spill are growth.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ioaware.errors import IoawareError
from ioaware.gate.difference import compare_texts, difference
from ioaware.gate.differences import differences
from ioaware.gate.row import Row, row_of
from ioaware.gate.sides import Request, rows_of_sides
from ioaware.gate.verdict import Verdict
from ioaware.result_file import decode
from ioaware.sweep.points import Point
from ioaware.sweep.store import Store
from tests.support.gate_rows import document


def row(*args: Any, **kwargs: Any) -> Row:
    return row_of(document(*args, **kwargs), "row")


def changed_row(*args: Any, **kwargs: Any) -> Row:
    return row(*args, **{"ir_hash": "ba9876543210", **kwargs})


@pytest.mark.parametrize(
    ("new", "verdict"),
    [
        (row(), Verdict.SAME),
        (changed_row(), Verdict.SAME),  # another kernel, the same bytes
        (changed_row("12*n", 12_000), Verdict.WORSE),
        (changed_row("4*n", 4_000), Verdict.BETTER),
        (changed_row("8*n + n*n - 1000*n"), Verdict.GROWTH),
        (changed_row(local_bytes=8), Verdict.WORSE),
        (changed_row(registers=255, shared_bytes=9), Verdict.SAME),  # shown, and no growth of bytes
        (changed_row("nonsense("), Verdict.INCOMPARABLE),
        (changed_row("12*n", 12_000, triton="3.9.0"), Verdict.INCOMPARABLE),
        (changed_row(triton="3.9.0"), Verdict.INCOMPARABLE),  # equal, of another compiler
        (row("12*n", 12_000), Verdict.INCOMPARABLE),  # the same IR: ioaware derives it differently
    ],
)
def test_verdicts(new: Row, verdict: Verdict) -> None:
    assert difference(row(), new).verdict is verdict


def test_equal_rows_of_two_toolchains_pass_where_that_is_asked_for() -> None:
    assert difference(row(), changed_row(triton="3.9.0"), cross_toolchain=True).verdict is Verdict.SAME
    assert difference(row(), changed_row("12*n", 12_000, triton="3.9.0"), cross_toolchain=True).verdict is Verdict.INCOMPARABLE


def tuned(*reads: int | None, **launch: Any) -> Row:
    """Return a row of an autotuned kernel, by the bytes read for each n.

    There is one number for each configuration, and None for one whose bytes are not exact. Without any it is a saved
    derivation.
    """
    made = document(configuration={"BLOCK": 64}, **launch)
    each = [document(f"{one or 8}*n", (one or 8) * 1000, configuration={}) | {"exact": one is not None} for one in reads]
    known = {"by_configuration": {f"k with BLOCK={place}": one for place, one in enumerate(each)}} if reads else {}
    return row_of(made | known, "row")


@pytest.mark.parametrize(
    ("old", "new", "verdict"),
    [
        (tuned(8, 9), tuned(8, 9), Verdict.SAME),
        (tuned(8, 9), tuned(8, 9, 8), Verdict.SAME),  # a new configuration, and none moves less
        (tuned(8, 9), tuned(8, 9, 9), Verdict.UNSURE),  # the autotuner may leave the first for it
        (tuned(8, 9), tuned(8), Verdict.BETTER),
        (tuned(8, 12), tuned(8, 13), Verdict.WORSE),  # the same first configuration, so the same IR
        (tuned(8, 10, 12), tuned(8, 11, 12), Verdict.WORSE),  # not the one that moves most
        (tuned(8, 11, 12), tuned(8, 10, 12), Verdict.BETTER),
        (row(), tuned(8, 13), Verdict.WORSE),
        (tuned(8, 13), row(), Verdict.BETTER),
        (tuned(8, 12), tuned(8, None), Verdict.UNSURE),
        (tuned(), tuned(), Verdict.UNSURE),
        (tuned(), tuned(8, 12), Verdict.UNSURE),
    ],
)
def test_all_configurations_of_an_autotuner_are_compared(old: Row, new: Row, verdict: Verdict) -> None:
    assert difference(old, new).verdict is verdict


def test_why_configurations_are_not_compared() -> None:
    assert difference(tuned(8, 9), tuned(None)).reason.endswith("not known for all configurations: choose one with --config")
    saved = "most bytes: a saved derivation holds one configuration of its autotuner: compare the targets themselves"
    assert difference(tuned(), tuned(8, 9)).reason == saved
    found = difference(tuned(8, 10, 12), tuned(8, 11, 12))
    assert found.reason == "reads, k with BLOCK=1: +1,000 at n=1000"
    assert [entry.name for entry in found.rows if entry.verdict is Verdict.WORSE] == [
        "reads, k with BLOCK=1", "read_sectors, k with BLOCK=1",
    ]  # fmt: skip
    new = difference(tuned(8, 9), tuned(8, 9, 9)).reason
    assert new == "bytes, k with BLOCK=2: a new configuration, and one of the old side moves 12,000 B"


def row_without_spills() -> Row:
    found = document(ir_hash="ba9876543210")
    del found["launches"][0]["local_bytes"]
    return row_of(found, "row")


def test_a_resource_that_is_unknown_on_one_side_is_incomparable() -> None:
    assert difference(row(), row_without_spills()).verdict is Verdict.INCOMPARABLE
    assert difference(row_without_spills(), row_without_spills()).verdict is Verdict.SAME


def test_atomics_that_are_unknown_are_held_and_other_unknown_bytes_are_not() -> None:
    def unknown(*kinds: str) -> Row:
        made = changed_row()
        return replace(made, bytes={**made.bytes, **dict.fromkeys(kinds)})

    found = difference(unknown("atomics"), unknown("atomics"))
    assert [(one.verdict, one.reason) for one in found.rows if one.name == "atomics"] == [(Verdict.INCOMPARABLE, "unknown")]
    assert {one.name: one.gated for one in found.rows}["atomics"]
    assert found.verdict is Verdict.INCOMPARABLE
    sectors = unknown("read_sectors", "write_sectors")
    assert difference(sectors, sectors).verdict is Verdict.SAME
    assert difference(changed_row(), sectors).verdict is Verdict.INCOMPARABLE


def test_other_numbers_of_the_same_ir_are_of_another_ioaware() -> None:
    found = difference(row(), row("12*n", 12_000))
    assert found.reason == "the same IR, arguments and grids: ioaware derives them differently now"


def test_a_lost_tma_load_is_worse_and_a_gained_one_better() -> None:
    with_tma, without = changed_row(tma_loads=2), row(tma_loads=1)
    assert difference(with_tma, without).verdict is Verdict.WORSE
    assert difference(without, with_tma).verdict is Verdict.BETTER


def test_more_sectors_of_the_same_bytes_are_worse() -> None:
    scattered = changed_row()
    scattered = replace(scattered, bytes={**scattered.bytes, "read_sectors": 32_000})
    found = difference(row(), scattered)
    assert (found.verdict, found.reason) == (Verdict.WORSE, "read_sectors: +24,000")


def test_other_sizes_and_inexact_sides_are_incomparable() -> None:
    other = replace(row(), params={"n": 2000})
    assert difference(row(), other).reason == "n is 1000 and 2000: give both the same with -p"
    for old, new in ((False, True), (True, False), (False, False)):
        found = difference(replace(row(), exact=old), replace(row(), exact=new))
        assert found.verdict is Verdict.INCOMPARABLE


def test_the_json_is_stable() -> None:
    found = difference(row(), changed_row("12*n", 12_000)).to_dict()
    assert list(found) == ["schema", "verdict", "reason", "old", "new", "rows"]
    assert found["rows"][0] == {
        "name": "reads", "old": 8_000, "new": 12_000, "old_formula": "8*n", "new_formula": "12*n",
        "verdict": "WORSE", "reason": "+4,000 at n=1000", "gated": True,
    }  # fmt: skip


def test_rows_are_paired_completely() -> None:
    others = [row(), replace(changed_row("12*n", 12_000), target="other.py:f")]
    before = [replace(one, formulas=row().formulas, bytes=row().bytes, header=row().header) for one in others]
    found = differences(before, others)
    assert found.verdict is Verdict.WORSE
    assert [part.new.target for part in found.parts] == ["other.py:f", "add.py:add"]
    for olds, news in ((before, others[:1]), (before[:1], others), (before, [others[0], others[0]])):
        with pytest.raises(IoawareError) as raised:
            differences(olds, news)
        assert raised.value.exit_code == 4


def test_rows_of_a_store(tmp_path: Path) -> None:
    """Two stores are compared record by record.

    One without a derived record is no baseline.
    """
    result = decode(json.dumps(document()))
    with Store(tmp_path / "old.db") as store:
        store.add(Point("derive", "add.py:add", {"n": 1000}), result)
    (row_stored,) = rows_of_sides((str(tmp_path / "old.db"),), Request({}, "cuda:90", {}))[0]
    assert difference(row_stored, row()).verdict is Verdict.SAME
    with Store(tmp_path / "empty.db"):
        pass
    with pytest.raises(IoawareError) as raised:
        rows_of_sides((str(tmp_path / "empty.db"),), Request({}, "cuda:90", {}))
    assert raised.value.exit_code == 4


def test_a_text_that_cannot_be_read_is_the_same_only_as_itself() -> None:
    same, other = (compare_texts("?", new, {}, []) for new in ("?", "!"))
    assert (same.verdict, same.reason) == (Verdict.SAME, "the same formula")
    assert other.verdict is Verdict.INCOMPARABLE


def with_torch(assumed: dict[str, Any] | None = None, conditions: tuple[str, ...] = ()) -> Row:
    found = document()
    if assumed:
        found["assumed"] = assumed
    return row_of({**found, "conditions": list(conditions)}, "row")


COPY = {"read_bytes": 4_000, "write_bytes": 4_000, "read_formula": "4*n", "write_formula": "4*n"}


def test_a_copy_by_torch_is_worse_though_the_kernels_are_the_same() -> None:
    found = difference(with_torch(), with_torch(COPY))
    assert (found.verdict, found.reason) == (Verdict.WORSE, "torch reads: +4,000 at n=1000")
    assert difference(with_torch(COPY), with_torch()).verdict is Verdict.BETTER
    assert difference(with_torch(COPY), with_torch(COPY)).verdict is Verdict.SAME
    assert "torch reads" not in [entry.name for entry in difference(with_torch(), with_torch()).rows]


def test_bytes_of_torch_that_are_unknown_are_incomparable() -> None:
    found = difference(with_torch(), with_torch({"write_bytes": 0, "write_formula": "0"}))
    assert (found.verdict, found.reason) == (Verdict.INCOMPARABLE, "torch reads: unknown on one side")


def test_formulas_that_hold_at_fewer_sizes_are_not_the_same() -> None:
    branch = ("n <= 10000",)
    found = difference(with_torch(), with_torch(conditions=branch))
    assert (found.verdict, found.reason) == (Verdict.UNSURE, "the new formulas hold only where n <= 10000")
    assert difference(with_torch(conditions=branch), with_torch(conditions=branch)).verdict is Verdict.SAME
    assert difference(with_torch(conditions=branch), with_torch()).verdict is Verdict.SAME
    assert difference(with_torch(), with_torch(conditions=("4*n - 1 <= 2147483647",))).verdict is Verdict.SAME
