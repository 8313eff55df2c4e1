"""Define colours and forms of the figures.

There is one colour per algorithm and one form per source, in light and dark.

The colours are Okabe and Ito's, distinct under common colour-vision deficiencies. Light ones of text are darker, dark ones are
lighter. Forms repeat the source that colours show, so that no figure needs colour.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from ioaware.report.chart import Mark

COLORS: Mapping[str, tuple[str, str]] = {
    "standard": ("#c24e00", "#ff8f40"),
    "flash1": ("#0072b2", "#5cb8f5"),
    "flash2": ("#00825f", "#35c79a"),
    "hopper": ("#8a6500", "#e3bb4d"),
    "ioaware": ("#b3261e", "#ff7b72"),
    "ioaware-triton": ("#c77f00", "#f0b24c"),
    "cudnn": ("#00825f", "#35c79a"),
    "flash": ("#0072b2", "#5cb8f5"),
    "efficient": ("#6b7280", "#9aa3b2"),
    "flex": ("#a4508b", "#e08cc8"),
    "tutorial": ("#5b4bb7", "#a99bff"),
    "other": ("#a4508b", "#e08cc8"),
    "neutral": ("#6b7280", "#9aa3b2"),
    "ink": ("#1c2128", "#e6e9ef"),
    "muted": ("#57606a", "#a3adba"),
    "grid": ("#e3e6ea", "#2c323b"),
    "paper": ("#ffffff", "#14181d"),
}
"""Light and dark value of each colour token: algorithms, then back ends.

CSS custom properties have the same names.
"""

ALGORITHMS: Mapping[str, str] = {"standard": "standard", "flash1": "FlashAttention-1", "flash2": "FlashAttention-2"}
"""Names of the algorithms in figures."""


@dataclass(frozen=True, slots=True)
class Form:
    """The form of a source: dashes, a marker, or both; sizes are in pixels."""

    meaning: str
    dash: str = ""
    marker: str = ""
    filled: bool = True
    size: float = 6.0
    width: float = 1.6


FORMS: Mapping[Mark, Form] = {
    "predict": Form("predicted (closed form)", dash="solid"),
    "derive": Form("derived (formula)", dash="solid"),
    "leading": Form("leading term", dash="dot", width=1.4),
    "simulated curve": Form("simulated (model of the L2)", dash="dashdot", width=1.3),
    "simulate": Form("simulated", marker="circle", filled=False, size=6.5),
    "ghost": Form("requested, predicted", dash="solid", width=0.7),
    "path": Form("", dash="solid", width=0.8),
    "over": Form("", dash="dash", width=1.6),
    "second": Form("", dash="dot", width=1.8),
    "trace": Form("traced (interpreter)", marker="square", filled=False, size=8.5),
    "measure": Form("measured (hardware)", marker="circle", size=5.5),
    "unstable": Form("throttled or unstable", marker="circle", filled=False, size=5.5),
    "compulsory": Form("compulsory", dash="dash", width=1.3),
    "bound": Form("lower bound", dash="dot", width=1.5),
    "ceiling": Form("machine's limit", dash="solid", width=1.3),
    "beside": Form("a matmul or a copy between them", dash="solid", width=1.3),
    "in turn": Form("matmuls and exponentials without overlap", dash="dash", width=1.3),
    "interval": Form("fitted, 95 % interval", marker="circle", size=6.0),
    "whole": Form("whole count, not judged", marker="circle", filled=False, size=6.0),
    "theory": Form("theory", dash="solid", width=1.2),
}


def legend(marks: Collection[Mark]) -> list[Mark]:
    """Return the forms that a figure must explain, in a fixed order."""
    return [mark for mark, form in FORMS.items() if mark in marks and form.meaning]


def token(color: str) -> str:
    """Return the colour token of a series.

    It is an algorithm's own, or `other` for a user's target.
    """
    return color if color in COLORS else "other"
