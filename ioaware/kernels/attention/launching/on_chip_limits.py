"""Compute what fits on chip: row length, warps of a tile, pipeline stages.

Pure numbers.
"""

from __future__ import annotations

ROW_ON_CHIP = 16384
"""Longest row of S (kv_len) that `standard`'s softmax reads once.

One program keeps it in registers.
"""

MAX_STAGES = 3
ORDERS = ("plain", "wave_sawtooth", "row_sawtooth")
"""Orders in which `flash2` streams the blocks of K and V."""


def padded(block: int) -> int:
    """Return the side of the tile that holds a block.

    It is the next power of two, at least a matmul's 16.
    """
    return max(16, 1 << (block - 1).bit_length())


def num_warps(block_m: int, floats_per_row: int, element_bytes: int) -> int:
    """Return the warps of a program that keeps so many float32 for each of its rows.

    A warp for 16 rows, up to four, and more where registers would spill when compiled for sm_90. Matmuls of 64 rows and more
    take K and V from shared memory; smaller ones hold them in registers too, and those of float32 do not use tensor cores.
    """
    rows = padded(block_m)
    floats_per_thread = 24 if element_bytes == 4 else 128 if rows >= 64 else 40
    warps = min(4, rows // 16)
    while warps < min(16, rows // 4) and rows * floats_per_row > 32 * warps * floats_per_thread:
        warps *= 2
    return warps


def num_stages(resident_bytes: int, stage_bytes: int, shared_bytes: int) -> int:
    """Return the pipeline stages that fit in shared memory: 1 to MAX_STAGES.

    They stand beside what stays there.
    """
    return min(MAX_STAGES, max(1, (shared_bytes - resident_bytes) // stage_bytes))


def flash2_options(block_m: int, block_n: int, head_dim: int, element_bytes: int, shared_bytes: int) -> dict[str, int]:
    """Return launch options of `flash2`.

    O and S are in registers, Q in shared memory, K and V pipelined.
    """
    rows, cols, width = padded(block_m), padded(block_n), padded(head_dim)
    return {
        "num_warps": num_warps(block_m, cols + width, element_bytes),
        "num_stages": num_stages(rows * width * element_bytes, 2 * cols * width * element_bytes, shared_bytes),
    }


def flash1_options(block_m: int, block_n: int, head_dim: int, element_bytes: int, shared_bytes: int) -> dict[str, int]:
    """Return launch options of `flash1`.

    Old and new O and S are in registers, K, V and O in shared memory, Q pipelined.
    """
    rows, cols, width = padded(block_m), padded(block_n), padded(head_dim)
    resident_bytes = 2 * cols * width * element_bytes + 4 * rows * width
    return {
        "num_warps": num_warps(block_m, cols + 2 * width, element_bytes),
        "num_stages": num_stages(resident_bytes, rows * width * element_bytes, shared_bytes),
    }


def standard_options(block_m: int, block_n: int, head_dim: int, element_bytes: int, shared_bytes: int) -> dict[str, int]:
    """Return launch options of `standard`'s two matmuls.

    S or O are in registers, P and V pipelined.
    """
    rows, cols, width = padded(block_m), padded(block_n), padded(head_dim)
    return {
        "num_warps": num_warps(block_m, max(cols, width), element_bytes),
        "num_stages": num_stages(0, (rows + width) * cols * element_bytes, shared_bytes),
    }


def backward_options(block_m: int, block_n: int, head_dim: int, element_bytes: int, tiles: int = 2) -> dict[str, int]:
    """Return launch options of the flash backward passes.

    P, dS and `tiles` tiles of head_dim are in registers, without a pipeline.
    """
    cols, width = padded(block_n), padded(head_dim)
    rows = max(padded(block_m), cols)
    return {"num_warps": num_warps(rows, 2 * cols + tiles * width, element_bytes), "num_stages": 1}


def square_options(side: int, element_bytes: int) -> dict[str, int]:
    """Return launch options of the square-tile kernels.

    A few tiles of side x side are in registers, without a pipeline.
    """
    return {"num_warps": num_warps(side, 4 * padded(side), element_bytes), "num_stages": 1}


def softmax_options(row: int) -> dict[str, int]:
    """Return launch options of a softmax.

    Its program holds a row of S, or a chunk of it.
    """
    return {"num_warps": min(16, max(1, row // 512))}
