"""The page of a store or a study.

The tests cover points along a parameter, deviations and missing points.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ioaware.cli.reports.store_report import document_of
from ioaware.errors import UsageError
from ioaware.prediction import predict
from ioaware.report.chart import Figure
from ioaware.report.figures.labels import BELOW_COMPULSORY
from ioaware.report.pages.document import render
from ioaware.report.pages.stores.store_page import short_names, store_page
from ioaware.report.svg.bars import BarFigure
from ioaware.report.svg.legend import legend
from ioaware.result import Result, Traffic
from ioaware.sweep.points import make_point
from ioaware.sweep.store import Store
from tests.support.hostile_texts import PAYLOADS, RAW_NEVER, Structure
from tests.support.page_data import page_data


def measured(n: int, extra: int = 0) -> Result:
    formula = predict("flash2", seq_len=n)
    assert formula.requested is not None
    assert formula.requested.read_bytes is not None
    moved = Traffic(formula.requested.read_bytes + extra, formula.requested.write_bytes)
    return Result("measure", "flash2", formula.params, moved, time_ns=1e4)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "some.db"
    with Store(path) as opened:
        for result in (measured(256), measured(512), measured(1024, extra=10_000)):
            opened.add(make_point("measure", "flash2", dict(result.params)), result, machine="a GPU")
    return path


def test_measured_points_are_shown_with_their_predictions(store: Path) -> None:
    page = render(document_of(store, None))
    rows = page_data(page)["target0"]["rows"]
    assert {row[3] for row in rows if row[2] == "requested, measured"} == {256, 512, 1024}
    assert {row[3] for row in rows if row[2] == "requested, predicted"} == {256, 512, 1024}
    assert "6 points of 1 target:" in page
    assert page.count(">0 %<") == 2  # the third differs


def test_a_study_lists_missing_points(store: Path, tmp_path: Path) -> None:
    study = tmp_path / "mine.toml"
    study.write_text(
        'title = "Mine"\n[[grid]]\nsources = ["measure"]\ntargets = ["flash2"]\nparams = { seq_len = [256, 2048] }\n'
    )
    page = render(document_of(store, str(study)))
    assert "<h1>Mine</h1>" in page
    assert "1 of 2 points of the study have no result here." in page


@pytest.mark.parametrize("study", ["h200-length", "h200-hopper", "h200-headline", "h200-order"])
def test_a_shipped_study_shows_recorded_points_without_a_store(study: str) -> None:
    """Targets of a module leave defaults out; some studies are in files of their own."""
    page = render(document_of(None, study))
    assert "no result here" not in page
    assert "deviation" in page


def test_bytes_below_the_compulsory_ones_are_explained() -> None:
    def page(hbm: int) -> str:
        traffic = {"hbm": Traffic(hbm, 0), "compulsory": Traffic(100, 0)}
        return render(
            store_page("t", [Result("measure", "a", {"n": n}, Traffic(200, 0), **traffic) for n in (1, 2, 3)], "", ())
        )

    assert BELOW_COMPULSORY in page(99)
    assert BELOW_COMPULSORY not in page(100)


def test_no_store(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        document_of(None, "no-such-study")


def test_hostile_texts_are_escaped() -> None:
    def page(texts: tuple[str, ...]) -> str:
        results = [
            Result("measure", text, {text: number, "s": text}, Traffic(number, 1), time_ns=1.0, notes=(text,))
            for number, text in enumerate(texts, 1)
            for _ in "ab"
        ]
        results += [Result("measure", texts[0], {texts[1]: number}, Traffic(number, 1)) for number in (1, 2, 3)]
        return render(store_page(texts[0], results, texts[1], texts))

    hostile, harmless = page(PAYLOADS), page(tuple(f"harmless {number}" for number in range(50)))
    assert [payload for payload in RAW_NEVER if payload in hostile] == []
    assert {tag for tag, _ in Structure(hostile).tags} - {"wbr"} == {tag for tag, _ in Structure(harmless).tags}


def test_no_results() -> None:
    assert "0 points of 0 targets: none." in render(store_page("empty", [], "ioaware report --store empty.db"))


def test_a_figure_has_points_that_differ_in_one_parameter_alone() -> None:
    sizes = ((64, 512), (64, 1024), (64, 2048), (128, 4096))
    points = [
        Result("measure", "k.py:f", {"d": d, "n": n, "causal": False}, Traffic(4 * n, 4 * n), hbm=Traffic(n, n))
        for d, n in sizes
    ]
    page = store_page("A store", points, "ioaware report --store s.db")
    figure = page.figures[0].figure
    assert isinstance(figure, Figure)
    assert "over n" in figure.title
    assert "At causal=False, d=64." in figure.caption
    assert {x for panel in figure.cells[0].panels for one in panel.series for x in one.x} == {512, 1024, 2048}
    assert page.values["common"] == "causal=False"
    assert page.values["only"] == "measured"
    assert page.values["rows"][0][1]["text"] == "d=64, n=512"
    apart = store_page("A store", [points[0], points[3]], "")
    assert [shown.figure.name for shown in apart.figures] == ["alone"], "no curve"


def of(source: str, n: int, moved: int, **more: Traffic) -> Result:
    return Result(source, "k", {"n": n}, Traffic(moved, 0), compulsory=Traffic(n, 0), **more)  # pyright: ignore[reportArgumentType]


def test_derived_lines_are_told_from_predicted_ones() -> None:
    """They lie upon each other where both are right."""
    page = store_page("x", [of(source, n, 4 * n) for source in ("predict", "derive") for n in (1, 2, 3)], "")
    figure = page.figures[0].figure
    assert isinstance(figure, Figure)
    drawn = figure.cells[0].panels[0].series
    assert {one.name for one in drawn} == {
        f"{place}, {how}" for place in ("requested", "compulsory") for how in ("predicted", "derived")
    }
    assert len({(one.color, one.mark) for one in drawn}) == 4
    assert [one.name for one in drawn][:2] == ["requested, predicted", "compulsory, predicted"], "derived ones are drawn above"


def test_the_legend_names_each_line() -> None:
    """A form without a meaning has no name of its own."""
    page = store_page("x", [of(source, n, 4 * n) for source in ("predict", "derive", "trace") for n in (1, 2, 3)], "")
    names = [item.name for item in legend(page.figures[0].figure)]  # pyright: ignore[reportArgumentType]
    assert names == [
        "requested, predicted", "compulsory, predicted", "requested, derived", "compulsory, derived", "requested, traced",
    ]  # fmt: skip


def test_a_function_is_named_without_its_module_where_that_is_clear() -> None:
    assert short_names(["a.b:f", "flash2", "c.py:g", "d.py:g", ""]) == {
        "a.b:f": "f", "flash2": "flash2", "c.py:g": "c.py:g", "d.py:g": "d.py:g", "": "",
    }  # fmt: skip
    page = render(store_page("x", [Result("measure", "a.b:f", {"n": 1}, Traffic(1, 1))], ""))
    assert "f: a.b:f." in page


def test_a_formula_is_a_column_beside_what_it_predicts() -> None:
    """A row of its own says the same again, unless two formulas differ."""
    rows = [of("predict", 1, 100), of("derive", 1, 110), of("measure", 1, 120), of("predict", 2, 200)]
    page = store_page("x", rows, "")
    names = [one["name"] for one in page.values["columns"]]
    texts = [[one["text"] for one in row] for row in page.values["rows"]]
    shown = [dict(zip(names, row, strict=True)) for row in texts]
    assert [(row["source"], row["formula"], row["requested"], row["deviation"]) for row in shown] == [
        ("predict", "200 B", "", ""),
        ("derive", "100 B", "110 B", "10 %"),
        ("measure", "100 B", "120 B", "20 %"),
    ]
    assert "HBM" not in names, "no point has them"
    assert "status" not in names, "all points are ok"


def test_points_without_a_curve_are_bars() -> None:
    single = [of("measure", 1, 120, hbm=Traffic(60, 0)), of("predict", 1, 100)]
    page = store_page("x", single, "a command")
    (shown,) = page.figures
    assert isinstance(shown.figure, BarFigure)
    assert [(bar.name, bar.value) for bar in shown.figure.bars] == [("k: requested, measured", 120), ("k: HBM, measured", 60)]
    assert page.values["targets_left"] == 0
    many = [Result("measure", f"k{number}", {"n": 1}, Traffic(1, 0), hbm=Traffic(1, 0)) for number in range(20)]
    assert store_page("x", many, "").values["targets_left"] == 8


def test_points_are_in_the_order_of_their_numbers() -> None:
    page = render(store_page("x", [measured(n) for n in (1024, 256, 8192, 512)], "ioaware report"))
    assert re.findall(r">seq_len=(\d+)<", page) == ["256", "512", "1024", "8192"]
