"""Charts as SVG: marks at their values and escaped texts.

There is no style that the policy refuses.
"""

from __future__ import annotations

import re
from itertools import accumulate, pairwise
from xml.etree import ElementTree

import pytest

from ioaware.report.chart import Axis, Cell, Panel, Series
from ioaware.report.svg.bars import Bar, BarFigure, draw_bars
from ioaware.report.svg.elements import dots, path, tiled
from ioaware.report.svg.plot import CHARACTER, LEFT, NARROW, WIDE, draw_cell

SVG = "{http://www.w3.org/2000/svg}"
X, Y = Axis("n", "size"), Axis("bytes", "bytes")


def cell(*series: Series) -> Cell:
    return Cell("a cell", X, (Panel(Y, series),))


def line(**changes: object) -> Series:
    return Series(
        **{"name": "reads", "color": "flash1", "mark": "derive", "x": (1.0, 4.0, 16.0), "y": (1.0, 10.0, 100.0), **changes}
    )  # pyright: ignore[reportArgumentType]


def paths(svg: str, name: str) -> list[str]:
    return [one.get("d", "") for one in ElementTree.fromstring(svg).iter(f"{SVG}path") if name in one.get("class", "").split()]  # noqa: S314


def places(d: str) -> list[tuple[float, float]]:
    """Return the places of a path that goes from one to the next by steps."""
    numbers = [float(number) for number in re.findall(r"-?[\d.]+", d)]
    return list(zip(accumulate(numbers[::2]), accumulate(numbers[1::2]), strict=True))


def test_a_straight_line_of_logarithms_is_straight() -> None:
    (drawn,) = paths(draw_cell(cell(line()), WIDE, "").svg, "line")
    points = places(drawn)
    assert abs((points[0][0] + points[2][0]) / 2 - points[1][0]) < 0.02
    assert abs((points[0][1] + points[2][1]) / 2 - points[1][1]) < 0.02
    assert points[0][1] > points[2][1]  # more is higher


def test_marks_are_where_their_values_are() -> None:
    drawing = draw_cell(cell(line(), line(mark="measure", x=(4.0,), y=(10.0,))), WIDE, "").svg
    (curve,), (mark,) = paths(drawing, "line"), paths(drawing, "mark")
    assert places(curve)[1] == pytest.approx(places(mark.removesuffix("h0"))[0], abs=0.001)


def test_steps_of_a_path_add_up() -> None:
    points = [(x * 1.26, 50 - x * 1.17) for x in range(100)]
    for (x, y), (left, top) in zip(places(path(points)), points, strict=True):
        assert abs(x - left) < 0.0501
        assert abs(y - top) < 0.0501


def test_marks_of_one_place_are_one() -> None:
    assert dots([(1.0, 2.0), (4.04, -1.0), (1.0, 2.01)]) == "M1,2h0m3-3h0"


def test_a_narrow_cell_fits_its_width_and_leaves_out_names_at_the_ends() -> None:
    series = line(label="requested")
    wide, narrow = (draw_cell(cell(series), width, "") for width in (WIDE, NARROW))
    assert ">requested<" in wide.svg
    assert ">requested<" not in narrow.svg
    assert narrow.width == NARROW
    area = next(one for one in ElementTree.fromstring(narrow.svg).iter(f"{SVG}svg") if one.get("class") == "area")  # noqa: S314
    assert float(area.get("x", 0)) == LEFT
    assert LEFT + float(area.get("width", 0)) <= NARROW


def test_labels_of_the_x_axis_do_not_overlap_on_a_narrow_page() -> None:
    wide = line(x=tuple(2.0**power for power in range(4, 24)), y=tuple(2.0**power for power in range(4, 24)))
    drawing = draw_cell(cell(wide), NARROW, "").svg
    row = drawing.split('class="x-ticks">')[1].split("</g>")[0]
    places = [(float(x), len(text)) for x, text in re.findall(r'x="([\d.]+)"[^>]*>([^<]*)<', row)]
    assert len(places) >= 3
    assert all(left + (size + other) / 2 * 6 < right for (left, size), (right, other) in pairwise(places))


