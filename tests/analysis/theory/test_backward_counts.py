"""Backward counts equal element-by-element walks of Algorithms 3 and 4.

These walks give the gradients.
"""

# ruff: noqa: E741 - l is the papers' letter
from __future__ import annotations

import random

import numpy as np
import pytest
import sympy

from ioaware.analysis.formulas.evaluate import evaluate
from ioaware.analysis.theory.counting import N, N_k, T_c, d
from ioaware.analysis.theory.counts import flash1_backward, standard_backward
from ioaware.analysis.theory.crossovers import FLASH1_BACKWARD_MEMORY, flash1_backward_beats_standard
from tests.support.element_walk import ALL, SlowMemory, blocks


def softmax(s: np.ndarray) -> np.ndarray:
    p = np.exp(s - s.max(axis=1, keepdims=True))
    return p / p.sum(axis=1, keepdims=True)


def standard_walk(memory: SlowMemory) -> None:
    """Algorithm 3. P comes from the forward pass."""
    n, n_k = memory.arrays["P"].shape
    memory.allocate("dP", n, n_k)
    memory.allocate("dS", n, n_k)
    memory.write("dV", memory.dot(memory.read("P", ALL).T, memory.read("dO", ALL)), ALL)  # line 1
    memory.write("dP", memory.dot(memory.read("dO", ALL), memory.read("V", ALL).T), ALL)  # line 2
    p, dp = memory.read("P", ALL), memory.read("dP", ALL)  # line 3
    memory.write("dS", p * (dp - (p * dp).sum(axis=1, keepdims=True)), ALL)
    memory.write("dQ", memory.dot(memory.read("dS", ALL), memory.read("K", ALL)), ALL)  # line 4
    memory.write("dK", memory.dot(memory.read("dS", ALL).T, memory.read("Q", ALL)), ALL)  # line 5


def flash1_walk(memory: SlowMemory, b_r: int, b_c: int) -> None:
    """Algorithm 4, line by line, without dropout. l and m come from the forward pass."""
    for name in ("dQ", "dK", "dV"):
        memory.write(name, 0.0, ALL)  # line 5
    for j in blocks(len(memory.arrays["K"]), b_c):  # line 6
        k, v = memory.read("K", j), memory.read("V", j)  # line 7
        dk, dv = np.zeros(k.shape), np.zeros(v.shape)  # line 8
        for i in blocks(len(memory.arrays["Q"]), b_r):  # line 9
            q, o, do, dq, l, m = (memory.read(name, i) for name in ("Q", "O", "dO", "dQ", "l", "m"))  # line 10
            p = np.exp(memory.dot(q, k.T) - m) / l  # lines 11 to 13
            dv += memory.dot(p.T, do)  # line 16
            dp = memory.dot(do, v.T)  # line 17
            ds = p * (dp - (do * o).sum(axis=1, keepdims=True))  # lines 19, 20
            memory.write("dQ", dq + memory.dot(ds, k), i)  # line 21
            dk += memory.dot(ds.T, q)  # line 22
        memory.write("dK", dk, j)  # line 24
        memory.write("dV", dv, j)


def forward_memory(n: int, n_k: int, head_dim: int, seed: int) -> SlowMemory:
    dice, memory = np.random.default_rng(seed), SlowMemory()
    q, k, v = (dice.normal(size=(rows, head_dim)) for rows in (n, n_k, n_k))
    s = q @ k.T
    m = s.max(axis=1, keepdims=True)
    arrays = {"Q": q, "K": k, "V": v, "P": softmax(s), "O": softmax(s) @ v, "dO": dice.normal(size=(n, head_dim))}
    arrays |= {"m": m, "l": np.exp(s - m).sum(axis=1, keepdims=True)}
    for name, array in arrays.items():
        memory.place(name, array)
    memory.width["l"] = memory.width["m"] = "fp32"
    for name, rows in (("dQ", n), ("dK", n_k), ("dV", n_k)):
        memory.allocate(name, rows, head_dim, output=True)
    return memory


def gradients(memory: SlowMemory) -> dict[str, np.ndarray]:
    """Return the gradients by the chain rule through softmax's Jacobian.

    The Jacobian is diag(p) - p p^T, taken row by row.
    """
    q, k, v, p, do = (memory.arrays[name] for name in ("Q", "K", "V", "P", "dO"))
    dp = do @ v.T
    ds = np.stack([(np.diag(row) - np.outer(row, row)) @ grad for row, grad in zip(p, dp, strict=True)])
    return {"dQ": ds @ k, "dK": ds.T @ q, "dV": p.T @ do}


@pytest.mark.parametrize("name", ["standard", "flash1"])
def test_backward_counts_equal_the_walk(name: str) -> None:
    counts = standard_backward.idealised() if name == "standard" else flash1_backward.counts(False)
    for seed in range(200):
        dice = random.Random(seed)
        n, n_k, head_dim, b_r, b_c = (dice.randint(1, high) for high in (30, 30, 10, 33, 33))
        memory = forward_memory(n, n_k, head_dim, seed)
        if name == "standard":
            standard_walk(memory)
        else:
            flash1_walk(memory, b_r, b_c)
        values = {"N": n, "N_k": n_k, "d": head_dim, "B_r": b_r, "B_c": b_c}
        for elements, walked in ((counts.reads, memory.reads), (counts.writes, memory.writes), (counts.extra, memory.extra)):
            assert {"inputs": evaluate(elements.inputs, values), "fp32": evaluate(elements.fp32, values)} == walked, values
        assert evaluate(counts.flops, values) == memory.flops
        for gradient, expected in gradients(memory).items():
            np.testing.assert_allclose(memory.arrays[gradient], expected, rtol=1e-8, atol=1e-10)


def test_backward_formulas_are_those_of_the_paper() -> None:
    def total(counts: object) -> sympy.Expr:
        return sympy.expand((counts.reads.count + counts.writes.count).subs(T_c, sympy.Symbol("T_c")).subs(N_k, N))

    assert total(standard_backward.idealised()) == sympy.expand(7 * N**2 + 8 * N * d)
    assert total(flash1_backward.counts(False)) == sympy.expand(7 * N * d + sympy.Symbol("T_c") * (5 * N * d + 2 * N))


def test_backward_crossover_is_the_comparison() -> None:
    for n in range(1, 120):
        for head_dim in (1, 4, 16):
            for b_c in {1, 2, 3, n // 2 + 1, n}:
                values = {"N": n, "N_k": n, "d": head_dim, "B_c": b_c, "B_r": 1}
                wins = flash1_backward.counts(False).total_elements(values) < standard_backward.idealised().total_elements(
                    values
                )
                assert flash1_backward_beats_standard(n, head_dim, -(-n // b_c)) == wins
    assert float(FLASH1_BACKWARD_MEMORY.subs(d, 64)) / 64**2 == pytest.approx(2.86, rel=0.01)
