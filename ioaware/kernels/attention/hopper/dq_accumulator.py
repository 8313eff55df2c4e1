"""dQ's float32 sums in global memory: column blocks add their parts, and a program that adds all of them writes dQ.

They are in pieces of 64 rows by 64 columns, in the order in which the registers of a wgmma's accumulator lie: each instruction
of a warp adds 512 adjacent bytes, and nothing is shuffled. A thread meets the same numbers in every part of a piece, so
where one program has all of a row's parts, nobody has to wait for anybody.
"""

from __future__ import annotations

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared

from ioaware.kernels.attention.hopper.gluon_compat import reinterpreted, tma_store, tma_store_wait, warpgroup_barrier

PIECE = gl.constexpr(4096)
"""Numbers of dQ that a consumer adds for a row block: 64 rows by 64 columns."""
# Four registers of an accumulator at the address of the first; every output of an asm must be written.
NOTHING = "".join(f"mov.b32 ${i}, 0;\n" for i in range(4))
ADD = gl.constexpr("red.global.add.v4.f32 [$4], {$8, $9, $10, $11};\n" + NOTHING)
# The same, and a number of bytes that the L2 evicts after all others: CUTLASS's EVICT_LAST, which createpolicy makes too.
KEEP = "{ .reg .b64 keep; mov.b64 keep, 0x14F0000000000000;\n"
ADD_KEPT = gl.constexpr(KEEP + "red.global.add.L2::cache_hint.v4.f32 [$4], {$8, $9, $10, $11}, keep; }\n" + NOTHING)
STORE_KEPT = gl.constexpr(KEEP + "st.global.L2::cache_hint.v4.b32 [$4], {$8, $9, $10, $11}, keep; }\n" + NOTHING)


@gluon.jit
def places(sums, dq, zero):
    """Where in its piece of the sums each number of dQ's 64 by 64 is, or in two pieces of 64 by 128 (the order is
    hopper_ends.in_rows's)."""
    row = gl.arange(0, 64, gl.SliceLayout(1, dq.type.layout))[:, None]
    col = gl.arange(0, dq.shape[1], gl.SliceLayout(0, dq.type.layout))[None, :]
    thread = (row >> 4) * 32 + (row & 7) * 4 + ((col >> 1) & 3)
    register = (col >> 3) * 512 + ((row >> 3) & 1) * 2 + (col & 1)
    return sums + (thread * (1 + zero)).to(gl.int64) * 4 + register.to(gl.int64)


@gluon.jit
def add(sums, dq, zero, HOW: gl.constexpr):
    """Adds dQ's 64 by 64 to its piece of the sums."""
    where = places(sums, dq, zero).to(gl.int64)
    gl.inline_asm_elementwise(HOW, "=r,=r,=r,=r,l,l,l,l,r,r,r,r", [where, dq], gl.int32, is_pure=False, pack=4)


@gluon.jit
def begin(sums, dq, zero):
    """Writes dQ's 64 by 64 over what its piece of the sums was."""
    where, bits = places(sums, dq, zero), dq.to(gl.int32, bitcast=True)
    gl.inline_asm_elementwise(STORE_KEPT, "=r,=r,=r,=r,l,l,l,l,r,r,r,r", [where, bits], gl.int32, is_pure=False, pack=4)


@gluon.jit
def put(sums, dq, begins, zero, WHOLE: gl.constexpr):
    """Adds dQ's 64 by 64 to its piece of the sums. Those of one program's heads begin with what it has of the first column
    block, and stay in the L2."""
    if WHOLE:
        if begins:
            begin(sums, dq, zero)
        else:
            add(sums, dq, zero, ADD_KEPT)
    else:
        add(sums, dq, zero, ADD)


@gluon.jit
def next_sums(sums, i, first, passed, BLOCK: gl.constexpr):
    """The sums of the next row block, which is block i of this head or, where that is the first, of the next in the group,
    and so many are passed over between."""
    sums += BLOCK
    if i == first:
        sums += passed * BLOCK
    return sums


@gluon.jit
def write_piece(C: gl.constexpr, dQ, x, tile, block, batch, kv_head, end, group, scale, BLOCK_M: gl.constexpr):
    """Writes a piece of dQ, whose numbers are x, of the block-th row block of a key head's query heads."""
    x = (x * scale).to(dQ.dtype).reshape([8, 4, 8, 4, 2, 2]).permute([1, 4, 2, 0, 3, 5]).reshape([64, 64])
    member = block // end
    head, row = kv_head * group + member, (block - member * end) * BLOCK_M
    tma_store_wait(0)  # the last store has read the tile
    warpgroup_barrier()  # ... which every warp must know
    tile.reshape([64, 64]).store(x)
    fence_async_shared()  # what was stored to the tile, before TMA reads it
    warpgroup_barrier()
    if BLOCK_M == 128:  # a consumer has half of the rows
        tma_store(dQ, [batch, head, row + C * 64, 0], tile)
    else:  # ... or, where a block has no more rows, half of the columns
        tma_store(dQ, [batch, head, row, C * 64], tile)


@gluon.jit
def write_dq(
    C: gl.constexpr, dQ, sums, tile, batch, kv_head, end, group, scale, zero, BLOCK_M: gl.constexpr, BLOCK: gl.constexpr
):
    """Writes a consumer's pieces of dQ of a key head's `group` query heads, of `end` row blocks each. sums: its first piece.
    dQ: a descriptor with boxes of 64 by 64; tile: memory for one. Each thread reads what it has added itself, past the L1,
    which does not see additions; and the next piece while it writes one."""
    tile = reinterpreted(tile, dQ.dtype, [1, 1, 64, 64], dQ.layout)
    sums += gl.arange(0, PIECE, gl.BlockedLayout([4], [32], [4], [0])) + zero * 16
    x = gl.load(sums, cache_modifier=".cg")
    for block in range(1, group * end):
        sums += BLOCK
        following = gl.load(sums, cache_modifier=".cg")
        write_piece(C, dQ, x, tile, block - 1, batch, kv_head, end, group, scale, BLOCK_M)
        x = following
    write_piece(C, dQ, x, tile, group * end - 1, batch, kv_head, end, group, scale, BLOCK_M)
