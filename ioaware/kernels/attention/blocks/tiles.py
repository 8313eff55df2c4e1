"""Load and store blocks of a matrix in HBM as padded tiles, with 64-bit offsets.

Masks keep padding out of every byte count.
"""

from __future__ import annotations

import triton
import triton.language as tl

from ioaware.kernels.attention.launching.on_chip_limits import padded

tile_side = triton.constexpr_function(padded)
"""Return the side of the tile that holds so many rows or columns.

It is computed at compile time.
"""


@triton.jit
def block_pointers(matrix, row, col, stride_row, stride_col, BLOCK_ROWS: tl.constexpr, BLOCK_COLS: tl.constexpr):
    """Return pointers to the tile whose first element is (row, col)."""
    rows = row + tl.arange(0, tile_side(BLOCK_ROWS)).to(tl.int64)  # N^2 elements of S pass 2^31 at N = 46,341
    cols = col + tl.arange(0, tile_side(BLOCK_COLS)).to(tl.int64)
    return matrix + rows[:, None] * stride_row + cols[None, :] * stride_col


@triton.jit
def block_mask(row, col, num_rows, num_cols, BLOCK_ROWS: tl.constexpr, BLOCK_COLS: tl.constexpr):
    """Return True for the tile's elements in the block and in the matrix.

    The matrix is num_rows x num_cols.
    """
    rows = tl.arange(0, tile_side(BLOCK_ROWS))
    cols = tl.arange(0, tile_side(BLOCK_COLS))
    in_rows = (rows < BLOCK_ROWS) & (row + rows < num_rows)
    in_cols = (cols < BLOCK_COLS) & (col + cols < num_cols)
    return in_rows[:, None] & in_cols[None, :]


@triton.jit
def load_block(
    matrix,
    row,
    col,
    num_rows,
    num_cols,
    stride_row,
    stride_col,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_COLS: tl.constexpr,
    FULL: tl.constexpr = False,
):
    """Load the block at (row, col), zeros beyond the matrix or the block.

    FULL: the block lies inside.
    """
    pointers = block_pointers(matrix, row, col, stride_row, stride_col, BLOCK_ROWS, BLOCK_COLS)
    if FULL and tile_side(BLOCK_ROWS) == BLOCK_ROWS and tile_side(BLOCK_COLS) == BLOCK_COLS:
        tile = tl.load(pointers)
    else:
        tile = tl.load(pointers, mask=block_mask(row, col, num_rows, num_cols, BLOCK_ROWS, BLOCK_COLS), other=0.0)
    return tile


@triton.jit
def store_block(
    tile,
    matrix,
    row,
    col,
    num_rows,
    num_cols,
    stride_row,
    stride_col,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_COLS: tl.constexpr,
):
    """Store the block at (row, col) in the matrix's dtype, and nothing outside it."""
    pointers = block_pointers(matrix, row, col, stride_row, stride_col, BLOCK_ROWS, BLOCK_COLS)
    tl.store(pointers, tile.to(matrix.dtype.element_ty), mask=block_mask(row, col, num_rows, num_cols, BLOCK_ROWS, BLOCK_COLS))
