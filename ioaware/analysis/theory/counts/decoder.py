"""Count a decoder's attention exactly, with LayerNorm and dropout on chip: FlashAttention-2's, causal.

LayerNorm has no weights and is recomputed from Q, K and V wherever they are read; dropout's mask comes from a counter. So they
add operations and no bytes.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from ioaware.analysis.theory.counting import Counts
from ioaware.analysis.theory.counts import flash2, flash2_backward
from ioaware.analysis.theory.lower_bounds import compulsory

SOURCE = "Dao 2023, arXiv 2307.08691, Algorithms 1 and 2, with LayerNorm and dropout on chip"


@cache
def counts(_causal: bool) -> Counts:
    """Count the forward pass: Q once, the visible K and V per row block, O and the log-sum-exp once."""
    return replace(flash2.counts(causal=True), name="decoder", source=SOURCE, compulsory=compulsory(causal=True))


@cache
def backward(_causal: bool) -> Counts:
    """Count the backward pass: D, then dK and dV per column block, then dQ per row block."""
    return replace(flash2_backward.counts(causal=True), name="decoder_bwd", source=SOURCE)
