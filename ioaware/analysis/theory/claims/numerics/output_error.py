"""Check the error of O.

It is bounded for every T_c while O stays in float32, and grows as sqrt(T_c) where each pass rounds it.
"""

# ruff: noqa: E741 - l is the papers' letter
from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from ioaware.analysis.theory.claims.claim import Claim, Comparison, Part, conclude, judge_bounds
from ioaware.analysis.theory.claims.evidence import Evidence, Need, need
from ioaware.analysis.theory.claims.numerics.attention import Matrix, attention, softmax
from ioaware.analysis.theory.claims.numerics.rounded_kernels import (
    HALF_TINY,
    HALF_UNIT,
    SINGLE_UNIT,
    Forward,
    Inputs,
    draw,
    flash1,
    flash2,
    relative_error,
)
from ioaware.analysis.theory.power_law_fit import fit_power_law

NAME = "output_error"
STATEMENT = (
    "In float16 the error of flash2's O is at most two roundings of sum p|v| for every N and T_c. The error of flash1, which "
    "rounds O after each column block, grows as sqrt(T_c)."
)
SOURCE = "computed here; standard model of rounding (Higham 2002, sections 2.2 and 3.1)"

NOTES = (
    "Emulated: float16 inputs, P and O, float32 products, sums, m and l, as in the kernels; the reference is float64 of the "
    "same inputs. Traced: the kernels themselves in Triton's interpreter.",
    "The bound for each element, with u = 2^-11: 2u sum p|v| for the roundings of P and O, 2^-24 (N + 4 T_c + (d + 4) max|s|) "
    "sum p|v| for sums, rescaling and scores in float32, and 2^-25 sum |v| / l for P below float16's normal numbers.",
    "A common offset of K shifts the scores of a row together. Softmax does not depend on it; it enters through max|s| alone.",
)
HEAD_DIM = 32
LENGTHS = (64, 128, 256, 512)
LONG = LENGTHS[-1]
BLOCKS = (256, 128, 64, 32, 16, 8, 4)
"""Column blocks at N = 512: T_c from 2 to 128."""
TRACED = {
    target: tuple(need("trace", target, seq_len=128, head_dim=16, dtype="float16", block_m=64, block_n=n) for n in (128, 16))
    for target in ("flash1", "flash2")
}
"""T_c = 1 and T_c = 8."""


def points() -> tuple[Need, ...]:
    """Return runs of both kernels with few and many column blocks."""
    return tuple(wanted for needs in TRACED.values() for wanted in needs)


def judge(evidence: Evidence) -> Claim:
    """Return the verdict on emulated errors against the bound.

    It covers their growth and the kernels' own errors too.
    """
    rows: list[Comparison] = []
    parts = [
        _judge_bound("flash2: error of each element of O over the bound, N and T_c varied", _varied()),
        _judge_bound("flash2: the same with a common offset of K up to 64", _with_offset()),
        _judge_growth("flash2: power of T_c in the error of O, N = 512", flash2, low=-0.1, high=0.1),
        _judge_growth("flash1: power of T_c in the error of O, N = 512", flash1, low=0.3, high=0.7),
        _judge_length(),
    ]
    for target, low, high in (("flash1", 1.3, 10.0), ("flash2", 0.7, 1.3)):
        part, own = _judge_traced(target, evidence, low, high)
        parts.append(part)
        rows += own
    parts += _judge_gpu(evidence)
    notes = [*NOTES, *evidence.failures(points())]
    return conclude(NAME, STATEMENT, SOURCE, parts=parts, points=rows, notes=notes)


def _varied() -> Iterator[tuple[str, Inputs, int]]:
    for n in LENGTHS:
        yield f"N={n} B_c=64", draw(n, HEAD_DIM, value_mean=1), 64
    for block in BLOCKS:
        yield f"N={LONG} B_c={block}", draw(LONG, HEAD_DIM), block


def _with_offset() -> Iterator[tuple[str, Inputs, int]]:
    for offset in (1, 8, 64):
        yield f"N=256 B_c=32 offset={offset}", draw(256, HEAD_DIM, key_offset=offset), 32


