"""Count attention with the log-sum-exp carried through the loop exactly.

It is element for element FlashAttention-2's.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from ioaware.analysis.theory.counting import Counts
from ioaware.analysis.theory.counts import flash2
from ioaware.analysis.theory.lower_bounds import compulsory

SOURCE = "FlashAttention's Triton implementation; order of Dao 2023, arXiv 2307.08691, Algorithm 1"


@cache
def counts(causal: bool) -> Counts:
    """Count Q, O and the fp32 log-sum-exp once, K and V per row block.

    Values kept on chip move no bytes.
    """
    return replace(flash2.counts(causal), name="flash_lse", source=SOURCE, compulsory=compulsory(causal))