def test_texts_are_escaped_and_nothing_has_a_style() -> None:
    bad = '"><img src=x onerror=alert(1)>'
    drawing = draw_cell(Cell(bad, Axis(bad, "size"), (Panel(Axis(bad, "bytes"), (line(name=bad, label=bad),)),)), WIDE, bad).svg
    bars = draw_bars(BarFigure("bars", bad, bad, (Bar(bad, 1.0, bad),)), WIDE).svg
    for svg in (drawing, bars, tiled([draw_cell(cell(line()), WIDE, bad)]).svg):
        ElementTree.fromstring(svg)  # noqa: S314 - well-formed
        assert "<img" not in svg
        assert "style=" not in svg


def test_bars_are_as_long_as_their_values_and_an_unknown_one_is_none() -> None:
    half = Bar("half", 50.0, "50 B", interval=(25.0, 75.0))
    figure = BarFigure("bars", "t", "c", (Bar("all", 100.0, "100 B"), half, Bar("data", None, "–")))
    root = ElementTree.fromstring(draw_bars(figure, WIDE).svg)  # noqa: S314
    widths = [float(one.get("width", 0)) for one in root.iter(f"{SVG}rect")]
    assert len(widths) == 2
    assert abs(widths[0] / widths[1] - 2) < 0.01


def test_bars_of_zero_bytes_are_drawn() -> None:
    assert "nan" not in draw_bars(BarFigure("bars", "t", "c", (Bar("none", 0.0, "0 B"),)), WIDE).svg


def test_pictures_stand_one_above_the_other() -> None:
    one = draw_cell(cell(line()), WIDE, "")
    both = tiled([one, one])
    assert both.height == 2 * one.height
    assert f'<svg x="0" y="{one.height}"' in both.svg
    three = tiled([one, one, one], 2)
    assert (three.width, three.height) == (2 * one.width, 2 * one.height)
    assert f'<svg x="{one.width}" y="0"' in three.svg


def test_pictures_beside_others_are_not_clipped() -> None:
    """A rasteriser clips with a layer, which takes twice as long as drawing."""
    one = draw_cell(cell(line()), WIDE, "")
    assert tiled([one, one, one], 2).svg.count('overflow="visible"') == 3


def test_a_bars_name_fits_the_width() -> None:
    name = "triton_red_fused_" + "_".join(map(str, range(60))) + "_rsqrt_1"
    figure = BarFigure("bars", "Bars", "", (Bar(name, 1.0, "1 B"), Bar("short", 2.0, "2 B")))
    drawn = ElementTree.fromstring(draw_bars(figure, NARROW).svg)  # noqa: S314
    names = [part.text or "" for part in drawn.iter() if part.get("class") == "name"]
    assert names[0].startswith("triton_red_fused_")
    assert names[0].endswith("_rsqrt_1")
    assert len(names[0]) <= NARROW / CHARACTER < len(name)
    assert names[1] == "short"


def test_a_tag_keeps_off_the_names_at_the_ends() -> None:
    """It stands above its point where a name is below it."""
    ends = line(name="a", x=(1.0, 4.0), y=(1.0, 8.0), label="standard")
    for y, above in ((10.5, True), (60.0, False)):
        tagged = line(name="b", mark="path", x=(5.0, 16.0), y=(y, 100.0), tags=("N=512", ""))
        root = ElementTree.fromstring(draw_cell(cell(ends, tagged), WIDE, "").svg)  # noqa: S314
        (height,) = [float(one.get("y", "")) for one in root.iter(f"{SVG}text") if one.text == "N=512"]
        _, mark = places(paths(draw_cell(cell(ends, tagged), WIDE, "").svg, "line")[1])[0]
        assert (height < 42 + mark) is above


def test_tags_keep_off_each_other() -> None:
    tagged = line(mark="path", x=(4.0, 4.1, 16.0), y=(10.0, 10.0, 100.0), tags=("N=512", "N=1024", ""))
    root = ElementTree.fromstring(draw_cell(cell(tagged), WIDE, "").svg)  # noqa: S314
    (first,), (second,) = ([one for one in root.iter(f"{SVG}text") if one.text == tag] for tag in ("N=512", "N=1024"))
    assert abs(float(first.get("y", "")) - float(second.get("y", ""))) >= 12
