"""Order the matmuls of consumer warpgroups by barriers.

They issue them one after the other (ping-pong scheduling).

Shah et al. 2024, arXiv 2407.08608 (FlashAttention-3), section 3.1. The tensor cores execute matmuls in the order of issue.
With the barriers a consumer issues both matmuls of a block together, while the others compute softmax. Without them all
consumers wait for the tensor cores at the same time, and then all compute exponentials at the same time.

Named barriers of the SM, for which Gluon has no function: PTX `bar.sync` waits for 256 threads, 128 that wait and 128 that
only `bar.arrive`. A consumer arrives at a barrier again only after its own barrier has completed. All consumers must wait
equally often.
"""

from __future__ import annotations

from triton.experimental import gluon
from triton.experimental.gluon import language as gl

FIRST = gl.constexpr(8)
"""Consumer C waits at barrier 8 + C, of 16.

Triton uses the barriers up to 1 + CONSUMERS.
"""
WAIT = gl.constexpr("bar.sync $1, 256;\nmov.b32 $0, 0;")
ARRIVE = gl.constexpr("bar.arrive $1, 256;\nmov.b32 $0, 0;")


@gluon.jit
def _at(PTX: gl.constexpr, BARRIER: gl.constexpr):
    one_per_thread = gl.full([128], BARRIER, gl.int32, gl.BlockedLayout([1], [32], [4], [0]))  # so that each does it once
    gl.inline_asm_elementwise(PTX, "=r,r", [one_per_thread], gl.int32, is_pure=False, pack=1)


@gluon.jit
def warp_scheduler_barrier_sync(C: gl.constexpr):
    """Wait until the consumer before C has issued its matmuls."""
    _at(WAIT, FIRST + C)


@gluon.jit
def warp_scheduler_barrier_arrive(C: gl.constexpr, CONSUMERS: gl.constexpr):
    """Let the consumer after C issue its matmuls."""
    _at(ARRIVE, FIRST + (C + 1) % CONSUMERS)
