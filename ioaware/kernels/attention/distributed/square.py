"""Compute attention on a grid of ranks.

The ranks of a row share their queries, those of a column their keys and values.

With R rows and C columns, rank i C + j is in row i and column j. Q_i are the queries of row i, K_j and V_j the keys and values
of column j; together the ranks of a grid have every pair (Q_i, K_j) once. Rank (i, j):
    forward    gathers Q_i over its row, and K_j, V_j over its column; attends Q_i to K_j, one part of the column after another
               as they arrive; sends every rank of its row the partial results of that rank's queries, which merges C of them
    backward   gathers Q, O, dO and the log-sum-exp over its row, K and V over its column; sends partial gradients, in float32,
               to the owners of the queries in its row and of the keys in its column
A rank receives O(N d / sqrt P) elements on a square grid. R = P, C = 1 is the all-gather of K and V: no ranks share queries.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ioaware.kernels.attention.distributed.layout import Layout
from ioaware.kernels.attention.distributed.local_attention import Gradients, Partial, attend, attend_backward
from ioaware.kernels.attention.distributed.sharding import Segment, sort_shards, take_segments
from ioaware.kernels.attention.distributed.transfers import Message, Pending

Saved = tuple[torch.Tensor, ...]
Arriving = list[tuple[int, torch.Tensor, Pending | None]]
"""Ranks of the column with their keys, and what to wait for.

They are in the order in which their keys are used.
"""


def square_forward(layout: Layout, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, Saved]:
    """Return the output of this rank's queries, and what the backward pass needs."""
    row = _row(layout)
    q_all, positions = _gather_row(layout, row, q.contiguous())
    partial = Partial.empty(q_all)
    for step, (source, kv, pending) in enumerate(_gather_column(layout, torch.stack((k, v)))):
        if pending:
            pending.wait()
        under_way = step < layout.grid[0] - 1
        attend(partial, q_all, kv, layout.runs(positions, layout.keys[source]), layout.scale, transfers=under_way)
    o, lse = _merge_row(layout, row, partial, positions, q.dtype)
    return o, (q, k, v, o, lse)


def square_backward(layout: Layout, saved: Saved, do: torch.Tensor) -> Gradients:
    """Return the gradients of this rank's queries, keys and values."""
    q, k, v, o, lse = saved
    row = _row(layout)
    arriving = _gather_column(layout, torch.stack((k, v)))
    stacked, positions = _gather_row(layout, row, torch.stack((q, o, do)))
    lse_all, _ = _gather_row(layout, row, lse.unsqueeze(3))
    rows = (stacked[0], stacked[1], stacked[2], lse_all.squeeze(3))
    dq = torch.zeros(rows[0].shape, dtype=torch.float32, device=q.device)
    dkv = torch.zeros((2, *k.shape), dtype=torch.float32, device=q.device)
    returned: list[tuple[Pending, torch.Tensor]] = []
    for step, (source, kv, pending) in enumerate(arriving):
        if pending:
            pending.wait()
        grad = torch.zeros(kv.shape, dtype=torch.float32, device=q.device) if step else dkv
        runs = layout.runs(positions, layout.keys[source])
        attend_backward(dq, grad, rows, kv, runs, layout.scale, transfers=layout.grid[0] > 1)
        if step:
            own = torch.empty_like(dkv)
            helper = _in_column(layout, step)
            returned.append((layout.transfers.exchange([(source, grad)], [(helper, own)]), own))
    shares = _exchange_rows(layout, row, [dq], positions)
    for pending, own in returned:
        pending.wait()
        dkv += own
    return sum((share for (share,) in shares[1:]), shares[0][0]).to(q.dtype), dkv[0].to(k.dtype), dkv[1].to(v.dtype)


def _row(layout: Layout) -> list[int]:
    """Return the ranks of this rank's row."""
    columns = layout.grid[1]
    first = layout.rank // columns * columns
    return list(range(first, first + columns))


def _in_column(layout: Layout, rows_down: int) -> int:
    """Return the rank so many rows further down in this rank's column."""
    return (layout.rank + rows_down * layout.grid[1]) % layout.ranks


def _gather_row(layout: Layout, row: Sequence[int], mine: torch.Tensor) -> tuple[torch.Tensor, list[Segment]]:
    """Return the rows of all ranks of this row by position, and their positions.

    The second last axis is that of queries.
    """
    parts = {rank: mine if rank == layout.rank else layout.empty_queries(mine, rank) for rank in row}
    peers = [rank for rank in row if rank != layout.rank]
    layout.transfers.exchange([(rank, mine) for rank in peers], [(rank, parts[rank]) for rank in peers]).wait()
    return sort_shards([parts[rank] for rank in row], [layout.queries[rank] for rank in row], dim=mine.dim() - 2)


def _gather_column(layout: Layout, mine: torch.Tensor) -> Arriving:
    """Start to gather the keys and values of this rank's column.

    Those of the rank above are gathered first.
    """
    arriving: Arriving = [(layout.rank, mine, None)]
    for step in range(1, layout.grid[0]):
        source, target = _in_column(layout, -step), _in_column(layout, step)
        block = layout.empty_keys(mine[0], source)
        arriving.append((source, block, layout.transfers.exchange([(target, mine)], [(source, block)])))
    return arriving


def _exchange_rows(
    layout: Layout, row: Sequence[int], tensors: Sequence[torch.Tensor], positions: Sequence[Segment]
) -> list[list[torch.Tensor]]:
    """Send each rank of this row its queries' part of the tensors.

    Return what came for this rank's, by ranks.

    tensors: [..., rows, columns], with rows at `positions`.
    """
    parts: list[list[torch.Tensor]] = []
    sends: list[Message] = []
    receives: list[Message] = []
    for rank in row:
        cut = [take_segments(x, positions, layout.queries[rank], dim=x.dim() - 2) for x in tensors]
        if rank == layout.rank:
            parts.append(cut)
            continue
        parts.append([layout.empty_queries(x, layout.rank) for x in tensors])
        sends += [(rank, x) for x in cut]
        receives += [(rank, x) for x in parts[-1]]
    layout.transfers.exchange(sends, receives).wait()
    return parts


def _merge_row(
    layout: Layout, row: Sequence[int], partial: Partial, positions: Sequence[Segment], dtype: torch.dtype
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return o and log-sum-exp of this rank's queries.

    They come from the partial results of its row. o travels in its own dtype.
    """
    if len(row) == 1:
        return partial.o.to(dtype), partial.lse
    shares = _exchange_rows(layout, row, [partial.o.to(dtype), partial.lse.unsqueeze(3)], positions)
    merged = Partial.empty(shares[0][0])
    for o, lse in shares:
        merged.merge(o, lse.squeeze(3))
    return merged.o.to(dtype), merged.lse
