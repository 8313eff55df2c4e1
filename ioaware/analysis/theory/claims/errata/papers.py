"""List the errors of FlashAttention and FlashAttention-2.

They are arXiv 2205.14135 and arXiv 2307.08691.
"""

from __future__ import annotations

import numpy as np

from ioaware.analysis.formulas.evaluate import evaluate
from ioaware.analysis.theory.claims.errata.erratum import Trial, erratum
from ioaware.analysis.theory.claims.numerics.attention import attention_gradients, softmax
from ioaware.analysis.theory.counts import flash2_backward
from ioaware.analysis.theory.lower_bounds import SEGMENTS, leading_term


class TwoBlocks:
    """Two blocks of one row, and both outputs by definition.

    It has m and l of the first and of both, and O of the first.
    """

    def __init__(self, random: np.random.Generator) -> None:
        one, self.two = random.normal(size=3), random.normal(size=3) + 1
        v1, self.v2 = random.normal(size=(3, 2)), random.normal(size=(3, 2))
        whole = np.concatenate((one, self.two))
        self.m1, self.m2 = float(one.max()), float(whole.max())
        self.l1, self.l2 = float(np.exp(one - self.m1).sum()), float(np.exp(whole - self.m2).sum())
        self.o1 = softmax(one) @ v1
        self.unscaled = np.exp(whole - self.m2) @ np.concatenate((v1, self.v2))
        self.last = np.exp(self.two - self.m2) @ self.v2


@erratum(
    "P.1", "FlashAttention-2, 3.1.1, O~(2)", "diag(l1)^-1 O(1) + e^(S2 - m2) V2", "diag(l1) e^(m1 - m2) O(1) + e^(S2 - m2) V2"
)
def unscaled_output(random: np.random.Generator) -> Trial:
    x = TwoBlocks(random)
    corrected = x.l1 * np.exp(x.m1 - x.m2) * x.o1 + x.last
    return Trial("blocks of 3 keys", x.unscaled, x.o1 / x.l1 + x.last, corrected)


@erratum("P.2", "FlashAttention-2, 3.1, O(2)", "diag(l1 / l2)^-1 O(1) + ...", "diag(l1 / l2) e^(m1 - m2) O(1) + ...")
def rescaled_output(random: np.random.Generator) -> Trial:
    x = TwoBlocks(random)
    rest = x.last / x.l2
    return Trial(
        "blocks of 3 keys", x.unscaled / x.l2, x.o1 * x.l2 / x.l1 + rest, x.l1 / x.l2 * np.exp(x.m1 - x.m2) * x.o1 + rest
    )


@erratum(
    "P.3",
    "FlashAttention-2, causal masking, item 2",
    "no mask where row indices are below column indices",
    "no mask where column indices are at most the row indices",
)
def unmasked_blocks(random: np.random.Generator) -> Trial:
    """For each block of a causal 12 x 12 matrix: may it be used without the mask?"""
    rows, columns = (int(x) for x in random.choice([2, 3, 4, 6], 2))
    seen = np.tril(np.ones((12, 12), bool))
    starts = [(i, j) for i in range(0, 12, rows) for j in range(0, 12, columns)]
    whole = [bool(seen[i : i + rows, j : j + columns].all()) for i, j in starts]
    printed = [i + rows - 1 < j for i, j in starts]
    return Trial(f"N=12 B_r={rows} B_c={columns}", whole, printed, [j + columns - 1 <= i for i, j in starts])


@erratum("P.4", "FlashAttention-2 and -3, D of the backward pass", "D in R^d", "D in R^N")
def delta_shape(random: np.random.Generator) -> Trial:
    n, d = int(random.integers(5, 9)), 3
    do, o = random.normal(size=(n, d)), random.normal(size=(n, d))
    by_hand = [sum(x * y for x, y in zip(*pair, strict=True)) for pair in zip(do.tolist(), o.tolist(), strict=True)]
    return Trial(f"N={n} d={d}", by_hand, (do * o).sum(axis=0), (do * o).sum(axis=1))


def _walk_backward(random: np.random.Generator, n: int, d: int, columns: int) -> float:
    """Walk Algorithm 2 without O_i and with one load of dQ_i: elements of the loop.

    NaN if the gradients were wrong.
    """
    q, k, v, do = (random.normal(size=(n, d)) for _ in range(4))
    s = q @ k.T
    lse = np.log(np.exp(s).sum(axis=1, keepdims=True))
    delta = (do * (softmax(s) @ v)).sum(axis=1, keepdims=True)
    dq, dk, dv, moved = np.zeros_like(q), np.zeros_like(k), np.zeros_like(v), 0
    for start in range(0, n, columns):
        j = slice(start, start + columns)
        p = np.exp(q @ k[j].T - lse)
        ds = p * (do @ v[j].T - delta)
        dv[j], dk[j] = p.T @ do, ds.T @ q
        dq += ds @ k[j]
        moved += k[j].size + v[j].size + q.size + do.size + lse.size + delta.size + 2 * dq.size + dk[j].size + dv[j].size
    exact = attention_gradients(q, k, v, do)
    return moved if all(np.allclose(*pair) for pair in zip((dq, dk, dv), exact, strict=True)) else np.nan


