"""Hold what every rank of one call knows.

This is the whole problem, and which rows each rank holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch

from ioaware.kernels.attention.distributed.sharding import Run, Segment, shard_segments, visible_runs
from ioaware.kernels.attention.distributed.transfers import Transfers


@dataclass(frozen=True)
class Layout:
    """One call of attention over `transfers.ranks` ranks.

    It has seq_len queries and kv_len keys, each split in zigzag.
    """

    transfers: Transfers
    heads: int
    kv_heads: int
    seq_len: int
    kv_len: int
    causal: bool
    scale: float
    grid: tuple[int, int]
    """Rows and columns of ranks, for the method `square`."""

    @property
    def rank(self) -> int:
        return self.transfers.rank

    @property
    def ranks(self) -> int:
        return self.transfers.ranks

    @cached_property
    def queries(self) -> list[list[Segment]]:
        """The positions of each rank's queries."""
        return [shard_segments(self.seq_len, self.ranks, rank) for rank in range(self.ranks)]

    @cached_property
    def keys(self) -> list[list[Segment]]:
        """The positions of each rank's keys and values."""
        return [shard_segments(self.kv_len, self.ranks, rank) for rank in range(self.ranks)]

    def runs(self, queries: Sequence[Segment], keys: Sequence[Segment]) -> list[Run]:
        """Return the runs of these queries over these keys under this call's mask."""
        return visible_runs(queries, keys, self.kv_len - self.seq_len if self.causal else None)

    def empty_keys(self, like: torch.Tensor, rank: int, dtype: torch.dtype | None = None) -> torch.Tensor:
        """Return uninitialised memory for K and V of a rank.

        Like: [batch, kv_heads, rows, head_dim] of any rows.
        """
        batch, kv_heads, _, head_dim = like.shape
        rows = sum(end - start for start, end in self.keys[rank])
        return torch.empty((2, batch, kv_heads, rows, head_dim), dtype=dtype or like.dtype, device=like.device)

    def empty_queries(self, like: torch.Tensor, rank: int, dtype: torch.dtype | None = None) -> torch.Tensor:
        """Return uninitialised memory for a tensor of a rank's queries.

        The tensor is [..., rows, head_dim].
        """
        rows = sum(end - start for start, end in self.queries[rank])
        return torch.empty((*like.shape[:-2], rows, like.shape[-1]), dtype=dtype or like.dtype, device=like.device)
