"""Prove from below how many numbers a state must hold.

The proof is by the rank of a map's derivative at chosen data.

Let X be n elements and Y_1 ... Y_n continuations that bring the parameters to p_1 ... p_n and can move them independently. If
the matrix d f(x_i; p_j) / d x_i is nonsingular, X -> (sum f(x_i; p_j))_j is one to one near X. A continuous state of k numbers,
with the t numbers of the earlier reductions, determines these sums. R^n has no continuous one-to-one map into fewer dimensions
(invariance of domain), so n <= k + t.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any

import sympy

from ioaware.analysis.fusion.expressions.arithmetic import evaluate
from ioaware.analysis.fusion.expressions.elementwise import Rint, with_absolute_values
from ioaware.analysis.fusion.expressions.interval_arithmetic import DIGITS, UndecidedError, independent_columns, interval
from ioaware.analysis.fusion.programs.program import Parameter, Program, Reduction
from ioaware.analysis.fusion.refutation.samples import NUMBERS, Sample

_sympy: Any = sympy
SIZE = 8
CONTINUATIONS = 3
"""Most continuations that are tried for each element."""


@dataclass(frozen=True, slots=True)
class Alternant:
    """Nonsingular matrix of `size`.

    It has the elements' values of `coordinate`, and the parameters each continuation gives.
    """

    coordinate: str
    size: int
    of_derivative: bool
    points: tuple[Fraction, ...]
    others: str
    continuations: tuple[str, ...]

    def sentence(self, reduction: Reduction) -> str:
        """Return what is proven, and where."""
        what = f"d f / d{self.coordinate}" if self.of_derivative else "f"
        points = ", ".join(map(str, self.points))
        how = f"by elimination in interval arithmetic of {DIGITS} digits, no pivot contains 0"
        return (
            f"Alternant: the {self.size} x {self.size} matrix of {what} of {reduction.name} is nonsingular ({how}) at "
            f"elements {self.coordinate} = {points}{self.others}, continued in turn by {', '.join(self.continuations)}."
        )


def find_alternant(program: Program, reduction: Reduction, coordinate: Any, size: int = SIZE) -> Alternant | None:
    """Return the largest nonsingular alternant found of a reduction's map, or None.

    It is of at most `size`.
    """
    parameters = program.parameters_in(reduction.body)
    smooth = with_absolute_values(reduction.body)
    derivative = not smooth.has(Rint)
    entry = _sympy.diff(smooth, coordinate) if derivative else smooth
    for seen, samples in _trials(program, coordinate, max(len(parameters), 1), size):
        columns = [(sample, column) for sample in samples if (column := _column(sample, entry, parameters))]
        if len(columns) < size:
            continue
        chosen = independent_columns([list(row) for row in zip(*(column for _, column in columns), strict=True)])
        if len(chosen) == size:
            others = "".join(f", {name} = {value}" for name, value in samples[0].seen[0].items() if name != coordinate)
            continued = tuple(_continuation(columns[number][0]) for number in sorted(chosen))
            return Alternant(coordinate.name, size, derivative, tuple(seen), others, continued)
    return None


def _column(sample: Sample, entry: Any, parameters: Sequence[Parameter]) -> list[Any] | None:
    """Return the entries of the matrix for one continuation, or None.

    None means that it does not move the parameters.
    """
    try:
        if not sample.steers(parameters):
            return None
        scope = {parameter.symbol: sample.value(sample.parameter(parameter)) for parameter in parameters}
        numbers = [{name: interval(value) for name, value in element.items()} for element in sample.seen]
        return [evaluate(entry, {**scope, **values}, NUMBERS) for values in numbers]
    except UndecidedError:
        return None


def _continuation(sample: Sample) -> str:
    elements = (", ".join(f"{name} = {span[0]}" for name, span in element.items()) for element in sample.continuation)
    return "(" + "; ".join(elements) + ")"


def _trials(program: Program, coordinate: Any, count: int, size: int) -> Iterator[tuple[list[Fraction], list[Sample]]]:
    """Yield elements and continuations to try.

    They are of both signs, positive, or larger than every element, and they are near or far. Elements close together show
    what happens within 1 of a maximum.
    """
    source = random.Random(0)  # noqa: S311 (test points, the same every time)
    spread = [(Fraction(1), reach) for reach in (Fraction(size), Fraction(size * size, 2), Fraction(2))]
    close = (Fraction(1, 2 * size), Fraction(1))
    for (apart, reach), kind in product((*spread, close), ("both signs", "positive", "beyond")):
        start = -Fraction(size - 1, 2) if kind == "both signs" else Fraction(1, 3)
        seen = [start + apart * (i + Fraction(source.randrange(-3, 4), 16)) for i in range(size)]
        elements = tuple({name: point if name == coordinate else Fraction(1) for name in program.inputs} for point in seen)
        low = {"both signs": -2 * reach, "positive": Fraction(1, 4), "beyond": seen[-1] + apart}[kind]
        samples: list[Sample] = []
        for j in range(CONTINUATIONS * size):
            place = low + (3 * reach if kind == "both signs" else reach) * Fraction(j, CONTINUATIONS * size)
            values = [place / (part + 1) + apart * Fraction(source.randrange(1, 8), 64) for part in range(count)]
            continuation = tuple(dict.fromkeys(program.inputs, (value, value)) for value in values)
            samples.append(Sample(program, elements, continuation))
        yield seen, samples
