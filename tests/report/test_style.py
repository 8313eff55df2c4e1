"""Colours of the figures are readable on paper, in light and dark."""

from __future__ import annotations

import pytest

from ioaware.report.inline_text import template_text, theme
from ioaware.report.style import COLORS

MARKS_ALONE = {"ioaware-triton"}
"""Colours that no text has."""
SURFACES = {"paper", "grid"}


def luminance(color: str) -> float:
    """Return the relative luminance of WCAG 2."""
    parts = [int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("name", sorted(COLORS.keys() - SURFACES))
@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_a_colour_stands_out_from_paper(name: str, theme: int) -> None:
    one, other = sorted((luminance(COLORS[name][theme]), luminance(COLORS["paper"][theme])))
    assert (other + 0.05) / (one + 0.05) >= (3 if name in MARKS_ALONE else 4.5)


@pytest.mark.parametrize("sheet", ["document.css", "walk.css", "walk_page.css", "print.css", ""])
def test_paper_is_never_dark(sheet: str) -> None:
    text = template_text(sheet) if sheet else theme()
    assert text.count("prefers-color-scheme: dark") == text.count("@media screen and (prefers-color-scheme: dark)")
