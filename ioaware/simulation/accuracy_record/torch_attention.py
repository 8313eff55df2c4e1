"""State a model of the requested bytes of torch's own attention back ends.

Their kernels are CUDA C++, so there is no Triton IR to derive from. The block sizes are those that the sources of the libraries
choose for Hopper at fp16 without dropout; loads bypass the L1.

- `torch_flash` (FlashAttention-2): blocks of 128 rows, 128 keys at head_dim 64 and 64 keys at 128. Q is read once, K and V once
  for each row block that sees them; O and the float32 log-sum-exp are written.
- `torch_efficient` (CUTLASS): blocks of 64 rows, 64 keys at head_dim 64 and 128 keys at 128. The tile of Q is an operand of a
  matmul per key block and is read again with each; O is written, the log-sum-exp is not without gradients.
- `torch_cudnn`: blocks of 128 rows and 128 keys, assumed: cuDNN is closed. O is written.
- `torch_math`: operators in float32, each of which reads its inputs and writes its output: conversions of Q, K and V, scalings
  of Q and K, the product with tiles of 128 x 128, softmax, the search for rows without a key (a comparison, a reduction, a
  selection), the weights in fp16, the second product, and the conversion of O. A causal mask adds operators: not stated.

HBM bytes of the first three are those of `flash2` with the same blocks, simulated: same order of programs, same K/V stream.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ioaware.result import ParamValue

MODULE = "ioaware.kernels.attention.pytorch.sdpa_targets:"
BOOL, HALF, FLOAT = 1, 2, 4
MATMUL_TILE = 128
BLOCKS: Mapping[str, Mapping[int, tuple[int, int]]] = {
    "torch_flash": {64: (128, 128), 128: (128, 64)},
    "torch_efficient": {64: (64, 64), 128: (64, 128)},
    "torch_cudnn": {64: (128, 128), 128: (128, 128)},
}
"""Rows and keys of a block, by back end and head_dim."""


@dataclass(frozen=True, slots=True)
class Moved:
    """Read and written bytes of one call."""

    read_bytes: int
    write_bytes: int


def backend_of(target: str) -> str:
    """Return the back end's name, empty for other targets."""
    return target.removeprefix(MODULE) if target.startswith(MODULE) else ""


def requested_bytes(backend: str, params: Mapping[str, Any]) -> Moved:
    """Return the stated model's requested bytes of one call of a back end."""
    batch, heads, rows, width = (int(params[name]) for name in ("batch", "heads", "seq_len", "head_dim"))
    causal = bool(params["causal"])
    instances = batch * heads
    if backend == "torch_math":
        one = _unfused(rows, width, tiled=True)
        return Moved(instances * one.read_bytes, instances * one.write_bytes)
    block_m, block_n = BLOCKS[backend][width]
    row_blocks = -(-rows // block_m)
    key_blocks = sum(-(-min(rows, (number + 1) * block_m if causal else rows) // block_n) for number in range(row_blocks))
    keys = key_blocks * block_n * 2 * width
    queries = key_blocks * block_m * width if backend == "torch_efficient" else rows * width
    statistics = rows * FLOAT if backend == "torch_flash" else 0
    return Moved(instances * HALF * (queries + keys), instances * (rows * width * HALF + statistics))


def _unfused(rows: int, width: int, *, tiled: bool) -> Moved:
    """Return the requests of one head of the unfused operators, without a mask.

    `tiled` counts a matmul's operands once per tile that reads them, otherwise once: then it is what HBM moves where no
    operator's output fits the L2.
    """
    operand, scores = rows * width, rows * rows
    row_tiles, width_tiles = (-(-rows // MATMUL_TILE), -(-width // MATMUL_TILE)) if tiled else (1, 1)
    convert = (3 * operand * HALF, 3 * operand * FLOAT)
    scale = (2 * operand * FLOAT, 2 * operand * FLOAT)
    product = (2 * operand * row_tiles * FLOAT, scores * FLOAT)
    softmax = (scores * FLOAT, scores * FLOAT)
    masked_rows = (scores * (FLOAT + BOOL), scores * BOOL)
    select = (scores * FLOAT, scores * FLOAT)
    weights = (scores * FLOAT, scores * HALF)
    output = ((scores * width_tiles + operand * row_tiles) * FLOAT, operand * FLOAT)
    back = (operand * FLOAT, operand * HALF)
    operators = (convert, scale, product, softmax, masked_rows, select, weights, output, back)
    return Moved(sum(reads for reads, _ in operators), sum(writes for _, writes in operators))


def unfused_hbm_bytes(params: Mapping[str, Any]) -> Moved:
    """Return HBM bytes of one call of `torch_math`.

    No operator's output may fit the L2.
    """
    instances = int(params["batch"]) * int(params["heads"])
    one = _unfused(int(params["seq_len"]), int(params["head_dim"]), tiled=False)
    return Moved(instances * one.read_bytes, instances * one.write_bytes)


def fused_equivalent(backend: str, params: Mapping[str, Any]) -> dict[str, ParamValue]:
    """Return the parameters of `flash2` that stand for a fused back end at HBM."""
    block_m, block_n = BLOCKS[backend][int(params["head_dim"])]
    shared = {name: params[name] for name in ("batch", "heads", "seq_len", "head_dim", "causal")}
    return {**shared, "block_m": block_m, "block_n": block_n}
