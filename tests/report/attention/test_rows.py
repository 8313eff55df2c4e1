"""Sentences and rows of the report's sections.

Each is from the data that it is about.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace

import pytest

from ioaware.analysis.theory.claims.claim import Comparison, Part, conclude
from ioaware.cases import CASES
from ioaware.prediction import predict
from ioaware.report.attention.headline_rows import PRINTED, counted, each_matrix_once_gbytes, heads_of_flops
from ioaware.report.attention.race_answers import answers
from ioaware.report.attention.race_rows import losses, race_rows
from ioaware.report.attention.system_rows import small_params, system_sections
from ioaware.report.attention.text_rows import evidence_rows
from ioaware.report.attention.verdict_rows import TITLES, verdict_rows
from ioaware.result import Launch, Result
from ioaware.simulation.accuracy import PredictedLaunch, Prediction
from ioaware.sweep.claim_evidence import recorded_race
from ioaware.sweep.verify import CLAIMS


def checks_of(name: str, **wrong: int) -> dict[str, Result]:
    result = predict(name, **small_params(CASES[name]))  # pyright: ignore[reportArgumentType]
    assert result.requested is not None
    seen = replace(result, requested=replace(result.requested, **wrong))
    return {"derive": replace(result, source="derive"), "trace": replace(seen, source="trace")}


def section(name: str, checks: dict[str, Result], measured: list[Result], predictions: Sequence[Prediction] = ()) -> dict:
    families = system_sections({name: checks}, measured, predictions)
    return next(case for family in families for case in family["cases"] if case["name"] == name)


def test_every_case_has_a_section_with_its_formula() -> None:
    cases = [case for family in system_sections({}, []) for case in family["cases"]]
    assert sorted(case["name"] for case in cases) == sorted(CASES)
    for case in cases:
        assert case["formulas"], case["name"]
        assert all(row["formula"].startswith("<math>") or row["text"] for row in case["formulas"])
        assert case["recorded"] == "not measured"
        assert case["check"]["verdict"] == "not checked in this run"


def test_a_check_says_whether_the_sources_agree() -> None:
    assert section("gqa", checks_of("gqa"), [])["check"]["verdict"] == "agree"
    differs = section("gqa", checks_of("gqa", read_bytes=1), [])["check"]
    assert (differs["verdict"], differs["tone"]) == ("differ", "fails")
    failed = checks_of("gqa") | {"derive": Result("derive", "gqa", {}, status="failed")}
    assert section("gqa", failed, [])["check"]["verdict"] == "no number from derive"


def test_recorded_points_stand_in_their_section() -> None:
    result = replace(predict("gqa", heads=4, kv_heads=2), source="measure")
    shown = section("gqa", {}, [result])
    assert shown["recorded"] == "1 point, 1.0000×"
    assert [one["text"] for one in shown["rows"][0]][2:4] == ["1.00000", "1.00000"]


def test_what_recorded_points_have_in_common_stands_above_them_once() -> None:
    points = [replace(predict("gqa", heads=heads, kv_heads=2), source="measure") for heads in (4, 8)]
    shown = section("gqa", {}, points)
    assert "kv_heads=2" in shown["common"]
    assert [row[0]["text"] for row in shown["rows"]] == ["heads=4", "heads=8"]
    twice = section("gqa", {}, [points[0], points[0]])
    assert [row[0]["text"] for row in twice["rows"]] == ["as above"] * 2


def test_a_number_within_its_limit_does_not_deviate() -> None:
    within, above = Comparison("a", "N=1", 0.5, 0.1, "at most"), Comparison("a", "N=2", 0.5, 0.6, "at most")
    equal, off = Comparison("b", "N=3", 2, 2), Comparison("b", "N=4", 2, 1)
    rows = [asdict(one) for one in (within, above, equal, off)]
    assert [row[1] for row in evidence_rows(rows)[0]] == ["N=4", "N=2"]
    many = [Part("a", "says", "1", "1", 1000, "holds")] * 25
    claim = conclude("theorem1", "says", "source", parts=many, points=[within, above, equal, off])
    (shown,) = verdict_rows([claim])
    assert shown["agreeing"] == "Numbers that agree with theory: 1 equal, 1 within the limit."
    assert shown["parts_left"] == "1 more check in the command's output"
    assert shown["parts"][0]["points"] == "1,000"


def test_the_ratio_farthest_from_1_has_its_cause() -> None:
    result = replace(predict("gqa", heads=4, kv_heads=2), source="measure")
    asked = result.requested
    assert asked is not None
    reads, writes = asked.read_bytes or 0, asked.write_bytes or 0
    launch = Launch("kernel", (1, 1, 1))

    def said(predictions: Sequence[Prediction] = (), spilled: int = 0, **changes: int) -> str:
        point = replace(result, requested=replace(asked, **changes), launches=(replace(launch, local_bytes=spilled),))
        return section("gqa", {}, [point], predictions)["recorded"]

    assert said(read_bytes=reads // 2) == "1 point, 0.500×: L1 hits"
    assert said(write_bytes=8 * writes) == "1 point, 8.00×"
    assert said(spilled=8, write_bytes=2 * writes) == "1 point, 2.00×: spilled registers"
    sectors = PredictedLaunch("kernel", reads, 8 * writes, 0, 0, (0, 0), (0, 0), fills_l2=False)
    assert said([Prediction("gqa", dict(result.params), (sectors,))], write_bytes=8 * writes) == "1 point, 8.00×: whole sectors"
    assert said([Prediction("gqa", dict(result.params), (sectors,))], write_bytes=7 * writes) == "1 point, 7.00×"


def test_the_printed_flops_are_those_of_64_heads() -> None:
    assert round(heads_of_flops()) == 64
    (standard, _), (flash, flash_bytes) = map(counted, PRINTED)
    heads = 64 * 16
    assert standard == pytest.approx(12 * 1024**2 * 64 * heads / 1e9)
    assert flash == pytest.approx(14 * 1024**2 * 64 * heads / 1e9)
    assert flash_bytes == pytest.approx(4.4, rel=0.06)
    assert each_matrix_once_gbytes() == pytest.approx((11 * 1024**2 + 12 * 1024 * 64) * 2 * heads / 1e9)


def test_rows_of_the_race_count_every_point_once_and_name_where_others_win() -> None:
    race = recorded_race()
    rows = race_rows(race)
    assert sum(row[4]["value"] for row in rows) == len(race)
    assert sum(row[7]["value"] for row in rows) == len(losses(race))
    said = " ".join(one["answer"] for one in answers(race, []))
    assert f"At {len(losses(race))} of {len(race)} points" in said
    assert list(answers([], [])) == []


def test_every_claim_has_a_title() -> None:
    """A theorem or proposition is called by its number."""
    numbered = {name for name in CLAIMS if name.startswith(("theorem", "proposition"))}
    assert set(TITLES) == set(CLAIMS) - numbered
