"""bitsandbytes' quantisation kernels as targets.

`FOREIGN_BITSANDBYTES` names the checkout.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parent))
from checkout import Library
from inputs import normal

BITSANDBYTES = Library("bitsandbytes")
Work = Callable[[], object]
HALF, BYTE = torch.float16, torch.uint8


def _function(file: str, name: str) -> Any:
    return getattr(BITSANDBYTES.definitions(f"bitsandbytes/backends/triton/kernels_{file}.py", name), name)


def _quantised(kind: str) -> Callable[..., Work]:
    """Return a target that quantises blocks of 64 numbers to 4 bits."""

    def target(blocks: int = 80, device: str = "cuda") -> Work:
        function = _function("4bit", "quantize_4bit_blockwise_triton")
        x, scales = normal(64 * blocks, device=device, dtype=HALF), torch.empty(blocks, device=device)
        out = torch.empty(32 * blocks, 1, device=device, dtype=BYTE)
        return lambda: function(x, 64, kind, blocks, scales, 64 * blocks, out)

    return target


def _restored(kind: str) -> Callable[..., Work]:
    """Return a target that restores blocks of 64 numbers from 4 bits."""

    def target(blocks: int = 80, device: str = "cuda") -> Work:
        function = _function("4bit", "dequantize_4bit_impl")
        x, scales = torch.zeros(32 * blocks, device=device, dtype=BYTE), normal(blocks, device=device, dtype=torch.float32)
        out = torch.empty(64 * blocks, device=device, dtype=HALF)
        return lambda: function(x, scales, 64, kind, HALF, out)

    return target


quantise_fp4 = _quantised("fp4")
quantise_nf4 = _quantised("nf4")
restore_fp4 = _restored("fp4")
restore_nf4 = _restored("nf4")


def quantise_8bit(blocks: int = 20, device: str = "cuda") -> Work:
    """Blocks of 256 numbers as 8-bit codes."""
    function = _function("8bit_quant", "quantize_blockwise_triton")
    x, code = normal(256 * blocks, device=device, dtype=torch.float32), normal(256, device=device, dtype=torch.float32)
    return lambda: function(x, code, 256)


def restore_8bit(blocks: int = 20, device: str = "cuda") -> Work:
    """Blocks of 256 numbers from 8-bit codes."""
    function = _function("8bit_quant", "dequant_8bit_blockwise")
    x = torch.zeros(256 * blocks, device=device, dtype=BYTE)
    scales, code = (normal(count, device=device, dtype=torch.float32) for count in (blocks, 256))
    return lambda: function(x, scales, code, 256, dtype=HALF)
