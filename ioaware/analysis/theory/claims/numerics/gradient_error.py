"""Check the error of dQ.

An offset of K multiplies what a rounded O leaves in the row sums of dS.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ioaware.analysis.formulas.evaluate import evaluate
from ioaware.analysis.theory.claims.claim import Claim, Part, conclude, judge_bounds
from ioaware.analysis.theory.claims.evidence import Evidence, Need
from ioaware.analysis.theory.claims.numerics.attention import Matrix, attention_gradients, softmax
from ioaware.analysis.theory.claims.numerics.rounded_kernels import (
    HALF_UNIT,
    SINGLE_UNIT,
    Backward,
    Inputs,
    backward,
    centred,
    delta_of,
    delta_of_weights,
    draw,
    flash2,
    relative_error,
)
from ioaware.analysis.theory.counts import flash2_backward
from ioaware.analysis.theory.power_law_fit import fit_power_law

NAME = "gradient_error"
STATEMENT = (
    "A common offset of K costs dQ of a flash backward its digits, in proportion to the offset, because D = rowsum(dO O) is "
    "taken from a rounded O; subtracting the mean key repairs it for one more read of K."
)
SOURCE = "computed here; FlashAttention's backward pass, Dao et al. 2022, arXiv 2205.14135, Algorithm 4, line 19"

NOTES = (
    "In exact arithmetic every row of dS sums to zero, so an offset of all keys adds nothing to dQ = dS K. With D from O "
    "rounded to float16 that rounding alone leaves row sums of up to u sum |dO||O|, u = 2^-11, and dQ gains the offset times "
    "that.",
    "Any kernel that takes D from the stored O has it: Algorithm 4, FlashAttention-2's Algorithm 2, and the implementations "
    "that follow them. The float32 O, or D = rowsum(P dP), takes that share away; what dS rounded to float16 leaves stays and "
    "grows too.",
    "Subtracting the mean key k changes neither softmax nor dK and dV; in dQ = dS (K - k) it drops what exact arithmetic makes "
    "zero. The difference of float16 numbers near each other is exact.",
    "Bytes, for each head: mean key N_k d e read, 4 d written, 4 d read by every program. Float32 O: 4 N d written beside O, 4 "
    "N d read instead of N d e. D = rowsum(P dP): Q, dO once and K, V for every row block again.",
    "Emulated in numpy with the kernels' roundings (float16 P, dS and O, float32 elsewhere); values have mean 1, so O does not "
    "vanish.",
)
LENGTH, HEAD_DIM, BLOCK = 128, 64, 32
OFFSETS = (4, 16, 64, 256, 1024)
LENGTHS = (32, 64, 128, 256)


def points() -> tuple[Need, ...]:
    """Return no runs: cases draw their inputs without an offset."""
    return ()


def judge(evidence: Evidence) -> Claim:
    """Return the verdict on emulated errors, their bound and their growth."""
    flash = [_error(offset) for offset in OFFSETS]
    repaired = [_error(offset, repair="centred") for offset in OFFSETS]
    parts = [
        _judge_exact(),
        _judge_residue(),
        _judge_power("b", "power of the offset in the relative error of dQ", "offset", OFFSETS, flash, low=0.85, high=1.1),
        judge_bounds("b", "relative error of dQ at an offset of 1024: no digit is left", [(f"N={LENGTH}", flash[-1])], low=1),
        _judge_power("c", "power of N in the error of dQ at an offset of 16", "N", LENGTHS, _over_lengths(), low=0.3, high=0.7),
        _judge_power(
            "c",
            "power of T_c in the error of dQ at an offset of 16",
            "T_c",
            (1, 2, 4, 8, 16),
            _over_blocks(),
            low=-0.1,
            high=0.1,
        ),
        *_judge_shares(flash),
        _judge_power(
            "e", "mean key subtracted: power of the offset in the error of dQ", "offset", OFFSETS, repaired, low=-0.1, high=0.1
        ),
        judge_bounds(
            "e",
            "mean key subtracted: relative error of dQ, in units of 2^-11",
            [_at(*pair) for pair in zip(OFFSETS, repaired, strict=True)],
            high=4,
        ),
        _judge_bytes(),
        *_judge_gpu(evidence),
    ]
    return conclude(NAME, STATEMENT, SOURCE, parts=parts, notes=NOTES)


def _at(offset: int, error: float) -> tuple[str, float]:
    return f"offset {offset}", error / HALF_UNIT


def run(inputs: Inputs, block: int = BLOCK, repair: str = "none") -> Backward:
    """Compute dQ as flash kernels do.

    `repair` is none, centred, unrounded (D from O in float32) or weights (D from P dP).
    """
    inputs = centred(inputs) if repair == "centred" else inputs
    forward = flash2(inputs, block)
    deltas = {
        "unrounded": lambda: delta_of(inputs.do, forward.unrounded),
        "weights": lambda: delta_of_weights(inputs, forward.lse),
    }
    delta = deltas.get(repair, lambda: delta_of(inputs.do, forward.o))()
    return backward(inputs, forward.lse, delta, block)


def _exact_dq(inputs: Inputs) -> Matrix:
    return attention_gradients(*inputs.double(), scale=float(inputs.scale)).dq


def _error(offset: float, n: int = LENGTH, block: int = BLOCK, repair: str = "none") -> float:
    inputs = draw(n, HEAD_DIM, key_offset=offset, value_mean=1)
    return relative_error(run(inputs, block, repair).dq, _exact_dq(inputs))


def _over_lengths() -> list[float]:
    return [_error(16, n=n) for n in LENGTHS]


def _over_blocks() -> list[float]:
    return [_error(16, n=256, block=256 // parts) for parts in (1, 2, 4, 8, 16)]


def _judge_exact() -> Part:
    """Check that subtracting a common key changes dQ by nothing but rounding.

    It is checked in float64.
    """
    ratios: list[tuple[str, float]] = []
    for offset in OFFSETS:
        q, k, v, do = draw(64, HEAD_DIM, key_offset=offset, value_mean=1).double()
        shifted, whole = (attention_gradients(q, keys, v, do, HEAD_DIM**-0.5).dq for keys in (k - k.mean(axis=0), k))
        ratios.append((f"offset {offset}", float(np.linalg.norm(shifted - whole) / np.linalg.norm(whole))))
    return judge_bounds("a", "in float64 dQ does not depend on a common offset: relative difference", ratios, high=1e-9)


def residue_bound(inputs: Inputs) -> Matrix:
    """Return the bound on |sum_j dS_ij| [N, 1].

    It has two float16 roundings, of P and O, and float32's of scores and sums.
    """
    q, k, v, do = inputs.double()
    p = softmax(float(inputs.scale) * q @ k.T)
    largest = float((float(inputs.scale) * abs(q) @ abs(k).T).max())
    n, d = k.shape
    relative = 2 * HALF_UNIT + SINGLE_UNIT * (2 * n + 2 * d + (d + 4) * largest)
    return relative * (abs(do) * (p @ abs(v))).sum(axis=1, keepdims=True)


def _judge_residue() -> Part:
    """Check the row sums of dS against their bound, elementwise."""
    ratios: list[tuple[str, float]] = []
    for offset in (0, 1, 16):
        for n in (64, 128):
            inputs = draw(n, HEAD_DIM, key_offset=offset, value_mean=1)
            ratios.append((f"N={n} offset={offset}", float((abs(run(inputs).residue) / residue_bound(inputs)).max())))
    return judge_bounds(
        "a", "row sums of dS, zero in exact arithmetic, over 2 u sum |dO| p|v| and float32's share", ratios, low=1e-3, high=1
    )


def _judge_power(
    part: str, says: str, name: str, sizes: tuple[int, ...], errors: list[float], *, low: float, high: float
) -> Part:
    power = fit_power_law({name: sizes}, errors).exponents[name].value
    return judge_bounds(part, says, [(f"errors {errors[0]:.2g} to {errors[-1]:.2g}", power)], low=low, high=high)


def _judge_shares(flash: list[float]) -> Iterator[Part]:
    """Check what D without the rounded O gains.

    dS rounded to float16 still makes the error grow, which is checked too.
    """
    for repair, words in (("unrounded", "D from O in float32"), ("weights", "D = rowsum(P dP)")):
        errors = [_error(offset, repair=repair) for offset in OFFSETS[:4]]
        ratios = [(f"offset {offset}", error / whole) for offset, error, whole in zip(OFFSETS, errors, flash, strict=False)]
        yield judge_bounds("d", f"{words}: error of dQ over that of the rounded O", ratios, high=0.5)
        says = f"{words}: power of the offset in what is left"
        yield _judge_power("d", says, "offset", OFFSETS[:4], errors, low=0.85, high=1.2)


FLASH = ("flash1", "flash2", "flash2, atomics", "hopper", "portable", "SDPA flash", "SDPA cuDNN", "SDPA efficient")
"""Backward passes that take D from the stored O: here, and torch's."""


