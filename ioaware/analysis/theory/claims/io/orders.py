"""Count what known orders of attention move per head at N, d and M.

The blocks are by the paper's rule or to fit M.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import isqrt

from ioaware.analysis.theory.counting import Counts
from ioaware.analysis.theory.counts import flash1, flash1_backward, flash2, flash2_backward, standard, standard_backward
from ioaware.analysis.theory.counts import square_tiling as square

HEAD_DIMS = (16, 64, 128, 256)


def sizes(low: int, high: int, steps: int) -> Iterator[int]:
    """Return so many integers from low to high, ends included.

    They are in even steps of the logarithm.
    """
    for step in range(steps + 1):
        yield round(low * (high / low) ** (step / steps))


def paper_flash1(n: int, d: int, m: int) -> int:
    """Return Algorithm 1's count with B_c = ceil(M / 4d)."""
    return _elements(flash1.counts(False), n, d, columns=_paper_block(d, m))


def paper_flash2(n: int, d: int, m: int) -> int:
    """Return FlashAttention-2's count with B_r = ceil(M / 4d)."""
    return _elements(flash2.counts(False), n, d, rows=_paper_block(d, m))


def fitting_flash2(n: int, d: int, m: int) -> int:
    """Return FlashAttention-2's count with B_c = 1 and the largest B_r that fits.

    K, V, Q, O, S, l and m fit in M with that B_r.
    """
    return _elements(flash2.counts(False), n, d, rows=max(1, (m - 2 * d) // (2 * d + 3)))


def square_tiling(n: int, d: int, m: int) -> int:
    """Return Saha and Ye's count with tiles of side floor(sqrt(M / 4))."""
    return _elements(standard.square_tiling(), n, d, rows=tile_side(m))


def row_panels(n: int, d: int, m: int) -> int:
    """Return the count of Algorithm 0 in panels of M / 4d rows."""
    return _elements(standard.row_panels(), n, d, rows=max(1, m // (4 * d)), columns=n)


def paper_flash1_backward(n: int, d: int, m: int) -> int:
    """Return Algorithm 4's count with B_c = ceil(M / 4d)."""
    return _elements(flash1_backward.counts(False), n, d, columns=_paper_block(d, m))


def fitting_flash2_backward(n: int, d: int, m: int) -> int:
    """Return the two-kernel count of FlashAttention-2's backward pass.

    The blocks are the largest that fit in M.

    dK, dV: K, V, dK, dV of B_c columns beside a row of Q and dO, its S and dP, and three statistics. dQ: Q, dO, dQ of B_r rows
    beside a column of K and V, its S and dP, and two statistics.
    """
    columns, rows = (m - 2 * d - 3) // (4 * d + 2), (m - 2 * d) // (3 * d + 4)
    return _elements(flash2_backward.counts(False), n, d, rows=max(1, rows), columns=max(1, columns))


def square_tiling_backward(n: int, d: int, m: int) -> int:
    """Return the count of the backward pass in square tiles.

    Their side is floor(sqrt(M / 4)).
    """
    return _elements(square.backward(False), n, d, rows=tile_side(m))


def tiled_standard_backward(n: int, d: int, m: int) -> int:
    """Return the count of Algorithm 3 in tiles of M / 4d rows and columns.

    A row of P and dP is read once.
    """
    side = max(1, m // (4 * d))
    return _elements(standard_backward.counts(False), n, d, rows=side, columns=side)


FORWARD_ORDERS = (paper_flash1, paper_flash2, fitting_flash2, square_tiling, row_panels)
BACKWARD_ORDERS = (paper_flash1_backward, fitting_flash2_backward, square_tiling_backward, tiled_standard_backward)


def tile_side(m: int) -> int:
    return isqrt(m // 4)


def place(n: int, d: int, m: int | None = None) -> str:
    """Name a point: `N=1024 d=64 M=4096`."""
    return f"N={n} d={d}" + ("" if m is None else f" M={m}")


def _paper_block(d: int, m: int) -> int:
    return -(-m // (4 * d))


def _elements(counts: Counts, n: int, d: int, *, rows: int = 1, columns: int = 1) -> int:
    return counts.total_elements({"N": n, "N_k": n, "d": d, "B_r": rows, "B_c": columns, "c": 1})
