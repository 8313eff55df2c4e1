"""Check the standard half of Theorem 2: it needs M = Omega(d^2).

Below, Saha and Ye's bound contradicts it.

The theorem charges each matrix once per line of Algorithm 0, which a GEMM attains only with M of about N d. A tiled GEMM
attains Theta(N d + N^2) as long as a tile has d rows, M = Omega(d^2). For M = o(d^2) no order of a standard matrix product
does. It moves Omega(N^2 d / sqrt M) elements (arXiv 2402.07443, Theorem 3.7).
"""

from __future__ import annotations

from collections.abc import Iterator

from ioaware.analysis.formulas.evaluate import evaluate
from ioaware.analysis.theory.claims.claim import Exponent, Part, judge_bounds
from ioaware.analysis.theory.claims.exponents import fit_exponents
from ioaware.analysis.theory.counting import Counts
from ioaware.analysis.theory.counts.standard import idealised, row_panels, square_tiling

HEAD_DIM = 256
SEQ_LENS = (2**12, 2**14, 2**16)
_SCARCE = (16, 64, 256, 1024, 4096, 16384)  # M = 4 B^2 for tiles of B = 2 .. 64, up to d^2 / 4
_AMPLE = (2**16, 2**17, 2**18, 2**19, 2**20)  # from d^2 on


def judge_standard_half() -> list[Part]:
    """Check the idealised count and the tiled counts against N d + N^2.

    The tiled counts are those for M >= d^2 and for scarce M.
    """
    return [
        judge_bounds(
            "d",
            "standard, idealised (each matrix once per line): requested elements are Theta(N d + N^2), constants included",
            [(_place(n, HEAD_DIM), _ratio(idealised(), n, HEAD_DIM, 1)) for n in SEQ_LENS],
            low=4,
            high=4,
        ),
        judge_bounds(
            "d",
            "standard, tiled in row panels, M >= d^2: requested elements are Theta(N d + N^2)",
            [
                (_place(n, HEAD_DIM, m), _ratio(row_panels(), n, HEAD_DIM, m // (4 * HEAD_DIM)))
                for n in SEQ_LENS
                for m in _AMPLE
            ],
            low=4,
            high=12,
        ),
        _judge_scarce(),
    ]


def _judge_scarce() -> Part:
    """Check the best tiled count for M <= d^2/4 against N d + N^2.

    It is at least 2 d / sqrt(M) times N d + N^2.
    """
    says = "standard, tiled, M < d^2: Theta(N d + N^2) does not hold, the ratio grows as d / sqrt(M) (Saha-Ye Theorem 3.7)"
    ratios: list[tuple[str, float]] = []
    for n in SEQ_LENS:
        for m in _SCARCE:
            best = min(
                _ratio(square_tiling(), n, HEAD_DIM, int((m // 4) ** 0.5)),
                _ratio(row_panels(), n, HEAD_DIM, max(1, m // (4 * HEAD_DIM))),
            )
            ratios.append((_place(n, HEAD_DIM, m), best * m**0.5 / HEAD_DIM))
    return judge_bounds("d", says + "; ratio x sqrt(M) / d", ratios, low=2, high=16)


def scarce_exponents() -> Iterator[Exponent]:
    """Fit the square tiling's count to N^2 d / sqrt(M).

    It is fitted whole and less its lower-order terms (N^2 + 2N + N d).
    """
    sizes = [(n, d, m) for n in SEQ_LENS for d in (128, 256) for m in _SCARCE if 4 * m <= d * d]
    whole = [({"N": n, "d": d, "M": m}, _tiled(n, d, m)) for n, d, m in sizes]
    leading = [(at, count - (at["N"] ** 2 + 2 * at["N"] + at["N"] * at["d"])) for at, count in whole]
    powers = {"N": 2.0, "d": 1.0, "M": -0.5}
    yield from fit_exponents("standard, tiled, M < d^2: exact elements", powers, whole, judged=False)
    yield from fit_exponents("standard, tiled, M < d^2: exact elements, leading term", powers, leading)


def _tiled(n: int, d: int, m: int) -> int:
    return _elements(square_tiling(), n, d, int((m // 4) ** 0.5))


def _ratio(counts: Counts, n: int, d: int, rows: int) -> float:
    return _elements(counts, n, d, rows) / (n * d + n * n)


def _elements(counts: Counts, n: int, d: int, rows: int) -> int:
    return evaluate(counts.reads.count + counts.writes.count, {"N": n, "N_k": n, "d": d, "B_r": rows, "B_c": n})


def _place(n: int, d: int, memory: int | None = None) -> str:
    return f"N={n} d={d}" + ("" if memory is None else f" M={memory}")