def _judge_gpu(evidence: Evidence) -> Iterator[Part]:
    """Check recorded errors of kernels on a GPU: their growth, and the repair's."""
    powers: list[tuple[str, float]] = []
    lost: list[tuple[str, float]] = []
    kept: list[tuple[str, float]] = []
    for name in FLASH:
        own = [one for one in evidence.rounding if one.attention == name and one.seq_len == 1024 and one.block_n == 64]
        found = {one.key_offset: one.dq_error for one in own if not one.centred}
        if all(offset in found for offset in OFFSETS):
            power = fit_power_law({"offset": OFFSETS[1:]}, [found[offset] for offset in OFFSETS[1:]]).exponents["offset"].value
            powers.append((name, power))
            lost.append((f"{name}, offset {OFFSETS[-1]}", found[OFFSETS[-1]]))
        kept += [(f"{name}, offset {one.key_offset:g}", one.dq_error / HALF_UNIT) for one in own if one.centred]
    if powers:
        yield judge_bounds("g", "on a GPU: power of the offset from 16 on, each flash backward", powers, low=0.85, high=1.15)
        yield judge_bounds("g", "on a GPU: relative error of dQ at an offset of 1024: no digit is left", lost, low=1)
        yield judge_bounds("g", "on a GPU, mean key subtracted: error of dQ in units of 2^-11", kept, high=4)


