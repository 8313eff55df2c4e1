"""Legends name every series once, on the page and above the PNG."""

from __future__ import annotations

from ioaware.report.chart import Axis, Cell, Figure, Mark, Panel, Series
from ioaware.report.svg.legend import heading, legend

X, Y = Axis("n", "size"), Axis("bytes", "bytes")


def series(name: str, color: str, mark: Mark, label: str = "") -> Series:
    return Series(name, color, mark, (1.0, 4.0), (1.0, 10.0), label=label)


def figure(*shown: Series) -> Figure:
    return Figure("f", "Bytes over n", "", (Cell("", X, (Panel(Y, shown),)),))


def test_each_series_is_named_and_hides_the_path_of_its_colour() -> None:
    seen = legend(
        figure(series("a path", "flash1", "path", "a"), series("a", "flash1", "measure"), series("b", "ink", "bound"))
    )
    assert [(item.name, item.series) for item in seen] == [("a", ("a", "a path")), ("b", ("b",))]


def test_colours_and_forms_stand_apart_where_that_is_shorter() -> None:
    marks: tuple[Mark, ...] = ("predict", "trace", "measure")
    shown = [series(f"{name}, {mark}", name, mark, name) for name in ("standard", "flash1", "flash2") for mark in marks]
    seen = legend(figure(*shown))
    assert [item.name for item in seen[:3]] == ["standard", "flash1", "flash2"]
    assert len(seen) == 6
    assert seen[0].series == ("standard, predict", "standard, trace", "standard, measure")


def test_the_heading_has_the_title_and_every_name_within_its_width() -> None:
    seen = legend(figure(*(series(f"series {number}", "flash1", "derive") for number in range(9))))
    drawing = heading("Bytes over n", seen, 300)
    assert ">Bytes over n<" in drawing.svg
    assert all(f">series {number}<" in drawing.svg for number in range(9))
    assert drawing.height > 4 * 18
    assert "<b>" not in heading("<b>", [], 300).svg
