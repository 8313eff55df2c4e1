"""Multiply matrices in HBM by square tiles that fit a small on-chip memory.

The algorithms with M < d^2 use them.
"""

from __future__ import annotations

import triton
import triton.language as tl

from ioaware.kernels.attention.blocks.tiles import load_block, store_block, tile_side


@triton.jit
def tile_of_product(
    A, B, row, col, num_rows, num_cols, stride_an, stride_ad, stride_bn, stride_bd,
    HEAD_DIM: tl.constexpr, SIDE: tl.constexpr,
):  # fmt: skip
    """Return the SIDE x SIDE tile (row, col) of A B^T, with d in steps of SIDE.

    A is [num_rows, d] and B [num_cols, d].
    """
    c = tl.zeros([tile_side(SIDE), tile_side(SIDE)], tl.float32)
    for depth in range(0, HEAD_DIM, SIDE):
        a = load_block(A, row, depth, num_rows, HEAD_DIM, stride_an, stride_ad, SIDE, SIDE)
        b = load_block(B, col, depth, num_cols, HEAD_DIM, stride_bn, stride_bd, SIDE, SIDE)
        c = tl.dot(a, b.T, c, input_precision="ieee")
    return c


@triton.jit
def square_product(
    S, X, Y, stride_xb, stride_xh, stride_xn, stride_xd, stride_yb, stride_yh, stride_yn, stride_yd,
    num_rows, num_cols, HEAD_DIM: tl.constexpr, SIDE: tl.constexpr, TRANSPOSED: tl.constexpr,
):  # fmt: skip
    """Compute Y = S X or, TRANSPOSED, Y = S^T X in SIDE x SIDE tiles.

    S is [num_rows, num_cols]; X and Y have d columns.

    Each block of d columns of Y reads its panel of S again. Grid (blocks of Y's rows, heads, batch).
    """
    head, batch = tl.program_id(1).to(tl.int64), tl.program_id(2).to(tl.int64)
    S += (batch * tl.num_programs(1) + head) * num_rows * num_cols
    X += batch * stride_xb + head * stride_xh
    Y += batch * stride_yb + head * stride_yh
    row = tl.program_id(0) * SIDE
    y_rows, x_rows = num_rows, num_cols
    if TRANSPOSED:
        y_rows, x_rows = num_cols, num_rows
    for depth in range(0, HEAD_DIM, SIDE):
        y = tl.zeros([tile_side(SIDE), tile_side(SIDE)], tl.float32)
        for col in range(0, x_rows, SIDE):
            if TRANSPOSED:
                s = load_block(S, col, row, num_rows, num_cols, num_cols, 1, SIDE, SIDE).T
            else:
                s = load_block(S, row, col, num_rows, num_cols, num_cols, 1, SIDE, SIDE)
            x = load_block(X, col, depth, x_rows, HEAD_DIM, stride_xn, stride_xd, SIDE, SIDE)
            y = tl.dot(s.to(x.dtype), x, y, input_precision="ieee")
        store_block(y, Y, row, depth, y_rows, HEAD_DIM, stride_yn, stride_yd, SIDE, SIDE)
