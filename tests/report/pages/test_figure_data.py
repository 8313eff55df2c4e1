"""What `packed` writes small is what the page's script reads back."""

from __future__ import annotations

from ioaware.report.chart import Axis, Cell, Figure, Panel, Series
from ioaware.report.pages.figure_data import figure_data, packed
from ioaware.report.pages.figure_set import Shown
from ioaware.report.svg.bars import Bar, BarFigure, draw_bars
from tests.support.page_data import unpacked

X, Y = Axis("x", "number"), Axis("y", "number")
HOSTILE = "</script><b>;  ; 12"


def plot(*hover: str) -> Shown:
    xs = tuple(float(2**power) for power in range(len(hover)))
    series = Series("a", "neutral", "measure", xs, tuple(x / 3 for x in xs), hover)
    again = Series("b", "neutral", "measure", xs, xs, hover)
    panels = (Panel(Y, (series, again)), Panel(Y, (again,)))
    return Shown(Figure("f", "F", "", (Cell("", X, panels), Cell("", X, panels[:1]))), "ioaware f")


def test_a_plot_comes_back() -> None:
    shown = plot("kernel\n1 B", "kernel\n2 B", "", HOSTILE, HOSTILE + "\nkernel", "0", "; ;", "a, b,c, ", ",")
    data = figure_data(shown)
    small = packed(data)
    assert unpacked(small) == data["rows"]
    assert small["pieces"].count("kernel; ") == 1
    assert small["names"] == ["a", "b"]
    assert "rows" not in small
    assert [run[:3] for run in small["runs"]] == [[0, 0, 0], [0, 0, 1], [0, 1, 1], [1, 0, 0], [1, 0, 1]]
    assert [type(x) for x in small["runs"][0][3][:2]] == [int, int]
    assert small["runs"][0][4][1] == 0.666666667


def test_error_bars_are_columns() -> None:
    whiskers = Series("a", "neutral", "measure", (1.0, 2.0), (3.0, 4.0), ("one", "two"), spread=((2.5, 3.5), (4.0, 4.25)))
    curve = Series("b", "neutral", "predict", (1.0,), (3.0,))
    data = figure_data(Shown(Figure("f", "F", "", (Cell("", X, (Panel(Y, (whiskers, curve)),)),)), "ioaware f"))
    assert data["columns"][-2:] == ["low", "high"]
    assert [row[-2:] for row in data["rows"]] == [[2.5, 3.5], [4, 4.25], [None, None]]
    assert unpacked(packed(data)) == data["rows"]


def test_bars_are_as_they_are() -> None:
    shown = Shown(BarFigure("f", "F", "", (Bar("a; b", 3, "3 B"), Bar("a; b", None, ""))), "ioaware f")
    assert packed(figure_data(shown))["rows"] == [["a; b", 3, "3 B"], ["a; b", None, ""]]


def test_a_range_is_in_columns_of_its_own() -> None:
    bars = (Bar("HBM", 3, "3 B", interval=(2, 4), between="2 B to 4 B"), Bar("floor", 2, "2 B"))
    figure = BarFigure("f", "F", "", bars)
    data = figure_data(Shown(figure, "ioaware f"))
    assert data["columns"] == ["name", "value", "shown", "low", "high"]
    assert data["rows"] == [["HBM", 3, "3 B", 2, 4], ["floor", 2, "2 B", None, None]]
    assert "HBM: 2 B to 4 B" in draw_bars(figure, 400).svg
