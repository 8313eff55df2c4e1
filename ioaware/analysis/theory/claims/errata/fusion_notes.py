"""List the errors of the notes on fused kernels, offsets, accesses, reductions.

These are the notes S2, sections 2 to 5.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ioaware.analysis.theory.claims.errata.erratum import Trial, Values, erratum, vector_text
from ioaware.analysis.theory.claims.io.softmax_accesses import CountedMemory
from ioaware.analysis.theory.claims.numerics.attention import softmax


class Tile:
    """A row's state of earlier keys and the notes' x_1 to x_7 of a tile."""

    def __init__(self, random: np.random.Generator) -> None:
        earlier, self.v_old = random.normal(size=3), random.normal(size=(3, 2))
        self.x1, self.v = random.normal(size=4), random.normal(size=(4, 2))
        self.m_old = float(earlier.max())
        self.l_old = float(np.exp(earlier - self.m_old).sum())
        self.o_old = softmax(earlier) @ self.v_old
        self.x2 = float(self.x1.max())
        self.x3 = np.exp(self.x1 - self.x2)
        self.x4, self.x5 = float(self.x3.sum()), self.x3 @ self.v
        self.m = max(self.m_old, self.x2)
        self.x6, self.x7 = np.exp(self.m_old - self.m), np.exp(self.x2 - self.m)
        whole = np.concatenate((earlier, self.x1))
        self.l = float(np.exp(whole - self.m).sum())
        self.o = softmax(whole) @ np.concatenate((self.v_old, self.v))


@erratum("S2.12", "notes 2.1, L_new", "x_6 o_old + x_7 x_4", "x_6 L_old + x_7 x_4")
def new_sum(random: np.random.Generator) -> Trial:
    x = Tile(random)
    return Trial("a tile of 4 keys after 3", x.l, x.x6 * x.o_old + x.x7 * x.x4, x.x6 * x.l_old + x.x7 * x.x4)


@erratum("S2.13", "notes 2.1, o_new", "(o_old L_old x_6 + x_7 x_3) / L_new", "(o_old L_old x_6 + x_7 x_5) / L_new")
def new_output(random: np.random.Generator) -> Trial:
    x = Tile(random)
    old = x.o_old * x.l_old * x.x6
    printed = (float(old[0]) + x.x7 * x.x3) / x.l  # a number for each key, not for each dimension
    return Trial("a tile of 4 keys after 3", x.o, printed, (old + x.x7 * x.x5) / x.l)


BATCH, HEADS, QUERIES, KEYS, ROWS, COLUMNS = 2, 3, 12, 10, 4, 5
ROW_BLOCKS = QUERIES // ROWS


def _cta(random: np.random.Generator) -> tuple[int, int, int, int]:
    """Return a CTA's number, batch, head and row block."""
    n, h, i = int(random.integers(BATCH)), int(random.integers(HEADS)), int(random.integers(1, ROW_BLOCKS))
    return (n * HEADS + h) * ROW_BLOCKS + i, n, h, i


@erratum("S2.14", "notes 3, D_offset", "blockIdx / N * B_r * L_K", "blockIdx * B_r * L_K")
def bias_offset(random: np.random.Generator) -> Trial:
    cta, n, h, i = _cta(random)
    bias = np.arange(BATCH * HEADS * QUERIES * KEYS).reshape(BATCH, HEADS, QUERIES, KEYS)  # element: its address
    return Trial(
        f"CTA {cta} of {BATCH}x{HEADS}x{ROW_BLOCKS}", bias[n, h, i * ROWS, 0], cta // BATCH * ROWS * KEYS, cta * ROWS * KEYS
    )


