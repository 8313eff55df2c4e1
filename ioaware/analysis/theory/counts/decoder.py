"""Count a decoder's attention exactly, with LayerNorm and dropout on chip.

It is FlashAttention-2's, causal.

LayerNorm has no weights and is recomputed from Q, K and V wherever they are read; dropout's mask comes from a counter. So they
add operations and no bytes.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from ioaware.analysis.theory.counting import Counts, Elements, N, N_k, Step, d
from ioaware.analysis.theory.counts import flash2, flash2_backward, standard, standard_backward
from ioaware.analysis.theory.lower_bounds import compulsory

SOURCE = "Dao 2023, arXiv 2307.08691, Algorithms 1 and 2, with LayerNorm and dropout on chip"
FORWARD_STEPS_SOURCE = "Dao et al. 2022, arXiv 2205.14135, Algorithm 0, with LayerNorm and dropout in kernels of their own"
STEPS_SOURCE = (
    "Dao et al. 2022, arXiv 2205.14135, Algorithm 3, on the weights after dropout, with LayerNorm in kernels of its own"
)


@cache
def counts(_causal: bool) -> Counts:
    """Count the forward pass: Q, K, V, O and the log-sum-exp.

    Q is counted once, the visible K and V per row block, and O and the log-sum-exp once.
    """
    return replace(flash2.counts(causal=True), name="decoder", source=SOURCE, compulsory=compulsory(causal=True))


@cache
def steps(_causal: bool) -> Counts:
    """Count Algorithm 0 on the LayerNorms, and dropout as a pass over S.

    For Q, K and V, X is read and Y written. Dropout reads and writes S in place.
    """
    products = standard.counts(causal=True)
    norms = (
        Step(f"LayerNorm of {name}", reads=Elements(inputs=rows * d), writes=Elements(inputs=rows * d))
        for name, rows in (("Q", N), ("K", N_k), ("V", N_k))
    )
    drop = Step("S = -inf where dropped", reads=Elements(fp32=N * N_k), writes=Elements(fp32=N * N_k))
    scores, *others = products.steps
    extra = products.extra + Elements(inputs=N * d + 2 * N_k * d)
    name = "decoder_notebook_steps"
    return replace(products, name=name, source=FORWARD_STEPS_SOURCE, steps=(*norms, scores, drop, *others), extra=extra)


@cache
def backward(_causal: bool) -> Counts:
    """Count the backward pass: D, then dK and dV, then dQ.

    dK and dV are per column block, and dQ is per row block.
    """
    return replace(flash2_backward.counts(causal=True), name="decoder_bwd", source=SOURCE)


@cache
def backward_steps(_causal: bool) -> Counts:
    """Count Algorithm 3 on the dropped weights, then LayerNorm's gradient.

    For Q, K and V, X and dY are read and dX written.
    """
    products = standard_backward.counts(causal=True)
    norms = (
        Step(f"d{name} through LayerNorm", reads=Elements(inputs=2 * rows * d), writes=Elements(inputs=rows * d))
        for name, rows in (("Q", N), ("K", N_k), ("V", N_k))
    )
    extra = products.extra + Elements(inputs=N * d + 2 * N_k * d)
    return replace(
        products, name="decoder_notebook_bwd_steps", source=STEPS_SOURCE, steps=(*products.steps, *norms), extra=extra
    )
