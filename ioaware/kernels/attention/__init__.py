"""Compute attention by kernels, each a file that reads like its paper.

`attention` picks among them for PyTorch users.

Importing this package imports neither torch nor triton; `attention` does, when first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ioaware.kernels.attention.dispatch import attention

__all__ = ["attention"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(importlib.import_module("ioaware.kernels.attention.dispatch"), name)
    raise AttributeError(f"module 'ioaware.kernels.attention' has no attribute {name!r}")
