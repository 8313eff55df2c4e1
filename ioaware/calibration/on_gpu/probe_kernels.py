"""Triton kernels of the calibration.

None is an attention kernel, and none reads what another one wrote.

The L2 probes' loads bypass the L1 (`.cg`); the L1 probes' loads use it.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def l2_shared(x, out, blocks, PASSES: tl.constexpr, BLOCK: tl.constexpr):
    """Every program reads the whole buffer, `PASSES` times."""
    total = tl.zeros((BLOCK,), tl.float32)
    for _ in range(PASSES):
        for block in range(blocks):
            total += tl.load(x + block * BLOCK + tl.arange(0, BLOCK), cache_modifier=".cg")
    tl.store(out + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), total)


@triton.jit
def l2_private(x, out, blocks, PASSES: tl.constexpr, BLOCK: tl.constexpr):
    """Every program reads its own slice, `PASSES` times."""
    total = tl.zeros((BLOCK,), tl.float32)
    first = tl.program_id(0).to(tl.int64) * blocks
    for _ in range(PASSES):
        for block in range(blocks):
            total += tl.load(x + (first + block) * BLOCK + tl.arange(0, BLOCK), cache_modifier=".cg")
    tl.store(out + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), total)


@triton.jit
def l2_products(a, x, out, steps, ROWS: tl.constexpr, COLS: tl.constexpr, WIDTH: tl.constexpr):
    """Multiply a tile of the program's own by tiles of `x`, which all programs read.

    A matmul's loads are copied to shared memory while the tile before is multiplied, which passes more bytes than other loads.
    """
    program, row = tl.program_id(0).to(tl.int64), tl.arange(0, ROWS)[:, None]
    own = tl.load(a + program * ROWS * COLS + row * COLS + tl.arange(0, COLS)[None, :])
    tile = tl.arange(0, COLS)[:, None] * WIDTH + tl.arange(0, WIDTH)[None, :]
    total = tl.zeros((ROWS, WIDTH), tl.float32)
    for step in range(steps):
        total = tl.dot(own, tl.load(x + step * COLS * WIDTH + tile), total)
    tl.store(out + program * ROWS * WIDTH + row * WIDTH + tl.arange(0, WIDTH)[None, :], total)


@triton.jit
def l1_reread(x, out, blocks, PASSES: tl.constexpr, BLOCK: tl.constexpr):
    """One program on each SM reads its slice `PASSES` times through the L1."""
    total = tl.zeros((BLOCK,), tl.float32)
    first = tl.program_id(0) * blocks
    for _ in range(PASSES):
        for block in range(blocks):
            total += tl.load(x + (first + block) * BLOCK + tl.arange(0, BLOCK))
    tl.store(out + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), total)


@triton.jit
def l1_beside_stores(x, y, out, blocks, PASSES: tl.constexpr, BLOCK: tl.constexpr):
    """As `l1_reread`, and stores as many bytes elsewhere.

    It shows whether stores displace what was read.
    """
    total = tl.zeros((BLOCK,), tl.float32)
    first = tl.program_id(0) * blocks
    for _ in range(PASSES):
        for block in range(blocks):
            at = (first + block) * BLOCK + tl.arange(0, BLOCK)
            total += tl.load(x + at)
            tl.store(y + at, total)
    tl.store(out + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), total)


@triton.jit
def l1_after_stores(x, out, blocks, PASSES: tl.constexpr, BLOCK: tl.constexpr):
    """Store a slice, then read it `PASSES` times.

    It shows whether a store leaves its data in the L1.
    """
    total = tl.zeros((BLOCK,), tl.float32)
    first = tl.program_id(0) * blocks
    for block in range(blocks):
        tl.store(x + (first + block) * BLOCK + tl.arange(0, BLOCK), total)
    tl.debug_barrier()
    for _ in range(PASSES):
        for block in range(blocks):
            total += tl.load(x + (first + block) * BLOCK + tl.arange(0, BLOCK))
    tl.store(out + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), total)


@triton.jit
def fill(x, BLOCK: tl.constexpr):
    """Store zeros."""
    tl.store(x + tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK), tl.zeros((BLOCK,), tl.float32))


@triton.jit
def copy(x, y, BLOCK: tl.constexpr):
    """Store y = x."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at))


@triton.jit
def add(x, y, z, BLOCK: tl.constexpr):
    """Store z = x + 3 y, the triad of the STREAM benchmark."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    tl.store(z + at, tl.load(x + at) + 3.0 * tl.load(y + at))


@triton.jit
def read(x, out, BLOCK: tl.constexpr):
    """Read a block; store its sum."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + tl.program_id(0), tl.sum(tl.load(x + at)))


@triton.jit
def strided(x, out, BLOCK: tl.constexpr):
    """Read one float32 of each sector of 32 bytes."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + 8 * at))


@triton.jit
def matmul(a, b, c, SIDE: tl.constexpr, TILE: tl.constexpr):
    """Store C = A B for square float16 matrices, one tile a program.

    Its tiles' bytes are known.
    """
    row = tl.program_id(0) * TILE + tl.arange(0, TILE)
    col = tl.program_id(1) * TILE + tl.arange(0, TILE)
    total = tl.zeros((TILE, TILE), tl.float32)
    for start in range(0, SIDE, TILE):
        inner = start + tl.arange(0, TILE)
        left = tl.load(a + row[:, None] * SIDE + inner[None, :], cache_modifier=".cg")
        right = tl.load(b + inner[:, None] * SIDE + col[None, :], cache_modifier=".cg")
        total = tl.dot(left, right, total)
    tl.store(c + row[:, None] * SIDE + col[None, :], total.to(tl.float16))


@triton.jit
def timed(x, out, begun, ended, blocks, BLOCK: tl.constexpr):
    """Read the whole buffer.

    Store when the program began and ended, in nanoseconds of the GPU's clock.
    """
    start = tl.inline_asm_elementwise("mov.u64 $0, %globaltimer;", "=l", [], dtype=tl.int64, is_pure=False, pack=1)
    total = tl.zeros((BLOCK,), tl.float32)
    for block in range(blocks):
        total += tl.load(x + block * BLOCK + tl.arange(0, BLOCK), cache_modifier=".cg")
    tl.store(out + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), total)
    tl.debug_barrier()
    end = tl.inline_asm_elementwise("mov.u64 $0, %globaltimer;", "=l", [], dtype=tl.int64, is_pure=False, pack=1)
    tl.store(begun + tl.program_id(0), start)
    tl.store(ended + tl.program_id(0), end)
