"""Create TMA descriptors, and read the GPU's properties.

Which tensors can have one, boxes and shared-memory layouts are decided here.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch


def suits_tma(tensor: torch.Tensor) -> bool:
    """Return whether TMA can read the tensor.

    It needs adjacent elements in rows, 16-byte alignment, and no repeated dimension.
    """
    strides = [stride for stride, size in zip(tensor.stride()[:3], tensor.shape[:3], strict=True) if size > 1]
    aligned = all(stride > 0 and stride * tensor.element_size() % 16 == 0 for stride in strides)
    return aligned and tensor.stride(3) == 1 and tensor.data_ptr() % 16 == 0


def tma_view(tensor: torch.Tensor, rows: int, width: int) -> Any:
    """Return a TMA descriptor with boxes of `rows` rows of one head.

    The tensors are like [batch, heads, rows, head_dim].
    """
    from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

    # A dimension of one element has any stride in torch, while TMA checks it.
    strides = [stride if size > 1 else 8 for stride, size in zip(tensor.stride(), tensor.shape, strict=True)]
    box = [1, 1, rows, width]
    view: Any = TensorDescriptor(tensor, list(tensor.shape), [*strides[:3], 1], box, layout(rows, width, tensor.dtype))
    view.base = None  # the tensor itself is not kept
    return view


@lru_cache
def layout(rows: int, width: int, dtype: torch.dtype) -> Any:
    """Return the swizzled shared-memory layout of a tile.

    TMA writes it and wgmma reads it.
    """
    from triton.experimental.gluon import language as gl

    element = gl.float16 if dtype == torch.float16 else gl.bfloat16
    return gl.NVMMASharedLayout.get_default_for([1, 1, rows, width], element)


@lru_cache
def capability(device: int) -> tuple[int, int]:
    """Return the compute capability of a GPU."""
    return torch.cuda.get_device_capability(device)


@lru_cache
def processors(device: int) -> int:
    """Return the number of SMs of a GPU."""
    cuda: Any = torch.cuda
    return int(cuda.get_device_properties(device).multi_processor_count)
