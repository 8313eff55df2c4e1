"""Third-party products of matrices, the order of their programs a parameter.

`FOREIGN_LMDEPLOY` and `FOREIGN_FLAG_GEMS` name the checkouts.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
import triton

sys.path.insert(0, str(Path(__file__).parent))
from checkout import Library
from gems import package, tensor
from inputs import one_configuration

LMDEPLOY = Library("lmdeploy")
Work = Callable[[], object]
ADVISED = {"TILE_M": 128, "TILE_N": 128, "TILE_K": 32}
"""Tiles that `ioaware advise` ranks first of those that FlagGems tunes over."""


def int8_matmul(m: int = 512, n: int = 512, k: int = 128, group: int = 8, device: str = "cuda") -> Work:
    """LMDeploy's product of matrices of 8 bits, first configuration.

    Its programs take groups of `group` row blocks; LMDeploy's are of 8.
    """
    module = LMDEPLOY.definitions("lmdeploy/pytorch/kernels/cuda/w8a8_triton_kernels.py", "_linear")
    kernel = one_configuration(module._linear)
    a, b = (torch.randint(-8, 8, (rows, k), device=device, dtype=torch.int8) for rows in (m, n))
    rows, cols = (torch.ones(size, device=device) for size in (m, n))

    def grid(meta: Mapping[str, Any]) -> tuple[int]:
        return (triton.cdiv(m, meta["BLOCK_M"]) * triton.cdiv(n, meta["BLOCK_N"]),)

    def work() -> torch.Tensor:
        c = torch.empty(m, n, device=device, dtype=torch.float16)
        scales = {"rms_scale_ptr": rows, "linear_scale_ptr": cols, "ACCUMULATOR_DTYPE": triton.language.int32}
        kernel[grid](a, b, c, m, n, k, k, 1, 1, k, n, 1, GROUP_SIZE_M=group, **scales)
        return c

    return work


def bmm(batch: int = 1, m: int = 512, n: int = 512, k: int = 128, group: int = 2, device: str = "cuda") -> Work:
    """FlagGems' products of batches of matrices, tiles of 128 x 128.

    Its programs take groups of `group` row blocks; FlagGems tunes over 1 and 2.
    """
    module = package("flag_gems.ops.bmm")
    tuner = module.bmm_kernel.fn
    chosen = next(one for one in tuner.configs if ADVISED.items() <= one.kwargs.items() and one.num_stages == 2)
    a, b = tensor((batch, m, k), "f16", device), tensor((batch, k, n), "f16", device)

    def work() -> torch.Tensor:
        tuner.configs = [triton.Config({**chosen.kwargs, "GROUP_M": group}, chosen.num_warps, chosen.num_stages)]
        return module.bmm(a, b)

    return work
