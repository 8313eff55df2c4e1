"""Check Theorem 2 on the exact counts themselves.

It is checked at sizes no kernel has to run, for constants, powers and the lower bound.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache

from ioaware.analysis.formulas.evaluate import evaluate
from ioaware.analysis.theory.claims.claim import Comparison, Exponent, Part, judge_bounds, judge_comparisons
from ioaware.analysis.theory.claims.exponents import fit_exponents
from ioaware.analysis.theory.claims.leading_constants import POWERS, leading_elements
from ioaware.analysis.theory.claims.traced_points import FLASH
from ioaware.analysis.theory.counting import Counts
from ioaware.analysis.theory.counts import flash1, flash2
from ioaware.analysis.theory.lower_bounds import lower_bound_elements

HEAD_DIMS = (16, 64, 128, 256)
STEPS = 16
LARGE = {"N": 2**17, "d": 64, "M": 2**16}
"""Point around which each series varies one variable.

M is a multiple of 4 d and the blocks divide N, so no ceiling bends a power.
"""
SERIES: Mapping[str, tuple[int, ...]] = {
    "N": tuple(2**k for k in range(12, 21)),
    "d": (16, 32, 64, 128, 256),
    "M": tuple(2**k for k in range(12, 19)),
}
# Over d <= M <= N d: from T_c >= N d / M below, from T_c <= 4 N d / M + 1 and d >= 16 above.
THETA = {"flash1": (3.0, 18 + 22 / 16), "flash2": (2.0, 12 + 1 / 16)}
CONSTANT = {"flash1": "12(1 + 4/(3d))", "flash2": "8"}


@cache
def _counts(target: str) -> Counts:
    return {"flash1": flash1.counts, "flash2": flash2.counts}[target](causal=False)


def _at_blocks(target: str, at: Mapping[str, int]) -> dict[str, int]:
    """Return all symbols at N, d and M with the paper's blocks.

    There are as many keys as queries.
    """
    values = {**at, "N_k": at["N"]}
    return {**values, **{name: evaluate(block, values) for name, block in _counts(target).blocks.items()}}


def exact_elements(target: str, at: Mapping[str, int]) -> int:
    """Return the elements read and written per head at N, d and M.

    The blocks are the paper's.
    """
    return _counts(target).total_elements(_at_blocks(target, at))


def _ratio(target: str, at: Mapping[str, int]) -> float:
    """Return the count in units of N^2 d^2 / M."""
    return exact_elements(target, at) * at["M"] / (at["N"] ** 2 * at["d"] ** 2)


def _whole_range() -> Iterator[dict[str, int]]:
    """Return d <= M <= N d, ends included, in even steps of log M."""
    for d in HEAD_DIMS:
        for n in (2**8, 2**12, 2**16):
            for step in range(STEPS + 1):
                yield {"N": n, "d": d, "M": min(n * d, round(d * n ** (step / STEPS)))}


def _place(at: Mapping[str, int]) -> str:
    return " ".join(f"{name}={value}" for name, value in at.items())


def judge_constants() -> list[Part]:
    """Check Theta with its constants over the whole range of M.

    The leading constant for large N is checked too.
    """
    parts = [
        judge_bounds(
            "c",
            f"{target}: exact elements are Theta(N^2 d^2 / M) for all d <= M <= N d, in units of N^2 d^2 / M",
            [(_place(at), _ratio(target, at)) for at in _whole_range()],
            low=THETA[target][0],
            high=THETA[target][1],
        )
        for target in FLASH
    ]
    return [*parts, *(_judge_leading_constant(target) for target in FLASH)]


def _judge_leading_constant(target: str) -> Part:
    """Check that with N far beyond M/d the ratio is the constant.

    The rest falls as 1/N.
    """
    rows: list[Comparison] = []
    for d in HEAD_DIMS:
        at = {"N": 2**24, "d": d, "M": 2**16}
        expected = 12 * (1 + 4 / (3 * d)) if target == "flash1" else 8
        rows.append(Comparison("c", _place(at), expected, _ratio(target, at)))
    says = f"{target}: elements / (N^2 d^2 / M) tends to {CONSTANT[target]} for N >> M / d"
    return judge_comparisons("c", says, rows, tolerance=1e-3)


def judge_lower_bound() -> Part:
    """Check max(4 N d, N^2 d^2 / (M + 4 d^2) - M).

    It holds for any order of the computation.
    """
    ratios = [
        (f"{target} {_place(at)}", exact_elements(target, at) / lower_bound_elements({**at, "N_k": at["N"]}))
        for target in FLASH
        for at in _whole_range()
    ]
    return judge_bounds("e", "exact elements are never below max(4 N d, N^2 d^2 / (M + 4 d^2) - M)", ratios, low=1)


def exact_exponents() -> Iterator[Exponent]:
    """Fit powers of the exact counts, one variable at a time.

    They are fitted to the whole count and to its leading term.
    """
    for target in FLASH:
        for variable, sizes in SERIES.items():
            points = [{**LARGE, variable: size} for size in sizes]
            whole = [(at, exact_elements(target, at)) for at in points]
            leading = [(at, evaluate(leading_elements(target), _at_blocks(target, at))) for at in points]
            power = {variable: POWERS[target][variable]}
            yield from fit_exponents(f"{target}: exact elements", power, whole, judged=False)
            yield from fit_exponents(f"{target}: exact elements, leading term", power, leading)
