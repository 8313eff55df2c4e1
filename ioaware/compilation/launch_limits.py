"""Check what a GPU can launch: the largest grid, and the shared memory.

The shared memory is that of a program.

Source: CUDA C++ Programming Guide, technical specifications per compute capability.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from triton.backends.compiler import GPUTarget

MAX_GRID = (2**31 - 1, 65_535, 65_535)
"""Most programs along x, y and z."""
SHARED_KIB = {75: 64, 80: 163, 86: 99, 87: 163, 89: 99, 90: 227, 100: 227, 103: 227, 120: 99, 121: 99}
"""Most shared memory of a program in KiB, with opt-in, by compute capability."""


def grid_limits(gpu: GPUTarget) -> tuple[int, ...]:
    """Return the largest extents of a grid; empty where they are not known."""
    return MAX_GRID if gpu.backend == "cuda" else ()


def most_shared_bytes(gpu: GPUTarget) -> float:
    """Return the most bytes of shared memory of a program.

    Infinity where they are not known.
    """
    known = SHARED_KIB.get(gpu.arch) if gpu.backend == "cuda" and isinstance(gpu.arch, int) else None
    return math.inf if known is None else 1024 * known


def launch_failure(grid: Sequence[int], shared_bytes: int | None, gpu: GPUTarget) -> str | None:
    """Return why the GPU refuses this launch, or None."""
    for axis, (extent, most) in enumerate(zip(grid, grid_limits(gpu), strict=False)):
        if extent > most:
            return f"CUDA cannot launch it: its grid has {extent:,} programs along {'xyz'[axis]}, and at most {most:,} may be"
    if shared_bytes and shared_bytes > (most_bytes := most_shared_bytes(gpu)):
        return f"CUDA cannot launch it: a program needs {shared_bytes:,} bytes of shared memory, and has at most {most_bytes:,}"
    return None
