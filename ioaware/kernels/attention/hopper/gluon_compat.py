"""Give one name to each Gluon function that Triton versions name differently.

The versions are 3.6 to 3.9; version tests are here, too.
"""

from __future__ import annotations

from typing import Any, cast

import triton
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import tma as _tma


def _first(module: Any, *names: str) -> Any:
    return next(getattr(module, name) for name in names if hasattr(module, name))


warpgroup_barrier = _first(gl, "barrier", "thread_barrier")
"""Synchronise all warps of this warp-specialisation partition."""

reinterpret_smem = _first(gl.shared_memory_descriptor, "reinterpret", "_reinterpret")
"""View shared memory with another type, shape and layout."""

# Later Tritons keep the old TMA names and raise from them, so the new ones come first.
tma_load = _first(_tma, "async_load", "async_copy_global_to_shared")
tma_store = _first(_tma, "async_store", "async_copy_shared_to_global")
tma_store_wait = cast("Any", _tma.store_wait)

_version = tuple(map(int, triton.__version__.split(".")[:2]))
SINCE_3_7, SINCE_3_9 = gl.constexpr(_version >= (3, 7)), gl.constexpr(_version >= (3, 9))
"""With these versions' assemblers the kernels recompute some values.

They would spill otherwise.
"""
