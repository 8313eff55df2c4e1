"""Hold a printed form and its correction against a definition at random points."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ioaware.analysis.theory.claims.claim import Part

Values = npt.NDArray[np.float64]
CORRECT, WRONG = 1e-6, 1e-3
"""Limits on the deviations of a corrected and of a printed form.

A corrected form deviates by at most the first at every point, a printed one by more than the second at some point.
"""
SEEDS = range(4)


class Trial(NamedTuple):
    """What a definition, the printed and the corrected form give at one point.

    NaN: the form cannot be computed.
    """

    at: str
    defined: Any
    printed: Any
    corrected: Any


@dataclass(frozen=True)
class Erratum:
    """An error: its number, where it is, both forms, and how to try them.

    The forms are in words, and they are tried at a random point.
    """

    number: str
    where: str
    printed: str
    corrected: str
    trial: Callable[[np.random.Generator], Trial]


def erratum(
    number: str, where: str, printed: str, corrected: str
) -> Callable[[Callable[[np.random.Generator], Trial]], Erratum]:
    """Return a decorator that makes an `Erratum` of a function.

    The function tries both forms.
    """
    return lambda trial: Erratum(number, where, printed, corrected, trial)


def deviation(value: Any, defined: Any) -> float:
    """Return the largest relative difference.

    Infinite for another shape, or a NaN that the definition does not have.
    """
    found, expected = np.asarray(value, dtype=float), np.asarray(defined, dtype=float)
    if found.shape != expected.shape or not np.isfinite(found).all():
        return math.inf
    scale = float(abs(expected).max(initial=0))
    return float(abs(found - expected).max(initial=0)) / (scale or 1)


def judge_erratum(case: Erratum) -> Iterator[Part]:
    """Check that the printed form fails and the corrected one holds.

    The printed one fails at a point, which is shown, and the corrected one holds at every point.
    """
    trials = [case.trial(np.random.default_rng(seed)) for seed in SEEDS]
    printed = [(deviation(trial.printed, trial.defined), trial) for trial in trials]
    corrected = [(deviation(trial.corrected, trial.defined), trial) for trial in trials]
    worst, shown = max(printed, key=lambda pair: pair[0])
    wrong = f"{shown.at}: {_show_pair(shown.printed, shown.defined)}"
    failing = worst > WRONG
    says = f"{case.where}, as printed: {case.printed}"
    observed = wrong if failing else "it holds wherever it was tried"
    yield Part(f"{case.number} printed", says, "fails at some point", observed, len(trials), "holds" if failing else "fails")
    worst, shown = max(corrected, key=lambda pair: pair[0])
    right = worst <= CORRECT
    observed = f"largest difference {worst:.1g}" if right else f"{shown.at}: {_show_pair(shown.corrected, shown.defined)}"
    says = f"{case.where}, corrected: {case.corrected}"
    yield Part(f"{case.number} corrected", says, "holds at every point", observed, len(trials), "holds" if right else "fails")


def _show_pair(value: Any, defined: Any) -> str:
    """Return a value and its definition, from the first number on that differs."""
    found, expected = np.asarray(value, dtype=float), np.asarray(defined, dtype=float)
    if found.shape != expected.shape:
        return f"{_show(found)} instead of {_show(expected)}"
    first = int(np.argmax(~np.isclose(found, expected, rtol=CORRECT, atol=0).ravel()))
    return f"{_show(found, first)} instead of {_show(expected, first)}"


def _show(numbers: Values, first: int = 0) -> str:
    """Return up to four numbers, from the first to show on, with their shape."""
    flat = numbers.ravel()[first:]
    text = ", ".join(f"{number:.4g}" for number in flat[:4])
    before, after = "..., " if first else "", ", ..." if flat.size > 4 else ""
    return text if numbers.ndim == 0 else f"[{before}{text}{after}] of shape {numbers.shape}"


def vector_text(numbers: Values) -> str:
    """Return a vector with two decimals, as in `[2.04, -2.56]`."""
    return f"[{', '.join(f'{number:.2f}' for number in numbers)}]"
