"""Check the combiners of partial attention, eq. (14) and log-sum-exp.

Their identities are exact, and their error in floats is checked too.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import reduce
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
import numpy.typing as npt
import sympy

from ioaware.analysis.theory.claims.claim import Claim, Comparison, Part, conclude, judge_bounds, judge_comparisons
from ioaware.analysis.theory.claims.evidence import Evidence, Need
from ioaware.analysis.theory.claims.numerics.attention import softmax

NAME = "combiners"
STATEMENT = (
    "Attention of a row over two blocks of keys is o = (e^(b1 - b) e1 o1 + e^(b2 - b) e2 o2) / e of its parts (eq. 14), for "
    "any b; with log-sum-exps o = e^(L1 - L) o1 + e^(L2 - L) o2."
)
SOURCE = "unpublished notes on combining partial attention, eq. (14); Dao et al. 2023, Flash-Decoding"

NOTES = (
    "Exact arithmetic: both formulas use nothing of e but e^(x+y) = e^x e^y, so they are checked with 2 for e, integer scores "
    "and rational numbers, and symbolically with e^x as unknowns.",
    "b = max(b1, b2) is only for the range of floats: the identity holds for every b. A part without keys is (b, e, o) = "
    "(-inf, 0, 0); e^(-inf - (-inf)) is not a number, so two such parts need a guard.",
)
Scalar = Fraction
State = TypeVar("State")
Singles = npt.NDArray[np.float32]
FloatPart = tuple[np.float32, np.float32, Singles]


class Part14(NamedTuple):
    """The state of eq. (14): reference b, sum e, and the normalised output o.

    e is the sum of exponentials relative to b.
    """

    b: int
    e: Scalar
    o: tuple[Scalar, ...]


class PartLse(NamedTuple):
    """The state of the other combiner: 2^L, and the normalised output.

    2^L is rational.
    """

    weight: Scalar
    o: tuple[Scalar, ...]


def points() -> tuple[Need, ...]:
    """Return no runs: identities need none."""
    return ()


def judge(evidence: Evidence) -> Claim:
    """Return the verdict on identities, and on errors in single precision.

    The identities are in rationals and symbols.
    """
    del evidence
    rows = list(_exact())
    parts = [
        judge_comparisons("a", "exact: both combiners give the attention of all keys, for random splits and any order", rows),
        judge_comparisons("a", "exact: eq. (14) holds for every b, not the maximum alone", list(_any_reference())),
        _judge_symbolic(),
        *_judge_floats(),
        _judge_guard(),
    ]
    return conclude(NAME, STATEMENT, SOURCE, parts=parts, points=rows, notes=NOTES)


def power(x: int) -> Scalar:
    """Return 2^x exactly."""
    return Fraction(2) ** x


def local14(scores: Sequence[int], values: Sequence[Sequence[int]]) -> Part14:
    """Return the state of one block of keys: the local reducer."""
    b = max(scores)
    weights = [power(x - b) for x in scores]
    e = sum(weights, Fraction(0))
    return Part14(
        b,
        e,
        tuple(
            sum((w * v for w, v in zip(weights, column, strict=True)), Fraction(0)) / e for column in zip(*values, strict=True)
        ),
    )


def combine14(one: Part14, two: Part14, b: int | None = None) -> Part14:
    """Return eq. (14) of two states, relative to b.

    It is the larger of theirs unless given.
    """
    b = max(one.b, two.b) if b is None else b
    first, second = power(one.b - b) * one.e, power(two.b - b) * two.e
    e = first + second
    return Part14(b, e, tuple((first * x + second * y) / e for x, y in zip(one.o, two.o, strict=True)))


def local_lse(scores: Sequence[int], values: Sequence[Sequence[int]]) -> PartLse:
    """Return the state of one block of keys with its log-sum-exp."""
    part = local14(scores, values)
    return PartLse(part.e * power(part.b), part.o)


def combine_lse(one: PartLse, two: PartLse) -> PartLse:
    """Return e^(L1 - L) o1 + e^(L2 - L) o2 and L, the log-sum-exp of both."""
    weight = one.weight + two.weight
    return PartLse(weight, tuple(one.weight / weight * x + two.weight / weight * y for x, y in zip(one.o, two.o, strict=True)))


def _draws() -> Iterator[tuple[str, list[int], list[list[int]], list[slice]]]:
    """Return scores, values and a random split into consecutive blocks."""
    generator = np.random.default_rng(14)
    for draw in range(40):
        n = int(generator.integers(2, 12))
        scores = [int(x) for x in generator.integers(-30, 31, n)]
        values = [[int(x) for x in row] for row in generator.integers(-9, 10, (n, 2))]
        cuts = sorted({0, n, *(int(x) for x in generator.integers(1, n, 3))})
        yield (
            f"draw {draw}, {n} keys, {len(cuts) - 1} blocks",
            scores,
            values,
            [slice(*pair) for pair in itertools.pairwise(cuts)],
        )


def _exact() -> Iterator[Comparison]:
    """Fold the blocks from the left and from the right.

    Both are compared with all keys at once.
    """
    for where, scores, values, blocks in _draws():
        weights = [power(x) for x in scores]
        whole = [
            sum((w * v for w, v in zip(weights, column, strict=True)), Fraction(0)) / sum(weights)
            for column in zip(*values, strict=True)
        ]
        cut = [(scores[block], values[block]) for block in blocks]
        outputs = {
            "eq. (14)": [state.o for state in _both_ways([local14(*block) for block in cut], combine14)],
            "log-sum-exp": [state.o for state in _both_ways([local_lse(*block) for block in cut], combine_lse)],
        }
        for name, found in outputs.items():
            wrong = sum(o[i] != whole[i] for o in found for i in range(len(whole)))
            yield Comparison("a", f"{name}, {where}", 0, wrong)


def _both_ways(parts: Sequence[State], combine: Callable[[State, State], State]) -> tuple[State, State]:
    """Combine the parts from the left, and from the right."""
    return reduce(combine, parts), reduce(lambda right, left: combine(left, right), reversed(parts))


def _any_reference() -> Iterator[Comparison]:
    """Combine relative to references far from the maximum."""
    for where, scores, values, blocks in _draws():
        if len(blocks) == 2:
            one, two = (local14(scores[block], values[block]) for block in blocks)
            for b in (-40, 0, 3, 50):
                yield Comparison("a", f"{where}, b={b}", 0, int(combine14(one, two, b).o != local14(scores, values).o))


def _judge_symbolic() -> Part:
    """Check eq. (14) with e^(x_i) and e^(-b) as unknowns.

    The difference from the definition cancels to zero.
    """
    algebra: Any = sympy
    t, v = algebra.symbols("t1:5", positive=True), algebra.symbols("v1:5")
    r1, r2, r = algebra.symbols("r1 r2 r", positive=True)  # e^(-b1), e^(-b2), e^(-b)
    e1, e2 = r1 * (t[0] + t[1]), r2 * (t[2] + t[3])
    o1, o2 = r1 * (t[0] * v[0] + t[1] * v[1]) / e1, r2 * (t[2] * v[2] + t[3] * v[3]) / e2
    eq14: Any = (r / r1 * e1 * o1 + r / r2 * e2 * o2) / (r / r1 * e1 + r / r2 * e2)
    definition: Any = sum(x * y for x, y in zip(t, v, strict=True)) / sum(t)
    cancelled: Any = algebra.cancel(algebra.together(eq14 - definition))
    verdict = "holds" if cancelled == 0 else "fails"
    return Part(
        "b",
        "symbolically, two blocks of two keys: eq. (14) less the definition, for any b1, b2, b",
        "0",
        str(cancelled),
        1,
        verdict,
    )


def float_local(scores: Singles, values: Singles) -> FloatPart:
    """Return (b, e, o) of a block; (-inf, 0, 0) without keys."""
    if not len(scores):
        return np.float32(-np.inf), np.float32(0), np.zeros(len(values.T), np.float32)
    b = np.float32(scores.max())
    weights: Any = np.exp(scores - b)
    e = np.float32(weights.sum())
    return cast(FloatPart, (b, e, weights @ values / e))


def float_combine(one: FloatPart, two: FloatPart, *, guarded: bool = True) -> FloatPart:
    """Return eq. (14) in floats.

    `guarded` takes 0 for a reference of -inf and for 0 / 0.
    """
    b = np.float32(max(one[0], two[0]))
    reference = np.float32(0) if guarded and np.isneginf(b) else b
    with np.errstate(invalid="ignore"):
        first, second = (np.float32(np.exp(part[0] - reference) * part[1]) for part in (one, two))
        e = np.float32(first + second)
        divisor = np.float32(1) if guarded and e == 0 else e
        return b, e, np.asarray((first * one[2] + second * two[2]) / divisor, np.float32)


def _judge_floats() -> Iterator[Part]:
    """Check single precision against float64.

    It is the error of one number of splits, over a bound that grows with the splits.
    """
    generator = np.random.default_rng(1)
    n, d = 1024, 16
    unit = 2.0**-24
    ratios: list[tuple[str, float]] = []
    for spread in (1, 30, 3000):
        scores = (spread * generator.normal(size=n)).astype(np.float32)
        values = generator.normal(size=(n, d)).astype(np.float32)
        weights = softmax(scores.astype(np.float64))
        exact, scale = weights @ values, weights @ abs(values.astype(np.float64))
        for splits in (1, 2, 8, 64, 1024):
            blocks = [float_local(scores[part], values[part]) for part in np.array_split(np.arange(n), splits)]
            error = abs(reduce(float_combine, blocks)[2] - exact)
            bound = unit * (n + 8 * splits + 4 * spread) * scale
            ratios.append((f"spread {spread}, {splits} splits", float((error / bound).max())))
    yield judge_bounds(
        "c", "float32, 1024 keys: error over 2^-24 (N + 8 S + 4 spread) sum p|v|, scores up to thousands", ratios, high=1
    )


def _judge_guard() -> Part:
    """Check that splits without keys change nothing with the guard.

    They give NaN without it.
    """
    scores, values = np.arange(3, dtype=np.float32), np.eye(3, 2, dtype=np.float32)
    full, empty = float_local(scores, values), float_local(scores[:0], values[:0])
    rows = [
        Comparison("d", "a part and an empty one", 0, float(abs(float_combine(full, empty)[2] - full[2]).max())),
        Comparison("d", "two empty parts, guarded", 0, float(abs(float_combine(empty, empty)[2]).max())),
        Comparison(
            "d", "two empty parts, as printed: NaN", 1, int(np.isnan(float_combine(empty, empty, guarded=False)[2]).all())
        ),
    ]
    return judge_comparisons("d", "a part without keys leaves the other unchanged; two of them need the guard", rows)