@erratum("S2.14b", "notes 3, D_offset, D shared by the batch", "blockIdx / N * B_r * L_K", "(blockIdx mod H T_r) * B_r * L_K")
def shared_bias_offset(random: np.random.Generator) -> Trial:
    cta, _, h, i = _cta(random)
    bias = np.arange(HEADS * QUERIES * KEYS).reshape(HEADS, QUERIES, KEYS)
    corrected = cta % (HEADS * ROW_BLOCKS) * ROWS * KEYS
    return Trial(f"CTA {cta} of {BATCH}x{HEADS}x{ROW_BLOCKS}", bias[h, i * ROWS, 0], cta // BATCH * ROWS * KEYS, corrected)


@erratum("S2.15", "notes 3, d_offset", "i * B_r * B_c", "i * B_c, rows L_K apart")
def bias_tile_offset(random: np.random.Generator) -> Trial:
    del random
    bias, i = np.arange(ROWS * KEYS).reshape(ROWS, KEYS), 1
    return Trial(
        f"tile {i} of B_r={ROWS} rows, L_K={KEYS}, B_c={COLUMNS}", bias[0, i * COLUMNS], i * ROWS * COLUMNS, i * COLUMNS
    )


@erratum("S2.21", "notes 3, shape of Vs", "[N H L_Q, d]", "[N H L_K, d]")
def value_rows(random: np.random.Generator) -> Trial:
    weights = softmax(random.normal(size=(QUERIES, KEYS)))
    needed = BATCH * HEADS * weights.shape[1]  # a row of V for each weight of a row
    return Trial(f"L_Q={QUERIES} L_K={KEYS}", needed, BATCH * HEADS * QUERIES, BATCH * HEADS * KEYS)


@erratum("S2.22", "notes 3, T_r, T_c and the grid", "L / B", "ceil(L / B)")
def row_blocks(random: np.random.Generator) -> Trial:
    length, block = int(random.integers(5, 30)), 4
    length += length % block == 0
    starts = len(range(0, length, block))
    return Trial(f"L={length} B={block}", starts, length / block, -(-length // block))


@erratum("S2.16", "notes 5.1, R and R_1", "s = A(I, x_i)", "s = A(s, x_i)")
def accumulator(random: np.random.Generator) -> Trial:
    x = random.normal(size=5)
    printed = corrected = 0.0
    for value in x.tolist():
        printed, corrected = 0.0 + value, corrected + value
    return Trial(f"sum of {vector_text(x)}", x.sum(), printed, corrected)


@erratum(
    "S2.17",
    "notes 5.1, G and R_2",
    "t_i = g(I_2, z_i); R_2 over Y updates s_1",
    "t_i = g(s_1, y_i); R_2 over T updates s_2 and returns F_2",
)
def consecutive(random: np.random.Generator) -> Trial:
    """Take the maximum for R_1, e^(y - s) for g and the sum for R_2.

    These have initial values of 0.
    """
    x = random.normal(size=4) + 1
    defined = np.exp(x - x.max())
    mapped_printed, mapped = np.exp(x - 0.0), np.exp(x - x.max())
    s2_printed = s2 = 0.0  # as printed the loop of R_2 changes s_1, and what is returned is never updated
    for t in mapped.tolist():
        s2 += t
    whole = np.append(defined, defined.sum())
    return Trial(f"x={vector_text(x)}: T, then R_2", whole, np.append(mapped_printed, s2_printed), np.append(mapped, s2))


@erratum("S2.18", "notes 5.2, fused R", "s = C(local, p) with p never updated", "s = C(s, local)")
def fused(random: np.random.Generator) -> Trial:
    """Fuse maximum and sum of exponentials.

    The state is (m, l), the local one (x, 1), and the combiner FlashAttention's.
    """
    x = random.normal(size=5)

    def combine(one: tuple[float, float], two: tuple[float, float]) -> tuple[float, float]:
        m = max(one[0], two[0])
        return m, one[1] * float(np.exp(one[0] - m)) + two[1] * float(np.exp(two[0] - m))

    initial = (-np.inf, 0.0)
    printed = corrected = initial
    for value in x.tolist():
        printed, corrected = combine((value, 1.0), initial), combine(corrected, (value, 1.0))
    return Trial(f"x={vector_text(x)}", (x.max(), np.exp(x - x.max()).sum()), printed, corrected)


@erratum("S2.23", "notes 5.2, loop of the fused R", "foreach (x_i, y_1) of X and Y", "foreach (x_i, y_i) of X and Y")
def paired_elements(random: np.random.Generator) -> Trial:
    x, y = random.normal(size=4), random.normal(size=4)
    printed, corrected = (sum(a * b for a, b in zip(x, other, strict=True)) for other in (np.full(4, y[0]), y))
    return Trial(f"sum of x y, x={vector_text(x)} y={vector_text(y)}", x @ y, printed, corrected)


@erratum(
    "S2.24",
    "notes 5.2, the step of the fused R",
    "defined with (I_1, I_2, s_1, s_2, x, y), used with (s_1, s_2, x, y)",
    "defined with (s_1, s_2, x, y)",
)
def step_arguments(random: np.random.Generator) -> Trial:
    """Take sums for R_1 and R_2; a step that cannot be called gives NaN."""

    def as_defined(i1: float, i2: float, s1: float, s2: float, x: float, y: float) -> float:  # noqa: ARG001
        return s1 + x + s2 + y

    def as_used(s1: float, s2: float, x: float, y: float) -> float:
        return s1 + x + s2 + y

    def called(step: Callable[..., float]) -> float:
        try:
            return step(*values)
        except TypeError:
            return np.nan

    values = [float(value) for value in random.normal(size=4)]
    return Trial(f"(s_1, s_2, x, y)={np.round(values, 2)}", sum(values), called(as_defined), called(as_used))


@erratum("S2.19", "notes 4.3, cub softmax", "6 G with t_1 stored", "4 G: step 4 computes e^(V - t_0) again, so t_1 is dead")
def dead_store(random: np.random.Generator) -> Trial:
    v, memory = random.normal(size=(3, 8)), CountedMemory()
    t0 = memory.read(v).max(axis=1, keepdims=True)
    t2 = np.exp(memory.read(v) - t0).sum(axis=1, keepdims=True)
    output = memory.write(np.exp(memory.read(v) - t0) / t2)
    walked = (memory.global_reads + memory.global_writes) / v.size if np.allclose(output, softmax(v)) else np.nan
    return Trial("accesses in G of steps 1, 3, 4", walked, 6, 3 + 1)


@erratum("S2.19b", "notes 4, floor of the tables", "3 G is the least shown", "2 G where a row stays on chip")
def floor(random: np.random.Generator) -> Trial:
    v, memory = random.normal(size=(3, 8)), CountedMemory()
    rows: Values = memory.read(v)
    output = memory.write(softmax(rows))
    walked = (memory.global_reads + memory.global_writes) / v.size if np.allclose(output.sum(axis=1), 1) else np.nan
    return Trial("accesses in G", walked, 3, 2)


@erratum("S2.19c", "notes 4.3, numbers of the steps", "1, 2, 3, 3", "1, 2, 3, 4")
def step_numbers(random: np.random.Generator) -> Trial:
    """Count the steps of a walk over the table."""
    v = random.normal(size=(3, 8))
    t0 = v.max(axis=1, keepdims=True)
    t1 = np.exp(v - t0)
    t2 = t1.sum(axis=1, keepdims=True)
    walked = (t0, t1, t2, np.exp(v - t0) / t2)
    return Trial("max, exp, sum, quotient", range(1, len(walked) + 1), (1, 2, 3, 3), (1, 2, 3, 4))


ERRATA = (
    new_sum,
    new_output,
    bias_offset,
    shared_bias_offset,
    bias_tile_offset,
    value_rows,
    row_blocks,
    accumulator,
    consecutive,
    fused,
    paired_elements,
    step_arguments,
    dead_store,
    step_numbers,
    floor,
)