def bound(inputs: Inputs, block: int) -> Matrix:
    """Return the bound on the error of each element of O."""
    q, k, v, _ = inputs.double()
    s = float(inputs.scale) * q @ k.T
    p = softmax(s)
    n, d = k.shape
    largest = float((float(inputs.scale) * abs(q) @ abs(k).T).max())
    relative = 2 * HALF_UNIT + SINGLE_UNIT * (n + 4 * -(-n // block) + (d + 4) * largest)
    l = np.exp(s - s.max(axis=1, keepdims=True)).sum(axis=1, keepdims=True)
    return relative * (p @ abs(v)) + HALF_TINY * abs(v).sum(axis=0) / l


def _judge_bound(says: str, cases: Iterator[tuple[str, Inputs, int]]) -> Part:
    ratios: list[tuple[str, float]] = []
    for where, inputs, block in cases:
        q, k, v, _ = inputs.double()
        error = abs(flash2(inputs, block).o - attention(q, k, v, float(inputs.scale)))
        ratios.append((where, float((error / bound(inputs, block)).max())))
    return judge_bounds("a", says, ratios, high=1)


def _errors(kernel: Callable[[Inputs, int], Forward], cases: Iterator[tuple[Inputs, int]]) -> list[float]:
    errors: list[float] = []
    for inputs, block in cases:
        q, k, v, _ = inputs.double()
        errors.append(relative_error(kernel(inputs, block).o, attention(q, k, v, float(inputs.scale))))
    return errors


def _judge_growth(says: str, kernel: Callable[[Inputs, int], Forward], *, low: float, high: float) -> Part:
    """Fit the power of T_c."""
    inputs = draw(LONG, HEAD_DIM)
    errors = _errors(kernel, ((inputs, block) for block in BLOCKS))
    power = fit_power_law({"T_c": [LONG // block for block in BLOCKS]}, errors).exponents["T_c"].value
    return judge_bounds("b", says, [(f"errors {errors[0]:.2g} to {errors[-1]:.2g}", power)], low=low, high=high)


def _judge_length() -> Part:
    """Fit the power of N at a fixed number of column blocks."""
    errors = _errors(flash2, ((draw(n, HEAD_DIM), n // 4) for n in LENGTHS))
    power = fit_power_law({"N": LENGTHS}, errors).exponents["N"].value
    says = "flash2: power of N in the relative error of O, T_c = 4"
    return judge_bounds("b", says, [(f"errors {errors[0]:.2g} to {errors[-1]:.2g}", power)], low=-0.1, high=0.1)


def _judge_traced(target: str, evidence: Evidence, low: float, high: float) -> tuple[Part, list[Comparison]]:
    """Compare the kernel's own error with many column blocks with that with one."""
    seen = [evidence.at(wanted) for wanted in TRACED[target]]
    checks = [one.observed.check for one in seen if one and one.observed.check]
    ratios = [("T_c = 8 over T_c = 1, N=128", checks[1].relative_error / checks[0].relative_error)] if len(checks) == 2 else []
    rows = [
        Comparison("c", str(wanted), one.observed.check.tolerance, one.observed.check.relative_error, "at most")
        for wanted, one in zip(TRACED[target], seen, strict=True)
        if one and one.observed.check
    ]
    return judge_bounds(
        "c", f"{target}: the kernel's error of O in the interpreter, many column blocks over one", ratios, low=low, high=high
    ), rows


def _judge_gpu(evidence: Evidence) -> Iterator[Part]:
    """Fit the power of N in recorded errors of O on a GPU, where T_c = N / 64."""
    for name, low, high in (("flash1", 0.3, 0.7), ("flash2", -0.1, 0.1)):
        found = {
            one.seq_len: one.o_error
            for one in evidence.rounding
            if (one.attention, one.block_n, one.key_offset, one.centred) == (name, 64, 16, False)
        }
        if len(found) > 2:
            lengths = sorted(found)
            power = fit_power_law({"N": lengths}, [found[n] for n in lengths]).exponents["N"].value
            says = f"{name} on a GPU: power of N, with T_c = N / 64, in the error of O"
            where = f"N={lengths[0]} to {lengths[-1]}, errors {found[lengths[0]]:.2g} to {found[lengths[-1]]:.2g}"
            yield judge_bounds("d", says, [(where, power)], low=low, high=high)
