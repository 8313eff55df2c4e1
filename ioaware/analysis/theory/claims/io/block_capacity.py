"""Check whether the blocks of the paper's rule fit in M, and on which GPUs.

M is the one that sets them.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ioaware.analysis.formulas.evaluate import compile_expression
from ioaware.analysis.theory import counting
from ioaware.analysis.theory.claims.claim import Claim, Comparison, Part, conclude, judge_bounds, judge_comparisons
from ioaware.analysis.theory.claims.evidence import Evidence, Need
from ioaware.machine.presets import PRESETS

NAME = "capacity"
STATEMENT = (
    "Algorithm 1's blocks never fit in M below 8 d^2 + 8 d elements and always from 8 d^2 + 20 d on; Algorithm 4's never do."
)
SOURCE = "Dao et al. 2022, arXiv 2205.14135, Algorithm 1, line 1: B_c = ceil(M / 4d), B_r = min(B_c, d)"

NOTES = (
    "Live at line 9 are K_j, V_j, Q_i, O_i, S_ij, l_i and m_i: 2d (B_r + B_c) + B_r B_c + 2 B_r elements. A quarter of M for "
    "each of Q, K, V and O leaves nothing for S.",
    "From M = 4 d^2 on B_r = d, and the live set is at most 3M/4 + 2 d^2 + 5 d, which is at most M from 8 d^2 + 20 d on: the "
    "check beyond the range computed here.",
    "M of a GPU is the shared memory of one SM in elements of float16. Registers, where kernels keep S and O, are not counted.",
    "The notebook's toy, M = 20 and d = 2, has B_c = 3 and B_r = 2: 30 elements.",
)
HEAD_DIMS = (1, 2, 3, 8, 16, 31, 64, 128)
ON_GPUS = (16, 32, 64, 96, 128, 192, 256)


def points() -> tuple[Need, ...]:
    """Return no runs: sizes decide."""
    return ()


def judge(evidence: Evidence) -> Claim:
    """Return the verdict on every M of a range, and the GPUs that suffice.

    Their shared memory is large enough.
    """
    del evidence
    walked = [_walked(d, m) for d, m in ((2, 20), (4, 128), (8, 700), (16, 4096))]
    parts = [
        judge_comparisons("a", "the live set of line 9 is that of arrays of these shapes", walked),
        _judge_range("a", "never fits for M < 8 d^2 + 8 d: live set over M", fits=False),
        _judge_range("a", "always fits for 8 d^2 + 20 d <= M <= 32 d^2 + 20 d: live set over M", fits=True),
        _judge_backward(),
        *_judge_gpus(),
    ]
    return conclude(NAME, STATEMENT, SOURCE, parts=parts, points=walked, notes=NOTES)


def _blocks(d: int, memory: int) -> tuple[int, int]:
    """Return B_r and B_c of line 1."""
    columns = -(-memory // (4 * d))
    return min(columns, d), columns


def _live(d: int, memory: int) -> int:
    rows, columns = _blocks(d, memory)
    return int(compile_expression(counting.LIVE_SET)({"d": d, "B_r": rows, "B_c": columns}))


def _walked(d: int, memory: int) -> Comparison:
    """Compare the formula with arrays of the shapes that lines 6 to 9 have on chip."""
    rows, columns = _blocks(d, memory)
    shapes = [(columns, d), (columns, d), (rows, d), (rows, d), (rows, columns), (rows,), (rows,)]  # K, V, Q, O, S, l, m
    return Comparison("a", f"d={d} M={memory}", sum(np.empty(shape).size for shape in shapes), _live(d, memory))


def _judge_range(part: str, says: str, *, fits: bool) -> Part:
    """Check every M below the lower threshold, or from the upper one on.

    The extreme of each d is the evidence.
    """
    extremes: list[tuple[str, float]] = []
    for d in HEAD_DIMS:
        low, high = (8 * d * d + 20 * d, 32 * d * d + 20 * d) if fits else (1, 8 * d * d + 8 * d - 1)
        memory = np.arange(low, high + 1)
        columns = -(-memory // (4 * d))
        live = (
            np.asarray(compile_expression(counting.LIVE_SET)({"d": d, "B_r": np.minimum(columns, d), "B_c": columns})) / memory
        )
        worst = int(live.argmax() if fits else live.argmin())
        extremes.append((f"d={d} M={memory[worst]}", float(live[worst])))
    if fits:
        return judge_bounds(part, says, extremes, high=1)
    return judge_bounds(part, says, extremes, low=np.nextafter(1, 2))


def _judge_backward() -> Part:
    """Check that K_j, V_j, dK_j and dV_j of Algorithm 4 alone take M or more.

    Q_i and S_ij come on top.
    """
    ratios: list[tuple[str, float]] = []
    for d in HEAD_DIMS:
        memory = np.arange(1, 40 * d * d + 1)
        columns = -(-memory // (4 * d))
        least = int((4 * columns * d / memory).argmin())
        ratios.append((f"d={d} M={memory[least]}", float(4 * columns[least] * d / memory[least])))
    return judge_bounds("b", "Algorithm 4: K, V, dK and dV of its blocks alone, over M", ratios, low=1)


def _judge_gpus() -> Iterator[Part]:
    """Name the head sizes whose blocks fit on each GPU.

    They are found by the live set and by the thresholds.
    """
    for machine in PRESETS.values():
        memory = machine.sram_elements("float16")
        fitting = [d for d in ON_GPUS if _live(d, memory) <= memory]
        outside = [d for d in ON_GPUS if (memory >= 8 * d * d + 20 * d) != (d in fitting)]
        between = [d for d in outside if 8 * d * d + 8 * d <= memory < 8 * d * d + 20 * d]
        says = f"{machine.name}: M = {memory} elements of one SM; head sizes of {', '.join(map(str, ON_GPUS))} whose blocks fit"
        expected = ", ".join(str(d) for d in ON_GPUS if memory >= 8 * d * d + 20 * d)
        verdict = "holds" if outside == between else "fails"
        yield Part("c", says, f"d with 8 d^2 + 20 d <= M: {expected}", ", ".join(map(str, fitting)), len(ON_GPUS), verdict)
