"""Figures in notebooks: those of the page, as images, with hostile text as text."""

from __future__ import annotations

import base64
import re
from typing import Any

from sympy import Integer, Symbol

import ioaware.api
from ioaware.analysis.ir import Count
from ioaware.derivation.annotated_source import AnnotatedSource
from ioaware.derivation.derived import Derived
from ioaware.derivation.launch_formulas import Formulas
from ioaware.display import notebook
from ioaware.machine import DEFAULT_MACHINE
from ioaware.prediction import predict
from ioaware.report.notebook_figures import figures_html
from ioaware.report.pages.figure_set import side_by_side
from ioaware.report.pages.findings import Findings
from ioaware.report.svg.bars import draw_bars
from ioaware.report.svg.plot import WIDE
from ioaware.result import Result, Traffic
from tests.support.hostile_texts import PAYLOADS, Structure

ZERO = Count(Integer(0))


def derived(name: str = "n", **changes: Any) -> Derived:
    symbol = Symbol(name, integer=True, positive=True)
    formulas = Formulas(Count(4 * symbol**2), Count(2 * symbol), ZERO, ZERO, None, None)
    fields: dict[str, Any] = {"formulas": formulas, "symbols": {name: 64}, "requested": Traffic(4 * 64**2, 128)}
    return Derived("derive", name, **(fields | changes))


def drawings(html: str) -> list[str]:
    return [base64.b64decode(data).decode() for data in re.findall(r"src='data:image/svg\+xml;base64,([^']*)'", html)]


def test_a_derived_result_has_the_bars_and_the_curves_of_its_page() -> None:
    bars, curves = drawings(figures_html(derived(compulsory=Traffic(64, 64))))
    source = AnnotatedSource(derived(compulsory=Traffic(64, 64)), ())
    page = side_by_side(Findings("", source, DEFAULT_MACHINE, None, "", None, (), ()))
    assert draw_bars(page, WIDE).svg.partition(">")[2] in bars
    assert "requested" in curves
    assert all("<style>" in one and one.count("<svg") >= 1 for one in (bars, curves))


def test_without_formulas_there_are_no_curves() -> None:
    assert len(drawings(figures_html(derived(formulas=None, requested=None)))) == 1


def test_a_prediction_has_its_closed_form_typeset() -> None:
    html = figures_html(predict("flash2", seq_len=128))
    assert html.count("<math>") == 2
    assert "<msub><mi>B</mi><mi>r</mi></msub>" in html
    assert len(drawings(html)) == 1


def test_one_known_place_has_no_picture() -> None:
    assert figures_html(Result("trace", "k", {}, Traffic(300, 100))) == ""


def test_the_functions_of_the_package_show_them_in_notebooks() -> None:
    assert notebook.DRAWERS
    result = ioaware.api.predict("flash2", seq_len=128)
    assert figures_html(result) in result._repr_html_()


def test_hostile_names_stay_text() -> None:
    for text in PAYLOADS[:48]:
        html = figures_html(derived(text))
        assert {tag for tag, _ in Structure(html).tags} <= {"p", "img"}
        inside = {tag for one in drawings(html) for tag, _ in Structure(one).tags}
        assert inside <= {"svg", "style", "rect", "text", "path", "g"}