def repair_bytes(n: int, d: int, rows: int, columns: int, width: int) -> dict[str, int]:
    """Return what each repair moves beyond the two-kernel backward pass.

    It is for a head with blocks of rows and columns.
    """
    programs = -(-n // rows) + -(-n // columns)
    return {
        "mean key": n * d * width + 4 * d * (1 + programs),
        "O in float32": 4 * n * d + (4 - width) * n * d,
        "rowsum(P dP)": 2 * n * d * width + 2 * n * d * width * -(-n // rows),
    }


def _judge_bytes() -> Part:
    """Check that the repair is the cheapest of the three.

    Its share of the backward pass' bytes is checked too.
    """
    ratios: list[tuple[str, float]] = []
    for n in (512, 4096, 32768):
        for d in (64, 128):
            values = {"N": n, "N_k": n, "d": d, "B_r": 64, "B_c": 64, "e": 2}
            counts = flash2_backward.counts(False)
            whole = evaluate(counts.reads.bytes + counts.writes.bytes, values)
            costs = repair_bytes(n, d, 64, 64, 2)
            cheapest = costs["mean key"] <= min(costs.values())
            ratios.append((f"N={n} d={d} blocks of 64", costs["mean key"] / whole if cheapest else np.inf))
    return judge_bounds(
        "f", "mean key: bytes over those of the two-kernel backward pass; the cheapest of the three repairs", ratios, high=0.05
    )
