"""Recorded counters of third-party kernels against derived terms.

The document made of both is tested too.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from ioaware.result import Launch, Result, total
from ioaware.result_file import read_jsonl, write_jsonl
from ioaware.simulation.accuracy import point_key
from ioaware.simulation.predictions import RECORDED, read_predictions
from ioaware.sweep.study import find_study
from ioaware.targets.loading import load_file
from ioaware.targets.target import load_target

ROOT = Path(__file__).parents[2]
RECORDS = Path(str(files("ioaware"))) / "recorded" / "foreign"


@pytest.fixture(scope="module")
def hold() -> ModuleType:
    return load_file(ROOT / "scripts" / "foreign" / "hold.py")


def page() -> Any:
    return load_file(ROOT / "scripts" / "foreign" / "counters_page.py")


@cache
def read_records(name: str) -> list[Result]:
    return list(read_jsonl(RECORDS / f"{name}.jsonl"))


def edit_first_launch(change: Callable[[Launch], Launch]) -> list[Result]:
    """Return the measurements with the first launch of the first one changed."""
    first, *others = read_records("measured")
    return [replace(first, launches=(change(first.launches[0]), *first.launches[1:])), *others]


def counting(**more: int) -> Callable[[Launch], Launch]:
    """Return a change of counters, named by the last words of their names."""

    def change(launch: Launch) -> Launch:
        counters = dict(launch.counters or {})
        for ending, by in more.items():
            (name,) = (name for name in counters if name.endswith(f"{ending}.sum"))
            counters[name] += by
        return replace(launch, counters=counters)

    return change


def test_the_committed_document_follows_from_the_records(hold: ModuleType, tmp_path: Path) -> None:
    hold.main([str(RECORDS), "-o", str(tmp_path / "page.md")])
    text = (ROOT / "docs" / "results" / "derive-against-counters.md").read_text(encoding="utf-8")
    assert (tmp_path / "page.md").read_text(encoding="utf-8") == text


def test_kernels_of_the_first_study_have_two_sizes_each(hold: ModuleType) -> None:
    points = {(row.target, row.kernel, str(row.params)) for row in hold.rows(read_records("measured"), read_records("derived"))}
    sizes = Counter((target, kernel) for target, kernel, _ in points)
    assert len(sizes) >= 20
    assert set(sizes.values()) == {2}


def test_the_terms_of_every_launch_sum_to_its_counters(hold: ModuleType) -> None:
    found = hold.rows(read_records("measured"), read_records("derived"))
    assert [row.kernel for row in found if not row.closed] == []
    sides = [side for row in found for side in (row.reads, row.writes)]
    assert all(side.asked == side.asked_counted for side in sides)
    alone = [side for side in sides if side.alone and side.asked == side.elements]
    assert len(alone) > 60
    assert all(side.passed == side.elements for side in alone)


@pytest.mark.parametrize("more", [{"global_op_ld": 1}, {"global_op_st": 1}, {"op_tma_ld": 32}, {"op_tma_st": 32}])
def test_one_more_sector_is_detected(hold: ModuleType, more: dict[str, int]) -> None:
    if "global_op_ld" in more:  # another counter's name has the same ending
        more = {"lsu_mem_global_op_ld": 1}
    if "global_op_st" in more:
        more = {"lsu_mem_global_op_st": 1}
    found = hold.rows(edit_first_launch(counting(**more)), read_records("derived"))
    assert not found[0].closed
    assert all(row.closed for row in found[1:])


def test_uncounted_hits_are_detected(hold: ModuleType) -> None:
    """1 % fewer bytes than the terms give. For writes, fewer than whole accesses need."""

    def less(name: str) -> Callable[[Launch], Launch]:
        def change(launch: Launch) -> Launch:
            assert launch.requested is not None
            moved = getattr(launch.requested, name)
            return replace(launch, requested=replace(launch.requested, **{name: moved * 99 // 100}))

        return change

    for name in ("read_bytes", "write_bytes"):
        assert not hold.rows(edit_first_launch(less(name)), read_records("derived"))[0].closed


def test_another_grid_or_kernel_is_not_compared(hold: ModuleType) -> None:
    changes: list[dict[str, Any]] = [{"grid": (1, 1, 1)}, {"kernel": "other"}]
    for change in changes:
        with pytest.raises(ValueError, match=r"measured .* derived"):
            hold.rows(edit_first_launch(lambda launch, change=change: replace(launch, **change)), read_records("derived"))
    with pytest.raises(ValueError, match="failed"):
        hold.rows([replace(read_records("measured")[0], status="failed")], read_records("derived"))


def side(**changes: int | None) -> Any:
    """Return reads of 1100 bytes of sectors, with a term of each kind."""
    numbers = {"elements": 1000, "sectors": 1100, "asked": 1600, "asked_counted": 1600, "hits": 700, "spills": 50}
    made: Any = load_file(ROOT / "scripts" / "foreign" / "sides.py").Side(**numbers, atomics=0, passed=950)
    return replace(made, **changes)


def test_terms_add_up_to_the_counter() -> None:
    assert side().terms == (500, -700, 50)
    assert side().derived + sum(side().terms) == side().passed
    assert side().closed
    assert not side(passed=1000).closed
    assert side(sectors=None).terms == (600, -700, 50)


@pytest.mark.parametrize(
    ("changes", "merged", "tma", "causes"),
    [
        ({}, "L1 hits", False, "L1 hits"),
        ({"passed": 1105}, "L1 hits", False, ""),
        ({"passed": 1106, "hits": 0}, "L1 hits", False, "repeated instructions and spilled registers"),
        ({"passed": 1200, "spills": 700, "hits": 300}, "", False, "spilled registers and repeated instructions"),
        ({"passed": 1200, "hits": 0, "spills": 0}, "", True, "whole boxes"),
        ({"passed": 1200, "hits": 500, "spills": 0}, "L1 hits", False, "not explained"),
        ({"passed": 1000, "hits": 500, "spills": 0}, "merged stores", False, "not explained"),
        ({"passed": 1000, "hits": 600, "spills": 0}, "merged stores", False, "merged stores"),
        ({"sectors": 0, "asked": 0, "hits": 0, "passed": 50}, "", False, "spilled registers"),
        ({"passed": 1150, "atomics": 50}, "L1 hits", False, ""),
    ],
)
def test_what_moves_a_counter_away_from_derived_sectors(changes: dict[str, int], merged: str, tma: bool, causes: str) -> None:
    assert side(**changes).causes(merged, tma) == causes


def test_requests_that_data_decide_are_taken_as_counted(hold: ModuleType) -> None:
    """Then only the sum of the terms is tested, and the page says so."""
    derived = read_records("derived")
    first = replace(derived[0], launches=(replace(derived[0].launches[0], counters=None),))
    row = hold.rows(read_records("measured")[:1], [first])[0]
    assert row.closed
    assert not row.predicted
    assert row.reads.requests == row.reads.asked_counted
    found = [row, *hold.rows(read_records("measured"), derived)]
    assert "instructions as counted |" in hold.document(found, [], {"gpu": "", "triton": ""})


def test_each_launch_off_its_derived_sectors_is_counted_by_its_cause(hold: ModuleType) -> None:
    found = hold.rows(read_records("measured"), read_records("derived"))
    off = [row for row in found if row.reads.over_derived > 1.005]
    text = page().against_sectors
    assert f" {len(off)} read more: " in " ".join(text(found).split())
    for row in off:
        assert row.read_causes not in ("", "not explained")
    calm = replace(off[0], reads=replace(off[0].reads, passed=off[0].reads.sectors, atomics=0))
    assert "0 read more: none." in text([calm])
    odd = replace(off[0], reads=replace(off[0].reads, hits=off[0].reads.requests, spills=0))
    assert "1 read more: 1 by not explained." in " ".join(text([odd]).split())


def test_counters_leave_derived_sectors_for_known_reasons_only(hold: ModuleType) -> None:
    """Except at the launches that the page marks as not explained."""
    measured, derived = hold.records(RECORDS)
    there = [one for one in measured if not hold.why_not(one, derived.get(hold.point_of(one)))]
    found = [row for row in hold.rows(there, derived.values()) if row.exact]
    assert len({(row.target, row.kernel) for row in found}) >= 200
    assert all("not explained" not in row.read_causes + row.write_causes for row in found)
    rest = [row for row in found if abs(row.reads.rest) > 0.005 * (row.reads.requests + row.reads.spills)]
    assert sorted(row.kernel for row in rest) == [
        *("_bwd_kv_kernel", "_bwd_kv_kernel", "_bwd_q_kernel", "_chunk_cumsum_fwd_kernel", "embedding_kernel")
    ]
    for row in found:
        for one, least in ((row.reads, 0), (row.writes, min(row.writes.elements, row.writes.derived))):
            moved, most = one.passed - one.atomics, one.requests + one.again + one.spills
            assert row in rest or 0.995 * least <= moved <= 1.005 * most, (row.target, row.kernel)
    assert sum(row.reads.skipped != 0 for row in found) == 3
    assert all(row.writes.skipped == 0 for row in found)


def test_points_without_bytes_or_derivation_have_a_reason(hold: ModuleType, tmp_path: Path) -> None:
    first, second, third = read_records("measured")[:3]
    failed = replace(
        second, status="failed", requested=None, hbm=None, launches=(), notes=("a kernel | died (/a/b/c.py)\nlater",)
    )
    write_jsonl(tmp_path / "measured.jsonl", [first, failed, third])
    write_jsonl(tmp_path / "derived.jsonl", read_records("derived")[:1])
    hold.main([str(tmp_path), "-o", str(tmp_path / "page.md")])
    text = (tmp_path / "page.md").read_text(encoding="utf-8")
    assert "failed: a kernel \\| died (c.py) |" in text
    assert text.count("measured, and not derived |") == 1


def test_a_defect_of_derive_costs_one_point(
    hold: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(_: Result) -> Result:
        raise TypeError("cannot determine truth value")

    monkeypatch.setattr(hold, "derive_point", fail)
    assert hold.derive_or_say_why(read_records("measured")[0]) is None
    assert "TypeError: cannot determine truth value" in capsys.readouterr().err


def test_a_point_derived_again_is_of_the_configuration_that_ran(hold: ModuleType, tmp_path: Path) -> None:
    """The one derived in advance stays on record, and is not compared."""
    measured, derived = read_records("measured")[0], read_records("derived")[0]
    tuned = [
        replace(one, launches=(replace(one.launches[0], configuration={"BLOCK": block}),))
        for one, block in ((measured, 2), (derived, 1), (derived, 2))
    ]
    write_jsonl(tmp_path / "wide-a.jsonl", [replace(tuned[2], exact=False)])
    for name, result in zip(("measured", "wide", "wide-again"), tuned, strict=True):
        write_jsonl(tmp_path / f"{name}.jsonl", [result])
    _, found = hold.records(tmp_path)
    assert list(found.values()) == tuned[2:]
    with pytest.raises(ValueError, match=r"measured .*'BLOCK': 2.* derived .*'BLOCK': 1"):
        hold.rows(tuned[:1], tuned[1:2])


def test_points_that_wait_for_a_gpu_are_of_their_study() -> None:
    """Derived and predicted before they are measured, with the same requests."""
    study = find_study(str(ROOT / "scripts" / "foreign" / "h200-wide.toml"))
    points = {point_key(point.target, point.params) for point in study.points}
    derived = {point_key(one.target, one.params): one for one in read_records("wide-derived")}
    predicted = {point_key(one.target, one.params): one for one in read_predictions(RECORDED / "simulated" / "foreign.jsonl")}
    assert derived.keys() | predicted.keys() <= points
    assert not points & {point_key(one.target, one.params) for one in read_records("measured")}
    for key, prediction in predicted.items():
        launches = zip(derived[key].launches, prediction.launches, strict=True)
        for said, simulated in launches:
            assert said.kernel == simulated.kernel
            assert said.requested is not None
            assert simulated.requested_read_bytes in (said.requested.read_sector_bytes, said.requested.read_bytes)


@pytest.mark.parametrize("name", ["h200-foreign", "h200-wide", "h200-compiled"])
def test_points_of_the_studies_fit_their_targets(name: str) -> None:
    """Each target exists and takes the parameters, at two sizes."""
    points = find_study(str(ROOT / "scripts" / "foreign" / f"{name}.toml")).points
    targets = {name: load_target(str(ROOT / name)) for name in dict.fromkeys(point.target for point in points)}
    for point in points:
        assert targets[point.target].resolve(point.params)
    assert set(Counter(point.target for point in points).values()) == {2}


def test_measured_records_have_bytes_and_no_times() -> None:
    for result in read_records("measured"):
        assert result.status == "ok"
        assert result.time_ns is None
        assert result.requested == total(launch.requested for launch in result.launches)


def test_merged_stores_are_described_from_the_records(hold: ModuleType) -> None:
    """For launches with equal stores: the least and the largest share of bytes saved."""
    found = hold.rows(read_records("measured"), read_records("derived"))
    text = " ".join(page().merging(found).split())
    assert "`_seeded_dropout` 56 %, `_dropout` 70 %, `add_kernel` 83 %" in text
    assert "store whole sectors and share none it saved nothing" in text


def test_derived_records_name_no_folder_of_a_machine(hold: ModuleType) -> None:
    noted = Launch("k", notes=("sectors of tt.load at /somewhere/library/ops/norm.py:46 and /other/rope.py:5 at most",))
    assert hold.without_folders(noted).notes == ("sectors of tt.load at norm.py:46 and rope.py:5 at most",)
    found = [path for path in RECORDS.parent.rglob("*.jsonl") if re.search(r'[" ]/(tmp|root|home|work)/', path.read_text())]
    assert found == []
