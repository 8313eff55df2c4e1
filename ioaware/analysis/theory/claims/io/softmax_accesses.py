"""Check how often each softmax reads and writes its matrix and statistics.

Each form of softmax has a matrix of G elements and row statistics.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from ioaware.analysis.theory.claims.claim import Claim, Comparison, Part, conclude, judge_comparisons
from ioaware.analysis.theory.claims.compared_traffic import judge_measured, judge_traced, written
from ioaware.analysis.theory.claims.evidence import Evidence, Need, derived, need
from ioaware.analysis.theory.claims.numerics.attention import Matrix, softmax
from ioaware.result import BYTES_HOLD

NAME = "softmax"
STATEMENT = (
    "Softmax of G elements takes 8 G accesses as five kernels, 6 G with exponentials stored, 4 G safe, 3 G online, 2 G with "
    "rows on chip; its backward pass 5 G and 3 G."
)
SOURCE = "Milakov and Gimelshein 2018, arXiv 1805.02867, and the tables of unpublished notes (sections 4.1 to 4.4)"

NOTES = (
    "The notes' S counts a statistic stored once for each row and read once for each row and use; it is checked on their "
    "steps.",
    "The kernels keep statistics in registers. They reduce through shared memory: a reduction over W warps, which TTGIR gives, "
    "stores W partial results and the result, and loads as often. Each chunk of a row has one or two.",
    "Section 4.3 as printed computes exp(V - t0) again in its last step: what step 2 wrote is not used, and 4 G suffice (claim "
    "errata, S2.19). Its 6 G and 4 S of reads are those of the steps as printed.",
)
ACCESSES: Mapping[str, tuple[int, int]] = {
    "softmax_eager": (5, 3),
    "softmax_materialised": (4, 2),
    "softmax_cub": (4, 2),
    "softmax_safe": (3, 1),
    "softmax_online": (2, 1),
    "softmax_one_read": (1, 1),
    "softmax_lse": (1, 0),
    "softmax_bwd": (4, 1),
    "softmax_bwd_one_read": (2, 1),
}
"""Reads and writes of the whole matrix."""
STATISTICS: Mapping[str, tuple[int, int]] = {"softmax_eager": (2, 2), "softmax_lse": (0, 1)}
"""Reads and writes of one fp32 number a row."""
WHOLE_SECTORS = tuple(name for name in ACCESSES if name not in STATISTICS)
REDUCTIONS: Mapping[str, int] = {name: 1 if "bwd" in name else 2 for name in ACCESSES}
"""Reductions of a row, or of each chunk of one, to a number."""
WARP_COLUMNS, MAX_WARPS = 512, 16
"""Columns that a warp of the kernels holds, and the most warps of a row."""
_SHAPES = ({"rows": 3, "cols": 70, "dtype": "float32"}, {"rows": 2, "cols": 96, "dtype": "float16"})


def points() -> tuple[Need, ...]:
    """Return runs of every form in several chunks, and derivations of each."""
    traced = tuple(
        need("trace", name, **shape, **({} if name.endswith("one_read") else {"block_n": 32}))
        for name in ACCESSES
        for shape in _SHAPES
    )
    return (*traced, *derived(*ACCESSES))


def judge(evidence: Evidence) -> Claim:
    """Return the verdict on traces, counters and walks over the notes' steps."""
    parts, rows = judge_traced("a", points(), evidence)
    multiples = list(_multiples(evidence))
    parts += [
        judge_comparisons(
            "b",
            "traced and derived reads and writes are whole multiples of G: 5+3, 4+2, 4+2, 3+1, 2+1, 1+1; backward 4+1, 2+1",
            multiples,
        ),
        *judge_measured("c", WHOLE_SECTORS, evidence),
        *_judge_notes(),
        *_judge_shared(evidence),
    ]
    return conclude(
        NAME, STATEMENT, SOURCE, parts=parts, points=[*rows, *multiples], notes=[*NOTES, *evidence.failures(points())]
    )


def _multiples(evidence: Evidence) -> Iterator[Comparison]:
    """Divide traced bytes, less those of row statistics, by the bytes of the matrix."""
    for wanted in points():
        seen = evidence.at(wanted)
        moved = seen.observed.requested if seen else None
        for way, expected, count, statistics in zip(
            ("reads", "writes"),
            ACCESSES[wanted.target],
            (moved and moved.read_bytes, written(moved)),
            STATISTICS.get(wanted.target, (0, 0)),
            strict=True,
        ):
            observed = None
            if seen is not None and count is not None:
                rows, cols, width = (seen.values[name] for name in ("R", "C", "e"))
                observed = (count - 4 * rows * statistics) / (rows * cols * width)
            yield Comparison("b", f"{wanted} {way}", expected, observed)


