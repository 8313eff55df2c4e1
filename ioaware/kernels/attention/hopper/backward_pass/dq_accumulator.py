"""Add to dQ's float32 accumulator in HBM.

Column blocks add their parts, and a CTA that has added all of them stores dQ.

Pieces of 64 rows by 64 columns have the element order of a wgmma accumulator's registers: each instruction of a warp adds 512
adjacent bytes, without shuffles. A thread has the same elements of every part of a piece, so a CTA that computes all parts of
a row needs no synchronisation.
"""

from __future__ import annotations

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared

from ioaware.kernels.attention.hopper.backward_pass import backward_config
from ioaware.kernels.attention.hopper.gluon_compat import reinterpret_smem, tma_store, tma_store_wait, warpgroup_barrier

PIECE = gl.constexpr(backward_config.PIECE)
"""Elements of dQ that a consumer adds for a row block: 64 rows by 64 columns."""
# Four registers of an accumulator at the address of the first; every output of an asm must be written.
NOTHING = "".join(f"mov.b32 ${i}, 0;\n" for i in range(4))
ADD = gl.constexpr("red.global.add.v4.f32 [$4], {$8, $9, $10, $11};\n" + NOTHING)
# With a cache hint: the L2 evicts these bytes last (CUTLASS's EVICT_LAST).
KEEP = "{ .reg .b64 keep; mov.b64 keep, 0x14F0000000000000;\n"
ADD_KEPT = gl.constexpr(KEEP + "red.global.add.L2::cache_hint.v4.f32 [$4], {$8, $9, $10, $11}, keep; }\n" + NOTHING)
STORE_KEPT = gl.constexpr(KEEP + "st.global.L2::cache_hint.v4.b32 [$4], {$8, $9, $10, $11}, keep; }\n" + NOTHING)


@gluon.jit
def element_pointers(accumulator, dq, zero):
    """Return pointers to the places of dQ's elements in their piece.

    There are 64 by 64 in a piece, or 64 by 128 in two.

    The order is that of backward_postprocess.in_rows.
    """
    row = gl.arange(0, 64, gl.SliceLayout(1, dq.type.layout))[:, None]
    col = gl.arange(0, dq.shape[1], gl.SliceLayout(0, dq.type.layout))[None, :]
    thread = (row >> 4) * 32 + (row & 7) * 4 + ((col >> 1) & 3)
    register = (col >> 3) * 512 + ((row >> 3) & 1) * 2 + (col & 1)
    return accumulator + (thread * (1 + zero)).to(gl.int64) * 4 + register.to(gl.int64)


@gluon.jit
def atomic_add(accumulator, dq, zero, HOW: gl.constexpr):
    """Add dQ's 64 by 64 elements to their piece of the accumulator."""
    where = element_pointers(accumulator, dq, zero).to(gl.int64)
    gl.inline_asm_elementwise(HOW, "=r,=r,=r,=r,l,l,l,l,r,r,r,r", [where, dq], gl.int32, is_pure=False, pack=4)


@gluon.jit
def initialize(accumulator, dq, zero):
    """Overwrite a piece of the accumulator with dQ's 64 by 64 elements."""
    where, bits = element_pointers(accumulator, dq, zero), dq.to(gl.int32, bitcast=True)
    gl.inline_asm_elementwise(STORE_KEPT, "=r,=r,=r,=r,l,l,l,l,r,r,r,r", [where, bits], gl.int32, is_pure=False, pack=4)


@gluon.jit
def accumulate(accumulator, dq, overwrite, zero, WHOLE: gl.constexpr):
    """Add dQ's 64 by 64 elements to their piece of the accumulator.

    With WHOLE, the accumulator is this CTA's own and stays in the L2; the first column block overwrites it.
    """
    if WHOLE:
        if overwrite:
            initialize(accumulator, dq, zero)
        else:
            atomic_add(accumulator, dq, zero, ADD_KEPT)
    else:
        atomic_add(accumulator, dq, zero, ADD)


@gluon.jit
def next_accumulator(accumulator, i, first, skipped, BLOCK: gl.constexpr):
    """Return the accumulator of the next row block.

    It is block i of this head, or the first of the next head in the group.

    skipped: row blocks between the end in one head and the first in the next.
    """
    accumulator += BLOCK
    if i == first:
        accumulator += skipped * BLOCK
    return accumulator


@gluon.jit
def store_piece(C: gl.constexpr, dQ, x, tile, block, batch, kv_head, end, group, scale, BLOCK_M: gl.constexpr):
    """Store a piece x of dQ, of the block-th row block of a key head's query heads."""
    x = (x * scale).to(dQ.dtype).reshape([8, 4, 8, 4, 2, 2]).permute([1, 4, 2, 0, 3, 5]).reshape([64, 64])
    member = block // end
    head, row = kv_head * group + member, (block - member * end) * BLOCK_M
    tma_store_wait(0)  # the last store has read the tile
    warpgroup_barrier()  # all warps, after that wait
    tile.reshape([64, 64]).store(x)
    fence_async_shared()  # what was stored to the tile, before TMA reads it
    warpgroup_barrier()
    if BLOCK_M == 128:  # a consumer has half of the rows
        tma_store(dQ, [batch, head, row + C * 64, 0], tile)
    else:  # ... or, where a block has no more rows, half of the columns
        tma_store(dQ, [batch, head, row, C * 64], tile)


@gluon.jit
def store_dq(
    C: gl.constexpr, dQ, accumulator, tile, batch, kv_head, end, group, scale, zero, BLOCK_M: gl.constexpr, BLOCK: gl.constexpr
):
    """Store a consumer's pieces of dQ of a key head's query heads.

    There are `group` query heads, of `end` row blocks each.

    accumulator: the first piece. dQ: a descriptor with boxes of 64 by 64; tile: shared memory for one. Each thread reads what
    it added itself, bypassing the L1, which does not see atomics, and prefetches the next piece while it stores one.
    """
    tile = reinterpret_smem(tile, dQ.dtype, [1, 1, 64, 64], dQ.layout)
    accumulator += gl.arange(0, PIECE, gl.BlockedLayout([4], [32], [4], [0])) + zero * 16
    x = gl.load(accumulator, cache_modifier=".cg")
    for block in range(1, group * end):
        accumulator += BLOCK
        following = gl.load(accumulator, cache_modifier=".cg")
        store_piece(C, dQ, x, tile, block - 1, batch, kv_head, end, group, scale, BLOCK_M)
        x = following
    store_piece(C, dQ, x, tile, group * end - 1, batch, kv_head, end, group, scale, BLOCK_M)
