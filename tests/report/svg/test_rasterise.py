"""PNGs have the requested size and the colours of the light theme."""

from __future__ import annotations

import io

import pytest

from ioaware.errors import UsageError
from ioaware.report import style
from ioaware.report.svg import rasterise
from ioaware.report.svg.bars import Bar, BarFigure, draw_bars

FIGURE = BarFigure("bars", "t", "c", (Bar("all", 100.0, "100 B", "flash1"),))


def test_a_bar_has_its_colour_on_white() -> None:
    from PIL import Image

    drawing = draw_bars(FIGURE, 300)
    with Image.open(io.BytesIO(rasterise.png_of(drawing))) as image:
        assert image.size == (600, 2 * drawing.height)
        picture = image.convert("RGB")
        assert picture.getpixel((599, 0)) == (255, 255, 255)
        found = picture.getpixel((40, 2 * 28))
    assert found == tuple(bytes.fromhex(style.COLORS["flash1"][0][1:]))


def test_without_the_library_the_error_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rasterise, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match="resvg-py"):
        rasterise.check_rasteriser()
