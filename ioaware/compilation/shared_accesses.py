"""Count accesses to shared memory of kernels that reduce rows, from TTGIR.

TTGIR has no shared access for a reduction. Triton lowers a reduction over a row that W warps hold: each warp stores a partial
result, the first warp loads all of them at once and stores the result, and every warp loads it. One warp needs none of this.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_LAYOUT = re.compile(r"^(#\w+) = #ttg\.blocked<\{.*?warpsPerCTA = \[(\d+)\]", re.MULTILINE)
_REDUCTION = re.compile(r"^\}\) : \(tensor<\d+xf32, (#\w+)>\) -> f32")
_OTHERS = re.compile(r"ttg\.(local_\w+|convert_layout|async_\w+)|tt\.(scan|dot|gather|histogram|atomic\w*)|ttng\.\w+")


@dataclass(frozen=True, slots=True)
class RowReduction:
    """A reduction of a row to a number: the warps that hold it, and the loops around."""

    warps: int
    loops: int

    @property
    def stores(self) -> int:
        """Accesses of warps that store to shared memory, each time it is executed."""
        return self.warps + 1 if self.warps > 1 else 0

    @property
    def loads(self) -> int:
        """Accesses of warps that load from shared memory, each time it is executed."""
        return self.stores


def row_reductions(ttgir: str) -> tuple[RowReduction, ...]:
    """Return the reductions of a kernel, in their order.

    Raises `ValueError` for a kernel with another use of shared memory, or with a reduction to a tensor.
    """
    if other := _OTHERS.search(ttgir):
        raise ValueError(f"{other[0]} may use shared memory")
    warps = {name: int(count) for name, count in _LAYOUT.findall(ttgir)}
    loops: list[int] = []
    found: list[RowReduction] = []
    for line in ttgir.splitlines():
        text = line.lstrip()
        indent = len(line) - len(text)
        if "scf.for" in text or "scf.while" in text:
            loops.append(indent)
        elif loops and text.startswith("}") and indent == loops[-1]:
            loops.pop()
        elif match := _REDUCTION.match(text):
            found.append(RowReduction(warps[match[1]], len(loops)))
    if len(found) != ttgir.count('"tt.reduce"'):
        raise ValueError("a reduction that is not of a row to a float32")
    return tuple(found)
