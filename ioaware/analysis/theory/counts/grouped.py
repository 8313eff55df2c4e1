"""Count attention with grouped query heads, and with keys in splits, exactly.

Attention with its keys in splits is Flash-Decoding.

An instance is one set of rows that share tiles: one query head, or, packed, all query heads of a key head one after another. N
is the rows of an instance. G is the number of instances that read the same keys: 1 if packed, else the query heads of a key
head.
"""

from __future__ import annotations

from functools import cache

from sympy import Expr

from ioaware.analysis.formulas.functions import index, positive_symbols, series, smallest
from ioaware.analysis.theory.counting import B_r, Counts, Elements, N, N_k, Step, T_r, d
from ioaware.analysis.theory.counts.flash2 import visible_keys
from ioaware.analysis.theory.counts.flash2_backward import gradients
from ioaware.analysis.theory.lower_bounds import compulsory_backward

G, S = positive_symbols("G S")

SOURCE = "Dao 2023, arXiv 2307.08691, section 3.1, for grouped heads (Ainslie et al. 2023, arXiv 2305.13245)"
SPLIT_SOURCE = "Dao et al. 2023, Flash-Decoding: splits of the keys, then a combiner"

_i = index("i")


def _compulsory(causal: bool) -> Step:
    """Return an instance's share of the inputs once and of the output once."""
    queries = smallest(N, N_k) if causal else N
    return Step("compulsory", reads=Elements(inputs=queries * d + 2 * N_k * d / G), writes=Elements(inputs=N * d))


def _tiles(causal: bool) -> tuple[Expr, Expr]:
    """Return the keys that all row blocks read, and the pairs that they multiply."""
    if not causal:
        return N_k * T_r, N * N_k
    return series(visible_keys(_i), _i, T_r), series(smallest(B_r, N - _i * B_r) * visible_keys(_i), _i, T_r)


@cache
def counts(causal: bool) -> Counts:
    """Count one query head: Q, O and L once, K and V per row block.

    K and V are counted so although G heads share them.
    """
    keys, pairs = _tiles(causal)
    step = Step(
        "row blocks",
        reads=Elements(inputs=N * d + 2 * d * keys),
        writes=Elements(inputs=N * d, fp32=N),
        flops=4 * d * pairs,
    )
    return Counts("gqa", SOURCE, (step,), extra=Elements(fp32=N), compulsory=_compulsory(causal))


@cache
def packed(causal: bool) -> Counts:
    """Count the rows of all query heads of a key head in one sequence of tiles.

    It skips no block where causal.
    """
    steps = counts(causal=False).steps
    return Counts("gqa_packed", SOURCE, steps, extra=Elements(fp32=N), compulsory=_compulsory(causal))


def _split(name: str, causal: bool, *, skips: bool) -> Counts:
    """Count S splits and the combiner.

    Each split has Q and fp32 partial results, and the combiner reads these and writes O and L.
    """
    keys, pairs = _tiles(skips)
    partial = Elements(fp32=S * N * (d + 1))
    steps = (
        Step("splits", reads=Elements(inputs=S * N * d + 2 * d * keys), writes=partial, flops=4 * d * pairs),
        Step("combine", reads=partial, writes=Elements(inputs=N * d, fp32=N)),
    )
    return Counts(name, SPLIT_SOURCE, steps, extra=partial + Elements(fp32=N), compulsory=_compulsory(causal))


@cache
def split(causal: bool) -> Counts:
    """Count splits of one query head; K and V traffic does not depend on S."""
    return _split("split_kv", causal, skips=causal)


@cache
def split_packed(causal: bool) -> Counts:
    """Count splits of the packed rows of a key head."""
    return _split("split_kv_packed", causal, skips=False)


@cache
def backward(causal: bool) -> Counts:
    """Count FlashAttention-2's two kernels.

    dK and dV of a key head take its G query heads in one program.
    """
    floor = compulsory_backward(causal)
    shared = 2 * N_k * d * (1 - 1 / G)  # keys, values and their gradients belong to G heads
    both = Step(
        "compulsory",
        reads=Elements(inputs=floor.reads.inputs - shared),
        writes=Elements(inputs=floor.writes.inputs - shared),
    )
    return Counts("gqa_bwd", SOURCE, gradients(causal, G), extra=Elements(fp32=N), compulsory=both)
