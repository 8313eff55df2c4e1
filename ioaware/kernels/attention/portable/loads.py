"""Load and store rows of one head as a tile, by pointers or by TMA.

The portable kernels use it.

TMA takes a descriptor of the whole tensor [batch, heads, rows, head_dim], reads zeros beyond it, and costs a
program one instruction per tile. Pointers work on any GPU and for any strides, with masks at the tensor's end.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl


@triton.jit
def head_of(X, batch, head, stride_b, stride_h, TMA: tl.constexpr):
    """Return a pointer to one head; a descriptor is returned unchanged."""
    if not TMA:
        X += batch.to(tl.int64) * stride_b + head.to(tl.int64) * stride_h
    return X


@triton.jit
def tile_offsets(stride_n, stride_d, ROWS: tl.constexpr, WIDTH: tl.constexpr):
    """Return element offsets within a tile [ROWS, WIDTH]."""
    return tl.arange(0, ROWS).to(tl.int64)[:, None] * stride_n + tl.arange(0, WIDTH)[None, :] * stride_d


@triton.jit
def tile_mask(row, num_rows, ROWS: tl.constexpr, WIDTH: tl.constexpr, HEAD_DIM: tl.constexpr):
    """Return True where the tile at `row` lies inside the head's num_rows x HEAD_DIM."""
    return (row + tl.arange(0, ROWS) < num_rows)[:, None] & (tl.arange(0, WIDTH) < HEAD_DIM)[None, :]


@triton.jit
def load_tile(
    X, batch, head, row, num_rows, offsets, stride_n,
    ROWS: tl.constexpr, WIDTH: tl.constexpr, HEAD_DIM: tl.constexpr, TMA: tl.constexpr, FULL: tl.constexpr = False,
):  # fmt: skip
    """Load rows [row, row + ROWS) of X = head_of(...).

    Beyond num_rows and HEAD_DIM are zeros. FULL: all rows exist.
    """
    if TMA:
        tile = X.load([batch, head, row, 0]).reshape(ROWS, WIDTH)
    else:
        pointers = X + row.to(tl.int64) * stride_n + offsets
        if FULL and HEAD_DIM == WIDTH:
            tile = tl.load(pointers)
        else:
            tile = tl.load(pointers, mask=tile_mask(row, num_rows, ROWS, WIDTH, HEAD_DIM), other=0.0)
    return tile


@triton.jit
def store_tile(
    tile, X, batch, head, row, num_rows, stride_b, stride_h, stride_n, stride_d,
    ROWS: tl.constexpr, WIDTH: tl.constexpr, HEAD_DIM: tl.constexpr,
):  # fmt: skip
    """Store rows [row, row + ROWS) by pointers, in X's dtype.

    Nothing is stored beyond num_rows and HEAD_DIM.
    """
    X = head_of(X, batch, head, stride_b, stride_h, False) + row.to(tl.int64) * stride_n
    mask = tile_mask(row, num_rows, ROWS, WIDTH, HEAD_DIM)
    tl.store(X + tile_offsets(stride_n, stride_d, ROWS, WIDTH), tile.to(X.dtype.element_ty), mask=mask)


def descriptors_or_tensors(tma: bool, width: int, *tensors_and_rows: tuple[torch.Tensor, int]) -> list[Any]:
    """Return what load_tile takes for each tensor.

    It is the tensor itself, or a TMA descriptor with boxes of so many rows of one head.
    """
    if not tma:
        return [tensor for tensor, _ in tensors_and_rows]
    from triton.tools.tensor_descriptor import TensorDescriptor

    views: list[Any] = []
    for tensor, rows in tensors_and_rows:
        # A dimension of one element has any stride in torch, while TMA checks it.
        strides = [stride if size > 1 else 8 for stride, size in zip(tensor.stride(), tensor.shape, strict=True)]
        views.append(TensorDescriptor(tensor, list(tensor.shape), [*strides[:3], 1], [1, 1, rows, width]))
    return views
