"""Host functions that launch single probes, to derive their bytes."""

from __future__ import annotations

import torch

from ioaware.calibration.on_gpu import probe_kernels as kernels
from ioaware.calibration.probes import MATMUL_SIDE, MATMUL_TILE, STRIDED_ELEMENTS

BLOCK = 4096


def copy(size_bytes: int = 64 << 20) -> None:
    """Launch the copy probe."""
    x, y = (torch.empty(size_bytes // 4, device="cuda") for _ in range(2))
    kernels.copy[(size_bytes // 4 // BLOCK,)](x, y, BLOCK=BLOCK)


def fill(size_bytes: int = 64 << 20) -> None:
    """Launch the fill probe."""
    x = torch.empty(size_bytes // 4, device="cuda")
    kernels.fill[(size_bytes // 4 // BLOCK,)](x, BLOCK=BLOCK)


def read(size_bytes: int = 64 << 20) -> None:
    """Launch the reading probe."""
    x, out = torch.empty(size_bytes // 4, device="cuda"), torch.empty(size_bytes // 4 // BLOCK, device="cuda")
    kernels.read[(size_bytes // 4 // BLOCK,)](x, out, BLOCK=BLOCK)


def products(steps: int = 64, programs: int = 1056) -> None:
    """Launch the matmul programs that time the L2."""
    a, x = (torch.empty(count, device="cuda", dtype=torch.float16) for count in (programs * 64 * 64, steps * 64 * 128))
    out = torch.empty(programs * 64 * 128, device="cuda")
    kernels.l2_products[(programs,)](a, x, out, steps, ROWS=64, COLS=64, WIDTH=128, num_warps=4, num_stages=3)


def add(size_bytes: int = 64 << 20) -> None:
    """Launch the triad probe."""
    x, y, z = (torch.empty(size_bytes // 4, device="cuda") for _ in range(3))
    kernels.add[(size_bytes // 4 // BLOCK,)](x, y, z, BLOCK=BLOCK)


def strided(size_bytes: int = 32 * STRIDED_ELEMENTS) -> None:
    """Launch the strided probe: its read sectors are the bytes of its tensor."""
    x, y = (torch.empty(size_bytes // 4, device="cuda") for _ in range(2))
    kernels.strided[(size_bytes // 32 // BLOCK,)](x, y, BLOCK=BLOCK)


def matmul(size_bytes: int = 0) -> None:
    """Launch the matmul probe."""
    a, b, c = (torch.empty(MATMUL_SIDE, MATMUL_SIDE, device="cuda", dtype=torch.float16) for _ in range(3))
    tiles = MATMUL_SIDE // MATMUL_TILE
    kernels.matmul[(tiles, tiles)](a, b, c, SIDE=MATMUL_SIDE, TILE=MATMUL_TILE)
