"""Compute attention by kernels, each a file that reads like its paper.

`attention` picks among them for PyTorch users.

`context_parallel` runs them on the ranks of a group, each with a part of the sequence, which `shard_sequence` cuts and
`join_shards` joins. Importing this package imports neither torch nor triton; its functions do, when first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ioaware.kernels.attention.dispatch import attention
    from ioaware.kernels.attention.distributed.context_parallel import context_parallel
    from ioaware.kernels.attention.distributed.sharding import join_shards, shard_sequence

__all__ = ["attention", "context_parallel", "join_shards", "shard_sequence"]

_MODULES = {
    "attention": "ioaware.kernels.attention.dispatch",
    "context_parallel": "ioaware.kernels.attention.distributed.context_parallel",
    "join_shards": "ioaware.kernels.attention.distributed.sharding",
    "shard_sequence": "ioaware.kernels.attention.distributed.sharding",
}


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(importlib.import_module(_MODULES[name]), name)
    raise AttributeError(f"module 'ioaware.kernels.attention' has no attribute {name!r}")
