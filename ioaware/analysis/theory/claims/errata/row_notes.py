"""List the errors of the notes on one row of attention and of the summary.

The notes are S3, and S4 is the paper's summary.
"""

from __future__ import annotations

import numpy as np

from ioaware.analysis.theory.claims.errata.erratum import Trial, Values, erratum
from ioaware.analysis.theory.claims.io.orders import paper_flash1
from ioaware.analysis.theory.claims.io.softmax_accesses import CountedMemory
from ioaware.analysis.theory.claims.numerics.attention import softmax


@erratum("S3.1", "notes on one row, o'_i", "sum_j e^(x_j - m_i) / d' V_j", "sum_j e^(x_j - m_i) / d'_i V_j")
def partial_denominator(random: np.random.Generator) -> Trial:
    """d' without an index is the last denominator; the recurrence needs that of row i."""
    x, v, i = random.normal(size=5), random.normal(size=(5, 2)), 3
    weights = np.exp(x[:i] - x[:i].max())
    return Trial(
        f"i={i} of 5 keys", softmax(x[:i]) @ v[:i], weights @ v[:i] / np.exp(x - x.max()).sum(), weights @ v[:i] / weights.sum()
    )


def _tiled(x: Values, v: Values, block: int, *, assigned: bool, tiles: int) -> Values:
    """Run the tile loop over so many tiles.

    `assigned` False leaves d' at its first value, as a loop that assigns a' does.
    """
    m, d, o = -np.inf, 0.0, np.zeros(v.shape[1])
    for i in range(tiles):
        part = slice(i * block, (i + 1) * block)
        new = max(m, float(x[part].max()))
        total = d * np.exp(m - new) + np.exp(x[part] - new).sum()
        o = o * d * np.exp(m - new) / total + np.exp(x[part] - new) @ v[part] / total
        m, d = new, float(total) if assigned else d
    return o


@erratum(
    "S3.2",
    "notes on one row, tile loop",
    "a'_i <- d'_(i-1) e^(m_(i-1) - m_i) + ...",
    "d'_i <- d'_(i-1) e^(m_(i-1) - m_i) + ...",
)
def assigned_name(random: np.random.Generator) -> Trial:
    x, v = random.normal(size=6), random.normal(size=(6, 2))
    return Trial(
        "6 keys in tiles of 2",
        softmax(x) @ v,
        _tiled(x, v, 2, assigned=False, tiles=3),
        _tiled(x, v, 2, assigned=True, tiles=3),
    )


@erratum("S3.3", "notes on one row, notation", "V[i, :] is a row of O", "V[i, :] is row i of V")
def value_row(random: np.random.Generator) -> Trial:
    x, v, i = random.normal(size=4), random.normal(size=(4, 2)), 1
    o = softmax(x) @ v
    first = np.zeros(4)
    first[i] = 1
    return Trial("what a weight of one on key 1 adds", first @ v, o, v[i])


@erratum("S3.4", "notes on one row, number of tiles", "N / b", "ceil(N / b)")
def tile_count(random: np.random.Generator) -> Trial:
    x, v, block = random.normal(size=7), random.normal(size=(7, 2)), 3
    printed, corrected = (_tiled(x, v, block, assigned=True, tiles=tiles) for tiles in (7 // block, -(-7 // block)))
    return Trial("7 keys in tiles of 3", softmax(x) @ v, printed, corrected)


@erratum("S3.5", "notes on one row, first sentence", "safe softmax needs two reads of a row", "one, where the row fits on chip")
def one_read(random: np.random.Generator) -> Trial:
    v, memory = random.normal(size=(3, 8)), CountedMemory()
    output = softmax(memory.read(v))
    return Trial("reads of a row of 8", memory.global_reads / v.size if np.allclose(output.sum(axis=1), 1) else np.nan, 2, 1)


@erratum(
    "S4.1",
    "summary of section 3.1",
    "sub-quadratic in N",
    "quadratic in N for fixed M and d: four times the count for twice the N",
)
def growth(random: np.random.Generator) -> Trial:
    d, n = 64, int(2 ** random.integers(18, 22))
    m = 16 * d * d
    ratio = paper_flash1(2 * n, d, m) / paper_flash1(n, d, m)
    return Trial(f"N={n} d={d} M={m}: count(2N) / count(N) = {ratio:.4f}, at least 3.99", ratio >= 3.99, False, True)


@erratum("S4.2", "summary of Algorithm 1, line 4", "O in blocks O_i, ..., O_Tr", "O in blocks O_1, ..., O_Tr")
def summary_blocks(random: np.random.Generator) -> Trial:
    rows, i = 2, int(random.integers(2, 4))
    o = random.normal(size=(8, 2))
    blocks = [o[start : start + rows] for start in range(0, len(o), rows)]
    return Trial(f"rows in the blocks, N=8 B_r=2 i={i}", len(o), sum(map(len, blocks[i - 1 :])), sum(map(len, blocks)))


ERRATA = (
    partial_denominator,
    assigned_name,
    value_row,
    tile_count,
    one_read,
    growth,
    summary_blocks,
)