def shared_accesses(case: str, rows: int, cols: int, block_n: int) -> int:
    """Return the accesses of warps that store to shared memory; as many load.

    A reduction over W warps stores W partial results and the result; the first warp loads all of the former at once, and every
    warp the latter. One warp needs no shared memory.
    """
    chunk = min(1 << (cols - 1).bit_length(), 1 << (block_n - 1).bit_length())
    warps = min(MAX_WARPS, max(1, chunk // WARP_COLUMNS))
    return rows * -(-cols // chunk) * REDUCTIONS[case] * (warps + 1) if warps > 1 else 0


SHARED_COUNTERS = {
    "stores": "smsp__sass_inst_executed_op_shared_st.sum",
    "loads": "smsp__sass_inst_executed_op_shared_ld.sum",
}
"""Instructions of warps with an active thread, by code that ncu adds."""


def _judge_shared(evidence: Evidence) -> Iterator[Part]:
    """Compare counted accesses to shared memory with the reductions of TTGIR."""
    rows = list(_shared_rows(evidence))
    if rows:
        says = "counted accesses of warps to shared memory are those of the reductions: W + 1 each, and each chunk"
        yield judge_comparisons("e", says, rows)


def _shared_rows(evidence: Evidence) -> Iterator[Comparison]:
    for result in evidence.shared:
        if result.target in REDUCTIONS and result.status in BYTES_HOLD:
            rows, cols, block = (int(result.params.get(name) or 0) for name in ("rows", "cols", "block_n"))
            expected = shared_accesses(result.target, rows, cols, block or cols)
            for way, counter in SHARED_COUNTERS.items():
                counted = [(launch.counters or {}).get(counter) for launch in result.launches]
                seen = None if None in counted else sum(one for one in counted if one is not None)
                yield Comparison("e", f"{result.target} {rows} x {cols} {way}", expected, seen)


@dataclass
class CountedMemory:
    """Global and shared memory behind counters.

    Matrices are counted by element, and row statistics by row.
    """

    global_reads: int = 0
    global_writes: int = 0
    shared_reads: int = 0
    shared_writes: int = 0

    def read(self, matrix: Matrix) -> Matrix:
        self.global_reads += matrix.size
        return matrix

    def write(self, matrix: Matrix) -> Matrix:
        self.global_writes += matrix.size
        return matrix

    def broadcast(self, statistic: Matrix) -> Matrix:
        self.shared_reads += len(statistic)
        return statistic[:, None]

    def store(self, statistic: Matrix) -> Matrix:
        self.shared_writes += len(statistic)
        return statistic


def _self_implemented(v: Matrix, memory: CountedMemory) -> Matrix:
    """Section 4.1: maximum, exponentials to global memory, their sum, the quotient."""
    t0 = memory.store(memory.read(v).max(axis=1))
    t1 = memory.write(np.exp(memory.read(v) - memory.broadcast(t0)))
    t2 = memory.store(memory.read(t1).sum(axis=1))
    return memory.write(memory.read(t1) / memory.broadcast(t2))


def _online(v: Matrix, memory: CountedMemory) -> Matrix:
    """Sections 4.2 and 4.4: maximum and sum in one pass, output in another."""
    row = memory.read(v)
    m, total = np.full(len(v), -np.inf), np.zeros(len(v))
    for column in row.T:
        new = np.maximum(m, column)
        total = total * np.exp(m - new) + np.exp(column - new)
        m = new
    m, total = memory.store(m), memory.store(total)
    return memory.write(np.exp(memory.read(v) - memory.broadcast(m)) / memory.broadcast(total))


def _cub(v: Matrix, memory: CountedMemory) -> Matrix:
    """Section 4.3 as printed.

    Step 3 takes t0 too, and step 4 computes the exponentials again.
    """
    t0 = memory.store(memory.read(v).max(axis=1))
    memory.write(np.exp(memory.read(v) - memory.broadcast(t0)))
    t2 = memory.store(np.exp(memory.read(v) - memory.broadcast(t0)).sum(axis=1))
    return memory.write(np.exp(memory.read(v) - memory.broadcast(t0)) / memory.broadcast(t2))


TABLES: Mapping[str, tuple[Callable[[Matrix, CountedMemory], Matrix], tuple[int, int, int, int]]] = {
    "4.1 self-implemented": (_self_implemented, (4, 2, 2, 2)),
    "4.2 and 4.4 online": (_online, (2, 1, 2, 2)),
    "4.3 cub, as printed": (_cub, (4, 2, 4, 2)),
}
"""G read, G written, S read, S written, as the notes' tables total them."""


def _judge_notes() -> Iterator[Part]:
    """Walk the notes' steps through a memory that counts.

    It is checked that they compute softmax.
    """
    v = np.random.default_rng(0).normal(size=(6, 35))
    for name, (steps, expected) in TABLES.items():
        memory = CountedMemory()
        output = steps(v, memory)
        g, rows = v.size, len(v)
        counted = (memory.global_reads / g, memory.global_writes / g, memory.shared_reads / rows, memory.shared_writes / rows)
        comparisons = [
            Comparison("d", f"{name}: {what}", said, count)
            for what, said, count in zip(("G read", "G written", "S read", "S written"), expected, counted, strict=True)
        ]
        comparisons.append(Comparison("d", f"{name}: largest error", 0, round(float(abs(output - softmax(v)).max()), 12)))
        yield judge_comparisons("d", f"the notes' section {name}: G and S of a walk over its steps are its totals", comparisons)
