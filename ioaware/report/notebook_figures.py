"""Draw the figures of a result for notebooks, the same as on its page.

They are SVG images inside the output, with their own style. Nothing is loaded, and no style of the notebook changes.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from html import escape
from typing import TYPE_CHECKING

from ioaware.analysis.formulas.typeset import formulas_html
from ioaware.cases import CASES
from ioaware.display.text import clean
from ioaware.display.time_limit import within
from ioaware.display.units import bytes_text
from ioaware.report.svg.bars import Bar, BarFigure, draw_bars
from ioaware.report.svg.elements import Drawing
from ioaware.report.svg.plot import WIDE, draw_cell
from ioaware.report.svg.rasterise import light_style
from ioaware.result import Result

if TYPE_CHECKING:
    from ioaware.derivation.derived import Derived
    from ioaware.report.chart import Figure

PLACES = (
    ("requested by the kernels", "requested", "flash1"),
    ("HBM", "hbm", "standard"),
    ("compulsory: inputs and outputs once", "compulsory", "flash2"),
)
CURVE_SECONDS = 4.0
MAX_CELLS = 2


def figures_html(result: Result) -> str:
    """Return the figures of a result as HTML, and its closed form typeset."""
    from ioaware.derivation.derived import Derived

    figures = [*_derived(result)] if isinstance(result, Derived) else [*_bars(result)]
    return "".join(figures) + _closed_form(result)


def _bars(result: Result) -> Iterator[str]:
    """Yield the bytes at each place as bars, where two or more are known."""
    found = {name: traffic.total_bytes for name, field, _ in PLACES if (traffic := getattr(result, field)) is not None}
    bars = tuple(Bar(name, found[name], bytes_text(found[name]), color) for name, _, color in PLACES if found.get(name))
    if len(bars) > 1:
        yield _image(draw_bars(BarFigure("bytes", "Bytes, side by side", "", bars), WIDE), "Bytes, side by side")


def _derived(derived: Derived) -> Iterator[str]:
    """Yield the bars and the curves of a derived result's page."""
    from ioaware.derivation.annotated_source import AnnotatedSource
    from ioaware.machine import DEFAULT_MACHINE
    from ioaware.report.pages.figure_set import side_by_side
    from ioaware.report.pages.findings import Findings
    from ioaware.report.pages.over import curve, spans_of
    from ioaware.report.pages.over_figure import over_parameters

    def drawn() -> Figure | None:
        curves = tuple(curve(derived, span) for span in spans_of(derived, ())[:MAX_CELLS])
        return over_parameters(Findings("", source, DEFAULT_MACHINE, None, "", None, curves, ()))

    source = AnnotatedSource(derived, ())
    bars = side_by_side(Findings("", source, DEFAULT_MACHINE, None, "", None, (), ()))
    yield _image(draw_bars(bars, WIDE), bars.title)
    figure = within(CURVE_SECONDS, drawn) if derived.formulas is not None else None
    for cell in figure.cells if figure is not None else ():
        yield _image(draw_cell(cell, WIDE, ""), f"Bytes over {cell.title}")


def _image(drawing: Drawing, words: str) -> str:
    """Return a drawing as an image with its own style, on white."""
    head, _, rest = drawing.svg.partition(">")
    paper = f'<rect width="{drawing.width}" height="{drawing.height}" fill="#ffffff"></rect>'
    svg = f"{head}><style>{light_style()}</style>{paper}{rest}"
    data = base64.b64encode(svg.encode()).decode("ascii")
    size = f"width='{drawing.width}' height='{drawing.height}'"
    return f"<p><img alt='{escape(clean(words), quote=True)}' {size} src='data:image/svg+xml;base64,{data}'></p>"


def _closed_form(result: Result) -> str:
    """Return the closed form of a prediction in MathML; empty for other results."""
    case = CASES.get(result.target) if result.source == "predict" else None
    if case is None:
        return ""
    counts = case.counts(bool(result.params.get("causal")))
    reads, writes = (counts.instances * side.bytes for side in (counts.reads, counts.writes))
    return formulas_html([("requested", reads, writes)])
