"""Choose blocks of the portable kernels.

They come from a table measured on an H200 (docs/lab-notes/portable-attention.md), else from defaults.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ioaware.kernels.attention.launching.on_chip_limits import flash2_options, padded
from ioaware.kernels.attention.launching.tma import capability, suits_tma


@dataclass(frozen=True, slots=True)
class Blocks:
    """B_r, B_c and launch options.

    by_rows: the longest row blocks of all heads first, not head by head. late_sums: row sums of P are added up while P is
    multiplied by V, which takes registers.
    """

    block_m: int
    block_n: int
    num_warps: int
    num_stages: int
    by_rows: bool = False
    late_sums: bool = False

    @property
    def constants(self) -> dict[str, int]:
        """The kernels' compile-time parameters and launch options."""
        return {
            "BLOCK_M": self.block_m, "BLOCK_N": self.block_n, "num_warps": self.num_warps, "num_stages": self.num_stages,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class BackwardBlocks:
    """Blocks of the backward kernels.

    dk: a separate kernel for dK, where both gradients exceed the registers.
    """

    dq: Blocks
    dkdv: Blocks
    dk: Blocks | None = None


def use_tma(*tensors: torch.Tensor) -> bool:
    """Return whether the kernels load these by TMA.

    They do on Hopper, in 16 bits, where TMA takes the strides.
    """
    device = tensors[0].device
    if device.type != "cuda" or not torch.cuda.is_available() or tensors[0].element_size() != 2:
        return False
    return capability(device.index or 0)[0] == 9 and all(suits_tma(tensor) for tensor in tensors)


def forward_blocks(head_dim: int, element_bytes: int, seq_len: int, *, causal: bool, tma: bool, shared_bytes: int) -> Blocks:
    """Return the fastest blocks measured; without TMA, tiles that fit everywhere."""
    width = padded(head_dim)
    if not tma:
        block_m, block_n = (128, 64) if width <= 128 else (64, 32)
        options = flash2_options(block_m, block_n, head_dim, element_bytes, shared_bytes)
        return Blocks(block_m, block_n, options["num_warps"], options["num_stages"])
    if width <= 64:
        return Blocks(64, 64, 4, 2) if causal and seq_len < 2048 else Blocks(64, 128, 4, 2)
    if width == 128:
        if not causal:
            return Blocks(128, 64, 4, 2, late_sums=True)
        return Blocks(128, 64, 4, 2, by_rows=True) if seq_len >= 4096 else Blocks(64, 64, 4, 3, late_sums=True)
    return Blocks(128, 64, 8, 2, by_rows=seq_len >= 2048, late_sums=True)


def backward_blocks(head_dim: int, element_bytes: int, seq_len: int, *, tma: bool) -> BackwardBlocks:
    """Return the fastest blocks measured; without TMA, tiles that fit everywhere."""
    width = padded(head_dim)
    if not tma:
        side, stages = (64, 2) if width <= 128 else (32, 1)
        if element_bytes == 4:
            side, stages = 32, 1
        both = Blocks(side, side, 4, stages)
        return BackwardBlocks(both, both)
    dq = Blocks(64, 64, 4, 2)
    if width <= 64:
        return BackwardBlocks(dq, Blocks(32, 128, 4, 3) if seq_len < 2048 else Blocks(64, 64, 4, 3))
    if width == 128:
        return BackwardBlocks(dq, Blocks(64, 64, 4, 2))
    return BackwardBlocks(dq, Blocks(64, 128, 8, 2), dk=Blocks(32, 128, 8, 2))
