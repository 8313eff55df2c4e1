"""The papers' algorithms executed through a memory that counts every element.

Every element moved is counted.

Written from the papers' lines alone, without formulas of ioaware. Causal loops are derived from the mask. Each walk computes
attention, so that a missing step shows in the output.
"""

# ruff: noqa: E741 - l is the papers' letter
from __future__ import annotations

from dataclasses import dataclass, field
from math import isqrt
from typing import Any

import numpy as np

WIDTHS = ("inputs", "fp32")  # the dtype of Q, K, V, O and P; that of S and of the statistics


@dataclass
class SlowMemory:
    """Named matrices that count the elements read and written, by width."""

    arrays: dict[str, np.ndarray] = field(default_factory=dict)
    width: dict[str, str] = field(default_factory=dict)
    reads: dict[str, int] = field(default_factory=lambda: dict.fromkeys(WIDTHS, 0))
    writes: dict[str, int] = field(default_factory=lambda: dict.fromkeys(WIDTHS, 0))
    extra: dict[str, int] = field(default_factory=lambda: dict.fromkeys(WIDTHS, 0))
    flops: int = 0

    def place(self, name: str, array: np.ndarray) -> None:
        """Add an input, which exists before the algorithm starts and is not counted."""
        self.arrays[name], self.width[name] = array, "inputs"

    def allocate(self, name: str, *shape: int, width: str = "inputs", output: bool = False) -> None:
        """Allocate a result, NaN until written.

        A read of unwritten elements then shows.
        """
        self.arrays[name], self.width[name] = np.full(shape, np.nan), width
        if not output:
            self.extra[width] += int(np.prod(shape))

    def read(self, name: str, *index: slice) -> np.ndarray:
        part = self.arrays[name][index].copy()
        self.reads[self.width[name]] += part.size
        return part

    def write(self, name: str, value: Any, *index: slice) -> None:
        self.arrays[name][index] = value
        self.writes[self.width[name]] += self.arrays[name][index].size

    def dot(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        self.flops += 2 * a.shape[0] * a.shape[1] * b.shape[1]
        return a @ b

    @property
    def elements(self) -> int:
        return sum(self.reads.values()) + sum(self.writes.values())


ALL = slice(None)


def blocks(length: int, block: int) -> list[slice]:
    """Return blocks of `block` rows, the last one ragged."""
    return [slice(start, min(start + block, length)) for start in range(0, length, block)]


def visible(n: int, n_k: int, causal: bool) -> np.ndarray:
    """Return which keys each query sees.

    Under a causal mask the last query sees the last key.
    """
    return np.arange(n_k)[None, :] <= np.arange(n)[:, None] + (n_k - n) if causal else np.ones((n, n_k), bool)


def apply_mask(s: np.ndarray, see: np.ndarray) -> np.ndarray:
    return np.where(see, s, -np.inf)


def reference(q: np.ndarray, k: np.ndarray, v: np.ndarray, causal: bool) -> np.ndarray:
    """Return softmax(Q K^T) V. A row that sees no key is zeros."""
    return _softmax(apply_mask(q @ k.T, visible(len(q), len(k), causal))) @ v


def _softmax(s: np.ndarray) -> np.ndarray:
    m = s.max(axis=1, keepdims=True)
    p = np.exp(s - np.where(np.isinf(m), 0, m))
    total = p.sum(axis=1, keepdims=True)
    return p / np.where(total == 0, 1, total)


def memory_with(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> SlowMemory:
    memory = SlowMemory()
    for name, array in (("Q", q), ("K", k), ("V", v)):
        memory.place(name, array)
    memory.allocate("O", len(q), q.shape[1], output=True)
    return memory


def idealised(memory: SlowMemory, causal: bool) -> None:
    """Algorithm 0: each matrix is transferred once per line."""
    n, n_k = len(memory.arrays["Q"]), len(memory.arrays["K"])
    memory.allocate("S", n, n_k)
    memory.allocate("P", n, n_k)
    s = memory.dot(memory.read("Q", ALL), memory.read("K", ALL).T)  # line 1
    memory.write("S", apply_mask(s, visible(n, n_k, causal)), ALL)
    memory.write("P", _softmax(memory.read("S", ALL)), ALL)  # line 2
    memory.write("O", memory.dot(memory.read("P", ALL), memory.read("V", ALL)), ALL)  # line 3


def standard(memory: SlowMemory, b_r: int, b_c: int, causal: bool, row_reads: int) -> None:
    """Algorithm 0 with tiled products.

    S is computed tile by tile with all of d, P row by row, O by row panels.
    """
    n, n_k = len(memory.arrays["Q"]), len(memory.arrays["K"])
    memory.allocate("S", n, n_k, width="fp32")
    memory.allocate("P", n, n_k)
    see = visible(n, n_k, causal)
    for i in blocks(n, b_r):
        for j in blocks(n_k, b_c):
            s = memory.dot(memory.read("Q", i), memory.read("K", j).T)
            memory.write("S", apply_mask(s, see[i, j]), i, j)
    for row in blocks(n, 1):
        for _ in range(row_reads - 1):  # a row that does not fit on chip is read once more for its statistics
            memory.read("S", row)
        memory.write("P", _softmax(memory.read("S", row)), row)
    for i in blocks(n, b_r):
        o = np.zeros((i.stop - i.start, memory.arrays["V"].shape[1]))
        for j in blocks(n_k, b_c):
            o += memory.dot(memory.read("P", i, j), memory.read("V", j))
        memory.write("O", o, i)


def row_panels(memory: SlowMemory, b_r: int, causal: bool) -> None:
    """Algorithm 0 with panels of whole rows of S, all matrices as wide as the inputs."""
    n, n_k = len(memory.arrays["Q"]), len(memory.arrays["K"])
    memory.allocate("S", n, n_k)
    memory.allocate("P", n, n_k)
    for i in blocks(n, b_r):
        s = memory.dot(memory.read("Q", i), memory.read("K", ALL).T)
        memory.write("S", apply_mask(s, visible(n, n_k, causal)[i]), i)
    for i in blocks(n, b_r):
        memory.write("P", _softmax(memory.read("S", i)), i)
    for i in blocks(n, b_r):
        memory.write("O", memory.dot(memory.read("P", i), memory.read("V", ALL)), i)


def square_tiling(memory: SlowMemory, side: int) -> None:
    """Saha and Ye, Algorithm 1: square tiles in all three dimensions.

    exp is without the maximum.
    """
    n, d = memory.arrays["Q"].shape
    n_k = len(memory.arrays["K"])
    memory.allocate("A", n, n_k)
    memory.allocate("sums", n, 1)
    for i in blocks(n, side):
        sums = np.zeros((i.stop - i.start, 1))
        for j in blocks(n_k, side):
            a = np.zeros((i.stop - i.start, j.stop - j.start))
            for k in blocks(d, side):
                a += memory.dot(memory.read("Q", i, k), memory.read("K", j, k).T)
            memory.write("A", np.exp(a), i, j)
            sums += np.exp(a).sum(axis=1, keepdims=True)
        memory.write("sums", sums, i)
    for i in blocks(n, side):
        sums = memory.read("sums", i)
        for k in blocks(d, side):
            o = np.zeros((i.stop - i.start, k.stop - k.start))
            for j in blocks(n_k, side):
                o += memory.dot(memory.read("A", i, j), memory.read("V", j, k))
            memory.write("O", o / sums, i, k)


def flash1(memory: SlowMemory, b_r: int, b_c: int, causal: bool) -> None:
    """FlashAttention, Algorithm 1, line by line.

    A causal loop starts at the first row block that sees a key of the column block.
    """
    n, n_k = len(memory.arrays["Q"]), len(memory.arrays["K"])
    see = visible(n, n_k, causal)
    memory.allocate("l", n, 1, width="fp32")
    memory.allocate("m", n, 1, width="fp32")
    memory.write("O", 0.0, ALL)  # line 2
    memory.write("l", 0.0, ALL)
    memory.write("m", -np.inf, ALL)
    for j in blocks(n_k, b_c):  # line 5
        k, v = memory.read("K", j), memory.read("V", j)  # line 6
        started = False
        for i in blocks(n, b_r):  # line 7
            started = started or bool(see[i, j].any())
            if not started:
                continue
            q, o = memory.read("Q", i), memory.read("O", i)  # line 8
            l, m = memory.read("l", i), memory.read("m", i)
            s = apply_mask(memory.dot(q, k.T), see[i, j])  # line 9
            m_tile = s.max(axis=1, keepdims=True)  # line 10
            p = np.exp(s - np.where(np.isinf(m_tile), 0, m_tile))
            l_tile = p.sum(axis=1, keepdims=True)
            m_new = np.maximum(m, m_tile)  # line 11
            base = np.where(np.isinf(m_new), 0, m_new)
            old, new = np.exp(m - base), np.exp(m_tile - base)
            l_new = old * l + new * l_tile
            scaled = old * l * o + new * memory.dot(p, v)
            memory.write("O", scaled / np.where(l_new == 0, 1, l_new), i)  # line 12
            memory.write("l", l_new, i)  # line 13
            memory.write("m", m_new, i)


def flash2(memory: SlowMemory, b_r: int, b_c: int, causal: bool) -> None:
    """FlashAttention-2, Algorithm 1, line by line.

    A causal loop stops after the last column block that the row block sees.
    """
    n, n_k = len(memory.arrays["Q"]), len(memory.arrays["K"])
    see = visible(n, n_k, causal)
    memory.allocate("L", n, 1, width="fp32")
    for i in blocks(n, b_r):  # line 3
        q = memory.read("Q", i)  # line 4
        o = np.zeros(q.shape)  # line 5
        l, m = np.zeros((len(q), 1)), np.full((len(q), 1), -np.inf)
        seen = [number for number, j in enumerate(blocks(n_k, b_c)) if see[i, j].any()]
        for j in blocks(n_k, b_c)[: seen[-1] + 1 if seen else 0]:  # line 6
            k, v = memory.read("K", j), memory.read("V", j)  # line 7
            s = apply_mask(memory.dot(q, k.T), see[i, j])  # line 8
            m_new = np.maximum(m, s.max(axis=1, keepdims=True))  # line 9
            base = np.where(np.isinf(m_new), 0, m_new)
            p = np.exp(s - base)
            l = np.exp(m - base) * l + p.sum(axis=1, keepdims=True)
            o = np.exp(m - base) * o + memory.dot(p, v)  # line 10
            m = m_new
        memory.write("O", o / np.where(l == 0, 1, l), i)  # lines 12, 14
        with np.errstate(divide="ignore"):
            memory.write("L", m + np.log(l), i)  # lines 13, 15


def largest_square(memory_elements: int) -> int:
    """Return Saha and Ye's tile side for M elements."""
    return isqrt(memory_elements // 4)
