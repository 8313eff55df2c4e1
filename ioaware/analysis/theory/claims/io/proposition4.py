"""Check Proposition 4 on block-sparse FlashAttention.

It moves Theta(N d + s N^2 d^2 / M) elements, where s of the blocks are nonzero.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ioaware.analysis.theory.claims.claim import Claim, Comparison, Part, conclude, judge_bounds, judge_comparisons
from ioaware.analysis.theory.claims.compared_traffic import judge_traced
from ioaware.analysis.theory.claims.evidence import Evidence, Need, derived, need
from ioaware.analysis.theory.claims.exponents import fit_exponents
from ioaware.analysis.theory.counts import block_sparse, flash1

NAME = "proposition4"
STATEMENT = "Block-sparse FlashAttention moves Theta(N d + s N^2 d^2 / M) elements, s being the share of nonzero blocks."
SOURCE = "Dao et al. 2022, arXiv 2205.14135, Proposition 4 and Algorithm 5"

NOTES = (
    "Line 6 loads K_j and V_j of a column block even if no row block uses it: 2 N d of the floor do not depend on s.",
    "A row without a nonzero block has no softmax; Algorithm 5 leaves O = 0 there.",
    "The masks are bands of blocks with the first column blocks (window w, g global blocks), of which s is counted block by "
    "block.",
)
_TRACED = (
    need("trace", "block_sparse", seq_len=64, head_dim=16, dtype="float32", block_m=16, block_n=16, window=1, global_blocks=1),
    need(
        "trace",
        "block_sparse",
        seq_len=70,
        kv_len=90,
        head_dim=24,
        dtype="float16",
        block_m=16,
        block_n=32,
        window=2,
        global_blocks=1,
    ),
    need("trace", "block_sparse", seq_len=96, head_dim=16, dtype="float32", sram_elements=1024, window=1, global_blocks=2),
)


class Mask(NamedTuple):
    """A band of blocks and g first column blocks, over N x N in B_r x B_c.

    The band has w blocks on each side of the diagonal block.
    """

    n: int
    d: int
    rows: int
    columns: int
    window: int
    first: int

    def nonzero(self) -> Iterator[tuple[int, int]]:
        """Return the (i, j) of every nonzero block."""
        for i in range(-(-self.n // self.rows)):
            for j in range(-(-self.n // self.columns)):
                if j < self.first or abs(i - j) <= self.window:
                    yield i, j

    @property
    def share(self) -> float:
        """Return s."""
        return len(list(self.nonzero())) / (-(-self.n // self.rows) * -(-self.n // self.columns))

    @property
    def values(self) -> dict[str, int]:
        return {
            "N": self.n, "N_k": self.n, "d": self.d, "B_r": self.rows, "B_c": self.columns, "w": self.window, "g": self.first,
        }  # fmt: skip

    def __str__(self) -> str:
        return " ".join(f"{name}={value}" for name, value in self.values.items() if name != "N_k")


_DERIVED = derived("block_sparse", seq_len=4096)


def points() -> tuple[Need, ...]:
    """Return runs of Algorithm 5."""
    return (*_TRACED, *_DERIVED)


def judge(evidence: Evidence) -> Claim:
    """Return the verdict on walks over the mask, closed forms and traces."""
    parts, traced = judge_traced("a", points(), evidence)
    walked = _walked()
    full = _full()
    parts += [
        judge_comparisons("b", "exact elements are those of a walk over the nonzero blocks of random masks", walked),
        judge_comparisons("b", "with every block nonzero they are FlashAttention's", full),
        _judge_theta(),
    ]
    bands = [Mask(2**11, 64, 32, 32, window, 1) for window in (1, 3, 7, 15, 63)]
    floor = _floor(bands[0])
    shares = [({"blocks": len(list(mask.nonzero()))}, _exact(mask) - floor) for mask in bands]
    return conclude(
        NAME,
        STATEMENT,
        SOURCE,
        parts=parts,
        exponents=list(fit_exponents("exact elements less those of no block", {"blocks": 1}, shares)),
        points=[*traced, *walked, *full],
        notes=[*NOTES, *evidence.failures(points())],
    )


def _exact(mask: Mask) -> int:
    return block_sparse.counts(False).total_elements(mask.values)


def _floor(mask: Mask) -> int:
    """Return what is moved without any nonzero block.

    O, l and m are initialised, and K and V loaded.
    """
    return mask.n * mask.d + 2 * mask.n + 2 * mask.n * mask.d


def _walk(mask: Mask) -> int:
    """Count Algorithm 5 block by block.

    Q, O, l, m go in and O, l, m out for each nonzero block.
    """
    moved = _floor(mask)
    for i, _ in mask.nonzero():
        rows = min(mask.n, (i + 1) * mask.rows) - i * mask.rows
        moved += rows * (2 * mask.d + 2) + rows * (mask.d + 2)
    return moved


def _walked() -> list[Comparison]:
    rows: list[Comparison] = []
    generator = np.random.default_rng(0)
    for _ in range(60):
        mask = Mask(*(int(generator.integers(1, high)) for high in (60, 9, 20, 20, 5, 5)))
        rows.append(Comparison("b", str(mask), _walk(mask), _exact(mask)))
    return rows


def _full() -> list[Comparison]:
    rows: list[Comparison] = []
    for n, d, block in ((100, 8, 16), (1024, 64, 48)):
        mask = Mask(n, d, block, block, -(-n // block), 1)
        rows.append(Comparison("b", str(mask), flash1.counts(False).total_elements(mask.values), _exact(mask)))
    return rows


def _judge_theta() -> Part:
    """Check the count against N d + s N^2 d^2 / M with the paper's B_c.

    T_c is from N d / M to 4 N d / M + 1 per whole row.
    """
    ratios: list[tuple[str, float]] = []
    for n in (2**7, 2**9):
        for d in (16, 64):
            for memory in (d, d * d, 4 * d * d, n * d // 4):
                columns = -(-memory // (4 * d))
                for window in (1, 4, 16):
                    mask = Mask(n, d, min(columns, d), columns, window, 1)
                    ratios.append((f"M={memory} {mask}", _exact(mask) / (n * d + mask.share * (n * d) ** 2 / memory)))
    return judge_bounds("c", "exact elements in units of N d + s N^2 d^2 / M", ratios, low=2.9, high=20)
