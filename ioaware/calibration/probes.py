"""Plan a calibration: kernels with known bytes, and sweeps over sizes.

The sweeps have misses that show a cache's capacity.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

KernelName = Literal["l2_shared", "l2_private", "l1_reread", "l1_beside_stores", "l1_after_stores",
                     "fill", "copy", "read", "add", "strided", "matmul"]  # fmt: skip
BLOCK_BYTES = 1 << 14
"""Bytes of one load of an L2 probe: 4096 float32."""
L1_BLOCK_BYTES = 1 << 11
PASSES = 4
"""Times that a sweep reads its memory.

Misses after the first pass are capacity misses.
"""
MIB = 1 << 20
PARENT_LOCK = "parent_lock"
"""File beside the workers' answers that the parent keeps locked.

The workers end when it does.
"""
L2_SHARES = (0.1, 0.35, 0.42, 0.46, 0.48, 0.5, 0.52, 0.55, 0.59, 0.64, 0.7, 0.75, 0.8, 0.88, 0.96, 1.1, 1.4, 1.8)
"""Sizes of the L2 sweeps, as shares of its capacity.

Dense where one or two copies of the memory fill it. The last ones miss a half under random replacement too.
"""
L1_SHARES = (0.3, 0.5, 0.65, 0.72, 0.76, 0.8, 0.85, 0.9, 0.95, 1.0, 1.2, 1.6)
WRITE_SHARES = (0.5, 1.0, 2.0)
MATMUL_SIDE, MATMUL_TILE = 2048, 64
STRIDED_ELEMENTS = 1 << 22


@dataclass(frozen=True, slots=True)
class Probe:
    """One launch.

    `size_bytes`: of each tensor, or of one program's slice in the L1 probes.
    """

    kernel: KernelName
    size_bytes: int

    @property
    def known_bytes(self) -> tuple[int | None, int | None]:
        """Requested reads and writes in bytes that any GPU must count.

        None where a cache decides.
        """
        size = self.size_bytes
        if self.kernel == "matmul":
            tiles = (MATMUL_SIDE // MATMUL_TILE) ** 2
            return tiles * 2 * MATMUL_TILE * MATMUL_SIDE * 2, MATMUL_SIDE**2 * 2
        return {
            "fill": (0, size),
            "copy": (size, size),
            "read": (size, None),
            "add": (2 * size, size),
            "strided": (size, None),
        }.get(self.kernel, (None, None))


@dataclass(frozen=True, slots=True)
class Sizes:
    """What the plan depends on."""

    sms: int
    l2_bytes: int
    l1_bytes: int


def plan(sizes: Sizes) -> list[Probe]:
    """Return the launches, in order: the self-test of the counters first."""
    test = [Probe(kernel, 64 * MIB) for kernel in ("copy", "read", "fill")]
    test += [Probe("strided", 32 * STRIDED_ELEMENTS), Probe("matmul", 0)]
    slice_bytes = sizes.sms * BLOCK_BYTES
    shared = [Probe("l2_shared", _whole(share * sizes.l2_bytes, BLOCK_BYTES)) for share in L2_SHARES]
    private = [Probe("l2_private", _whole(share * sizes.l2_bytes, slice_bytes)) for share in L2_SHARES]
    dirty = [
        Probe(kernel, _whole(share * sizes.l2_bytes, BLOCK_BYTES))
        for kernel in ("fill", "copy", "add")
        for share in WRITE_SHARES
    ]
    first_level = [
        Probe(kernel, _whole(share * sizes.l1_bytes, L1_BLOCK_BYTES))
        for kernel in ("l1_reread", "l1_beside_stores", "l1_after_stores")
        for share in L1_SHARES
    ]
    return [*test, *shared, *private, *dirty, *first_level]


def _whole(size: float, unit: int) -> int:
    """Round to a multiple of the unit, at least one."""
    return max(1, round(size / unit)) * unit
