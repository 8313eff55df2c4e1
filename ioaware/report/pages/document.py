"""Write a self-contained HTML page.

Its figures and their data are in it, PNGs beside it, and a policy against everything external.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ioaware import __version__
from ioaware._atomic_file import atomic_write, make_directory
from ioaware.display.text import clean
from ioaware.report.chart import Cell, Figure
from ioaware.report.inline_text import digest, json_block, template_text, theme
from ioaware.report.pages.figure_data import figure_data, packed
from ioaware.report.pages.figure_set import Shown
from ioaware.report.svg.bars import BarFigure, draw_bars
from ioaware.report.svg.elements import Drawing, tiled
from ioaware.report.svg.legend import Item, heading, legend
from ioaware.report.svg.plot import NARROW, THIRD, WIDE, draw_cell
from ioaware.report.svg.rasterise import check_rasteriser, png_of

PAGE = "report.html"
DIGIT_AFTER = re.compile(r"-(?=\d)")
"""A hyphen at which no heading is broken, as in GPT-2."""

BEFORE_OPTION = re.compile(" (?=-)")
DIVIDES = re.compile(r"(?<=[:_])(?=\w)")
"""Where a long name of a kernel or a file may be broken."""
BEFORE_UNIT = re.compile(r"(?<=\d) (?=(?:%|[kMGTP]?B|[mµn]?s|W|TFLOP)\b|%)")
"""The space between a number and its unit."""


@dataclass(frozen=True, slots=True)
class Document:
    """A page to write.

    `template` names its file, `values` are the template's, `figures` are drawn where it calls for them. `css` and `script` are
    those of fragments in the values, once each.
    """

    template: str
    title: str
    values: Mapping[str, Any]
    figures: Sequence[Shown]
    css: str = ""
    script: str = ""


def picture(figure: Figure | BarFigure) -> Drawing:
    """Return a figure for a PNG: its title, its legend and its cells."""
    cells = tiled([wide for wide, _ in _drawings(figure)], _columns(figure))
    return tiled([heading(figure.title, _legend(figure), cells.width), cells])


def figure_png(shown: Shown) -> bytes:
    """Return the PNG of a figure."""
    return png_of(picture(shown.figure))


def write_document(document: Document, folder: Path, png: Callable[[Shown], bytes] = figure_png) -> Path:
    """Write the page and a PNG per figure into a folder, each replaced atomically.

    Return the page's path. `png` gives the PNG of a figure.

    Raises `UsageError` without the library that draws PNGs, `WriteError` where the files cannot be written.
    """
    check_rasteriser()
    page = render(document)
    make_directory(folder)
    for shown in document.figures:
        _write(folder / f"{shown.figure.name}.png", png(shown))
    _write(folder / PAGE, page.encode())
    return folder / PAGE


def write_page(document: Document, path: Path) -> None:
    """Write the page alone."""
    _write(path, render(document, with_pngs=False).encode())


def render(document: Document, *, with_pngs: bool = True) -> str:
    """Return the page. Every text is escaped once; a missing value is an error."""
    from jinja2 import Environment, FunctionLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, loader=FunctionLoader(template_text)
    )
    environment.filters["safe_here"] = Markup  # of SVG and MathML that this package wrote with every text escaped
    environment.filters["unbroken"] = _unbroken
    environment.filters["divided"] = _divided
    environment.filters["together"] = _together
    css = theme() + template_text("document.css") + document.css + template_text("print.css")
    script = template_text("document.js") + document.script
    return environment.get_template(document.template).render(
        {
            **document.values,
            "title": clean(document.title),
            "heading": DIGIT_AFTER.sub("\N{NON-BREAKING HYPHEN}", clean(document.title)),
            "version": __version__,
            "policy": policy(css, script),
            "css": Markup(css),  # noqa: S704 - this package's own files
            "script": Markup(script),  # noqa: S704
            "data": Markup(json_block({shown.figure.name: packed(figure_data(shown)) for shown in document.figures})),  # noqa: S704
            "figures": {shown.figure.name: _figure(shown, with_png=with_pngs) for shown in document.figures},
        }
    )


def _unbroken(command: str) -> Any:
    """Return a command as HTML whose lines end between its options."""
    from markupsafe import Markup, escape

    first, *options = BEFORE_OPTION.split(command)
    return Markup(" ").join((escape(first), *(Markup("<span>{}</span>").format(one) for one in options)))


def _divided(name: str) -> Any:
    """Return a name as HTML that a line may end in behind its colons and underscores."""
    from markupsafe import Markup, escape

    return Markup("<wbr>").join(escape(part) for part in DIVIDES.split(name))


def _together(words: str) -> str:
    """Return a text in which no line ends between a number and its unit."""
    return BEFORE_UNIT.sub("\u00a0", words)


def policy(css: str, script: str) -> str:
    """Return the content security policy.

    It allows this style and this script, by hash, and nothing else.
    """
    allowed = {
        "default-src": "'none'",
        "script-src": f"'{digest(script)}'",
        "style-src": f"'{digest(css)}'",
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    return "; ".join(f"{directive} {value}" for directive, value in allowed.items())


def _figure(shown: Shown, *, with_png: bool) -> dict[str, Any]:
    figure = shown.figure
    return {
        "name": figure.name,
        "title": clean(figure.title),
        "caption": clean(figure.caption, 2000),
        "command": clean(shown.command, 2000),
        "png": f"{figure.name}.png" if with_png else "",
        "kind": "bars" if isinstance(figure, BarFigure) else "plot",
        "legend": _legend(figure),
        "pairs": [(wide.svg, narrow.svg) for wide, narrow in _drawings(figure)],
        "columns": _columns(figure),
    }


def _columns(figure: Figure | BarFigure) -> int:
    return 1 if isinstance(figure, BarFigure) else max(1, min(figure.columns, len(figure.cells), 3))


def _legend(figure: Figure | BarFigure) -> list[Item]:
    return [] if isinstance(figure, BarFigure) else legend(figure)


def _drawings(figure: Figure | BarFigure) -> list[tuple[Drawing, Drawing]]:
    """Return each cell of a figure drawn for a wide and for a narrow page."""
    if isinstance(figure, BarFigure):
        return [(draw_bars(figure, WIDE), draw_bars(figure, NARROW))]
    width = THIRD if _columns(figure) == 3 else WIDE
    names = [_described(figure, cell) for cell in figure.cells]
    return [
        (draw_cell(cell, width, name), draw_cell(cell, NARROW, name)) for cell, name in zip(figure.cells, names, strict=True)
    ]


def _described(figure: Figure, cell: Cell) -> str:
    series = {one.name: None for panel in cell.panels for one in panel.series}
    return clean(f"{figure.title}, over {cell.x.label}: {', '.join(series)}")


def _write(path: Path, data: bytes) -> None:
    with atomic_write(path) as partial, partial.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