def _loop(n: int, d: int, columns: int, *, needed_only: bool) -> int:
    step = flash2_backward.printed(needed_only=needed_only).steps[1]
    return evaluate(step.reads.count + step.writes.count, {"N": n, "N_k": n, "d": d, "B_c": columns})


@erratum(
    "P.5",
    "FlashAttention-2, Algorithm 2, lines 9 and 15",
    "loads O_i, and dQ_i twice",
    "no O_i, dQ_i once: the gradients are right",
)
def needless_loads(random: np.random.Generator) -> Trial:
    n, d, columns = 12, 3, int(random.integers(2, 6))
    walked = _walk_backward(random, n, d, columns)
    return Trial(
        f"N={n} d={d} B_c={columns}", walked, _loop(n, d, columns, needed_only=False), _loop(n, d, columns, needed_only=True)
    )


@erratum("P.6", "FlashAttention, B.4", "the backward pass performs O(N^2) FLOPs", "O(N^2 d): twice the d, twice the FLOPs")
def backward_flops(random: np.random.Generator) -> Trial:
    n, d = int(random.integers(3, 7)), int(random.integers(2, 5))

    def flops(width: int) -> int:
        """Count the multiply-adds of the five products one by one."""
        return 5 * sum(2 for _ in np.ndindex(n, n, width))

    return Trial(f"FLOPs at 2d over those at d, N={n} d={d}", flops(2 * d) / flops(d), 1, 2)


@erratum(
    "P.7",
    "FlashAttention, figure 2, GFLOP row",
    "16 heads times batch 64",
    "64 heads: 75.2 - 66.6 = 8.6 is the recomputation of S",
)
def figure2_heads(random: np.random.Generator) -> Trial:
    """Compare the recomputation in units of 0.1 GFLOP.

    The printed row is rounded to that.
    """
    del random
    n, d = 1024, 64
    recomputed = [round(2 * n * n * d * heads / 1e9, 1) for heads in (16 * 64, 64)]
    return Trial("N=1024 d=64, GFLOP", round(75.2 - 66.6, 1), *recomputed)


@erratum(
    "P.8",
    "FlashAttention, Theorem 2, standard half",
    "Theta(N d + N^2) for all d <= M <= N d",
    "for M = Omega(d^2): below, no order attains it",
)
def standard_condition(random: np.random.Generator) -> Trial:
    d, n = 2**16, int(2 ** random.integers(17, 22))
    m = d
    least = leading_term(SEGMENTS, {"N": n, "N_k": n, "d": d, "M": m})
    return Trial(f"N={n} d={d} M={m}: can 12 (N d + N^2) elements suffice?", least <= 12 * (n * d + n * n), True, m >= d * d)


def _live(shapes: list[tuple[int, ...]]) -> int:
    return sum(np.empty(shape).size for shape in shapes)


@erratum("P.9", "FlashAttention, Algorithm 1, line 1", "its blocks fit in M", "not below 8 d^2 + 8 d")
def forward_blocks(random: np.random.Generator) -> Trial:
    d, m = 32, int(random.integers(32, 8 * 32 * 32 + 8 * 32))
    columns = -(-m // (4 * d))
    rows = min(columns, d)
    live = _live([(columns, d)] * 2 + [(rows, d)] * 2 + [(rows, columns), (rows,), (rows,)])
    return Trial(f"d={d} M={m}: {live} elements", live <= m, True, m >= 8 * d * d + 8 * d)


@erratum("P.10", "FlashAttention, Algorithm 4, line 2", "its blocks fit in M", "K, V, dK and dV alone take M")
def backward_blocks(random: np.random.Generator) -> Trial:
    d, m = 32, int(random.integers(32, 2**16))
    columns = -(-m // (4 * d))
    rows = min(columns, d)
    live = _live([(columns, d)] * 4 + [(rows, d)] * 4 + [(rows, columns)] * 2 + [(rows,)] * 3)
    return Trial(f"d={d} M={m}: {live} elements", live <= m, True, m > 4 * columns * d)


ERRATA = (
    unscaled_output,
    rescaled_output,
    unmasked_blocks,
    delta_shape,
    needless_loads,
    backward_flops,
    figure2_heads,
    standard_condition,
    forward_blocks,
    backward_blocks,
)
