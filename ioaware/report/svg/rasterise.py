"""Draw PNGs of SVG text, the same on every machine.

They have the light colours and the fonts that matplotlib ships.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from ioaware.errors import UsageError
from ioaware.report import style
from ioaware.report.svg.elements import Drawing

ZOOM, WIDE_ZOOM, WIDE = 2.0, 1.5, 700
"""Pixels a unit, and those of wide pictures.

Wide pictures are wider than `WIDE` units, and so have enough pixels.
"""
FORMS = """
text { font-family: "DejaVu Sans"; font-size: 10.5px; fill: %(muted)s; }
text.name { fill: %(ink)s; } text.end, text.title { font-weight: bold; }
text.heading { font-size: 13px; font-weight: bold; fill: %(ink)s; }
text.end { paint-order: stroke; stroke: %(paper)s; stroke-width: 3px; stroke-linejoin: round; }
text.tag { font-weight: normal; } text.value { fill: %(ink)s; }
.grid { stroke: %(grid)s; fill: none; } .frame, .guide { stroke: %(muted)s; fill: none; }
.line { fill: none; stroke-linejoin: round; } .mark { fill: none; }
.circle { stroke-linecap: round; } .square { stroke-linecap: square; }
.dash { stroke-dasharray: 6 3; } .dashdot { stroke-dasharray: 9 3 2 3; } .dot { stroke-dasharray: 1.5 3; }
"""


def check_rasteriser() -> None:
    """Raise `UsageError` where the library that draws PNGs is missing."""
    if find_spec("resvg_py") is None:
        raise UsageError("the PNGs need the resvg-py package, which is not installed here", "pip install 'ioaware[report]'")


def png_of(drawing: Drawing) -> bytes:
    """Return the PNG of an SVG on white.

    Raises `UsageError` without the library.
    """
    check_rasteriser()
    import resvg_py

    fonts = font_directory()
    return resvg_py.svg_to_bytes(
        svg_string=drawing.svg,
        style_sheet=light_style(),
        background="#ffffff",
        zoom=ZOOM if drawing.width <= WIDE else WIDE_ZOOM,
        skip_system_fonts=True,
        font_files=[str(fonts / "DejaVuSans.ttf"), str(fonts / "DejaVuSans-Bold.ttf")],
        font_family="DejaVu Sans",
    )


def png_lines(drawings: Sequence[tuple[str, int, int]]) -> str:
    """Return the PNGs of drawings (SVG, width, height) in base64, a line each."""
    return "\n".join(base64.b64encode(png_of(Drawing(*one))).decode() for one in drawings)


def font_directory() -> Path:
    """Return the directory of the fonts that matplotlib ships.

    It is not imported, which takes longer than a figure.
    """
    found = find_spec("matplotlib")
    if found is None or not found.origin:
        raise UsageError("the PNGs need the fonts of matplotlib, which is not installed here", "pip install 'ioaware[report]'")
    return Path(found.origin).parent / "mpl-data" / "fonts" / "ttf"


def light_style() -> str:
    """Return the style sheet of the light theme; resvg has no custom properties."""
    colors = {name: light for name, (light, _) in style.COLORS.items()}
    classes = (f".f-{name} {{ fill: {color}; }} .s-{name} {{ stroke: {color}; }}" for name, color in colors.items())
    return FORMS % colors + "\n".join(classes)
