"""Make sure that all ranks make the same call before anything moves.

This takes one all-gather of a few integers.

A rank that refuses its own arguments takes part too, so that every rank raises an error and none waits for it.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import torch

from ioaware.errors import UsageError
from ioaware.kernels.attention.distributed.sharding import shard_length
from ioaware.kernels.attention.distributed.transfers import Transfers

DTYPES = (torch.float16, torch.bfloat16, torch.float32)
NAMES = ("method", "causal", "scale", "grid", "gradients", "dtype", "device type", "batch", "heads", "kv_heads", "head_dim")
WORDS = {
    "dtype": tuple(str(dtype).removeprefix("torch.") for dtype in DTYPES),
    "device type": ("cpu", "cuda"),
    "causal": ("false", "true"),
    "gradients": ("not required", "required"),
}
NUMBERS = len(NAMES) + 4
"""Number of integers of an agreement.

They are whether the rank refused, those of `NAMES` (grid is two), and its rows of q and of k.
"""
AGREEMENT_BYTES = 8 * NUMBERS
"""Bytes that each rank sends to each other rank before a call."""


Proposal = tuple[int, ...]
"""Integers that must be equal on all ranks, then this rank's rows of q and k.

The equal ones are in the order of `NAMES`.
"""


def propose(
    q: torch.Tensor, k: torch.Tensor, *, method: int, causal: bool, scale: float, grid: tuple[int, int], gradients: bool
) -> Proposal:
    """Return this rank's view of a call with valid tensors."""
    scale_bits = struct.unpack("q", struct.pack("d", scale))[0]
    kind = (DTYPES.index(q.dtype), int(q.device.type == "cuda"))
    sizes = (q.shape[0], q.shape[1], k.shape[1], q.shape[3])
    return (method, int(causal), scale_bits, *grid, int(gradients), *kind, *sizes, q.shape[2], k.shape[2])


def agree(transfers: Transfers, proposal: Proposal | None) -> tuple[int, int]:
    """Return the length of all queries and of all keys.

    This happens once all ranks propose the same call.

    None: this rank refused its arguments. Raises UsageError on every rank unless all agree and hold the rows that
    `shard_sequence` gives them.
    """
    everyone = transfers.gather_numbers((0, *proposal) if proposal else (1, *(0,) * (NUMBERS - 1)))
    refused = [rank for rank, numbers in enumerate(everyone) if numbers[0]]
    if proposal is None:
        return 0, 0
    if refused:
        others = ", ".join(map(str, refused))
        raise UsageError(f"{transfers.what}: rank {others} of {transfers.ranks} refused its arguments", "Its error says why.")
    for rank, numbers in enumerate(everyone):
        _check_equal(transfers, everyone[0], numbers, rank)
    lengths = sum(numbers[-2] for numbers in everyone), sum(numbers[-1] for numbers in everyone)
    for name, length, held in zip(
        ("q", "k and v"), lengths, ([n[-2] for n in everyone], [n[-1] for n in everyone]), strict=True
    ):
        _check_rows(transfers, name, length, held)
    return lengths


def _check_equal(transfers: Transfers, first: Sequence[int], numbers: Sequence[int], rank: int) -> None:
    """Raise UsageError that names what differs between rank 0 and this rank."""
    fields = [name for name in NAMES for _ in range(1 + (name == "grid"))]
    for name, expected, seen in zip(fields, first[1:-2], numbers[1:-2], strict=True):
        if expected != seen:
            names = WORDS.get(name)
            shown = [names[number] if names else str(number) for number in (expected, seen)]
            values = "" if name in ("method", "scale") else f": {shown[0]} on rank 0, {shown[1]} on rank {rank}"
            what = f"{transfers.what}: {name} differs between rank 0 and rank {rank}{values}"
            raise UsageError(what, "All ranks of the group must make the same call.")


def _check_rows(transfers: Transfers, name: str, length: int, held: Sequence[int]) -> None:
    """Raise UsageError unless each rank holds its part of the whole sequence."""
    if length == 0:
        raise UsageError(f"{transfers.what}: {name} have no rows on any rank", "Give each rank its part of the sequence.")
    for rank, rows in enumerate(held):
        wanted = shard_length(length, transfers.ranks, rank)
        if rows != wanted:
            raise UsageError(
                f"{transfers.what}: rank {rank} of {transfers.ranks} holds {rows} rows of {name}, not {wanted} of {length}",
                "Split the whole tensors by shard_sequence(x, rank, ranks).",
            )
