"""Check offsets and launch grid of attention over heads.

How often K and V are read is checked too.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from ioaware.analysis.theory.claims.claim import Claim, Comparison, Part, conclude, judge_comparisons
from ioaware.analysis.theory.claims.compared_traffic import judge_measured, judge_traced
from ioaware.analysis.theory.claims.evidence import Evidence, Need, Observation, derived, need

NAME = "gqa"
STATEMENT = (
    "One CTA per row block: L_Q / B_r * H * N CTAs at offsets blockIdx * B_r * d of Q and blockIdx / T_r * L_K * d of K and V, "
    "which are read T_r times for every query head; packed groups read them ceil(G L_Q / B_r) times a key head."
)
SOURCE = "unpublished notes, section 3 (CTA offsets); Dao 2023, arXiv 2307.08691, section 3.1, for grouped heads"

NOTES = (
    "The note's shapes assume that B_r divides L_Q; the grid has ceil(L_Q / B_r) row blocks, and Q's offset is then counted "
    "per head.",
    "Its offsets of D and d are wrong (claim errata, S2.14 and S2.15).",
)
_SHAPES = (
    {"seq_len": 48, "head_dim": 16, "dtype": "float32", "batch": 2, "heads": 2, "block_m": 16, "block_n": 16},
    {"seq_len": 40, "kv_len": 56, "head_dim": 16, "dtype": "float16", "batch": 1, "heads": 3, "block_m": 16, "block_n": 32},
)
_GROUPED = (
    {"seq_len": 40, "head_dim": 16, "dtype": "float32", "batch": 1, "heads": 4, "kv_heads": 2, "block_m": 16, "block_n": 16},
    {
        "seq_len": 5,
        "kv_len": 48,
        "head_dim": 16,
        "dtype": "float16",
        "batch": 1,
        "heads": 6,
        "kv_heads": 2,
        "block_m": 16,
        "block_n": 16,
    },
)
UNGROUPED = tuple(need("trace", "flash2", **shape) for shape in _SHAPES)
GROUPED = tuple(need("trace", target, **shape) for target in ("gqa", "gqa_packed") for shape in _GROUPED)


_DERIVED = derived("gqa", "gqa_packed", heads=32, kv_heads=8, seq_len=4096)


def points() -> tuple[Need, ...]:
    """Return runs with several heads and batches, grouped heads unpacked and packed."""
    return (*UNGROUPED, *GROUPED, *_DERIVED)


def judge(evidence: Evidence) -> Claim:
    """Return the verdict on a walk over the CTAs, on traces and on recorded counters."""
    parts, rows = judge_traced("c", points(), evidence)
    ctas = list(_ctas(evidence))
    reads = list(_key_reads(evidence))
    parts = [
        *_judge_offsets(),
        judge_comparisons("b", "launched CTAs are ceil(rows / B_r) for each head (packed: key head) and batch", ctas),
        *parts,
        judge_comparisons("d", "K and V are read T_r times a query head, packed ceil(G L_Q / B_r) times a key head", reads),
        *judge_measured("c", ("gqa", "gqa_packed"), evidence),
    ]
    return conclude(
        NAME, STATEMENT, SOURCE, parts=parts, points=[*rows, *ctas, *reads], notes=[*NOTES, *evidence.failures(points())]
    )


def _judge_offsets() -> Iterator[Part]:
    """Walk every CTA: the note's offsets are the addresses of its blocks.

    They are those of row block i, head h and batch n in contiguous tensors.
    """
    q_rows: list[Comparison] = []
    k_rows: list[Comparison] = []
    tiles: list[Comparison] = []
    for batch, heads, seq_len, kv_len, d, rows, columns in (
        (2, 3, 12, 10, 4, 4, 5),
        (1, 2, 8, 8, 2, 2, 2),
        (3, 1, 6, 9, 5, 3, 3),
    ):
        row_blocks = seq_len // rows
        q, k = (np.arange(batch * heads * n * d).reshape(batch, heads, n, d) for n in (seq_len, kv_len))  # element: its address
        for cta, (n, h, i) in enumerate(np.ndindex(batch, heads, row_blocks)):
            where = f"N={batch} H={heads} L_Q={seq_len} L_K={kv_len} B_r={rows} CTA {cta}"
            q_rows.append(Comparison("a", where, int(q[n, h, i * rows, 0]), cta * d * rows))
            k_rows.append(Comparison("a", where, int(k[n, h, 0, 0]), cta // row_blocks * d * kv_len))
        for i in range(kv_len // columns):
            tiles.append(Comparison("a", f"L_K={kv_len} B_c={columns} tile {i}", int(k[0, 0, i * columns, 0]), i * columns * d))
    yield judge_comparisons("a", "Q and O at blockIdx * d * B_r are the rows of that row block, head and batch", q_rows)
    yield judge_comparisons("a", "K and V at blockIdx / T_r * d * L_K are those of the CTA's head and batch", k_rows)
    yield judge_comparisons("a", "tile i of K and V begins i * B_c * d elements further", tiles)


def _ctas(evidence: Evidence) -> Iterator[Comparison]:
    """Compare the grid of each traced launch with the expected counts.

    They are the number of row blocks, heads and batches.
    """
    for wanted in points():
        seen = evidence.at(wanted)
        expected = _row_blocks(seen) * seen.heads if seen else None
        observed = sum(math.prod(launch.grid) for launch in seen.observed.launches) if seen else None
        yield Comparison("b", str(wanted), expected, observed)


def _row_blocks(seen: Observation) -> int:
    """Return the row blocks of an instance.

    They are those of a query head, or of the packed rows of a group.
    """
    return -(-seen.values["N"] // seen.values["B_r"])


def _key_reads(evidence: Evidence) -> Iterator[Comparison]:
    """Divide what was read beside Q by K and V of one head.

    It gives how often each head's keys and values were read.
    """
    for wanted in points():
        seen = evidence.at(wanted)
        reads = seen.observed.requested.read_bytes if seen and seen.observed.requested else None
        if seen is None or reads is None:
            yield Comparison("d", str(wanted), None, None)
            continue
        n, n_k, d, width = (seen.values[name] for name in ("N", "N_k", "d", "e"))
        keys = (reads - seen.heads * n * d * width) / (2 * n_k * d * width)
        yield Comparison("d", str(wanted), _row_blocks(seen), keys / seen.heads)
