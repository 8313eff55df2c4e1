"""Counts equal element-by-element walks of their algorithms.

This is so for ragged and masked sizes too.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from types import ModuleType

import numpy as np
import pytest
import sympy

from ioaware.analysis.formulas.evaluate import compile_expression, evaluate
from ioaware.analysis.theory.counting import LIVE_SET, B_c, B_r, Counts, Elements, M, N, N_k, T_r, d, e
from ioaware.analysis.theory.counts import flash1, flash2, standard
from tests.support import element_walk

CONFIGURATIONS = 600
NUMERIC = 200  # of them, compared with the output too


def draw(seed: int) -> dict[str, int]:
    """Return random sizes and blocks, most of them ragged.

    N_k differs from N in half of the draws, in both directions.
    """
    dice = random.Random(seed)
    n, head_dim = dice.randint(1, 40), dice.randint(1, 12)
    n_k = n if dice.random() < 0.5 else dice.randint(1, 40)
    values = {"N": n, "N_k": n_k, "d": head_dim, "B_r": dice.randint(1, 45), "B_c": dice.randint(1, 45), "M": 0}
    if dice.random() < 0.4:  # the paper's blocks for some M, Algorithm 1, line 1
        values["M"] = dice.randint(1, 6 * head_dim * max(n, n_k))
        values["B_c"] = -(-values["M"] // (4 * head_dim))
        values["B_r"] = min(values["B_c"], head_dim)
    return values


def inputs(values: dict[str, int], seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    dice = np.random.default_rng(seed)
    n, n_k, head_dim = values["N"], values["N_k"], values["d"]
    return dice.normal(size=(n, head_dim)), dice.normal(size=(n_k, head_dim)), dice.normal(size=(n_k, head_dim))


def assert_equal(counts: Counts, memory: element_walk.SlowMemory, values: dict[str, int]) -> None:
    """Compare reads, writes, extra memory by width, and FLOPs."""

    def by_width(elements: Elements) -> dict[str, int]:
        return {"inputs": evaluate(elements.inputs, values), "fp32": evaluate(elements.fp32, values)}

    assert by_width(counts.reads) == memory.reads, values
    assert by_width(counts.writes) == memory.writes, values
    assert by_width(counts.extra) == memory.extra, values
    assert evaluate(counts.flops, values) == memory.flops, values
    assert counts.total_elements(values) == memory.elements


WALKS: dict[str, tuple[Callable[[bool], Counts], Callable[[element_walk.SlowMemory, dict[str, int], bool], None]]] = {
    "flash1": (flash1.counts, lambda memory, v, causal: element_walk.flash1(memory, v["B_r"], v["B_c"], causal)),
    "flash2": (flash2.counts, lambda memory, v, causal: element_walk.flash2(memory, v["B_r"], v["B_c"], causal)),
    "standard": (standard.counts, lambda memory, v, causal: element_walk.standard(memory, v["B_r"], v["B_c"], causal, v["c"])),
    "idealised": (lambda _: standard.idealised(), lambda memory, _, causal: element_walk.idealised(memory, causal)),
    "row panels": (
        lambda _: standard.row_panels(),
        lambda memory, v, causal: element_walk.row_panels(memory, v["B_r"], causal),
    ),
}


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("name", WALKS)
def test_counts_equal_the_walk(name: str, causal: bool) -> None:
    counts_of, walk_of = WALKS[name]
    counts = counts_of(causal)
    for seed in range(CONFIGURATIONS if name.startswith("flash") else CONFIGURATIONS // 4):
        values = {**draw(seed), "c": 1 + seed % 2}
        q, k, v = inputs(values, seed)
        memory = element_walk.memory_with(q, k, v)
        walk_of(memory, values, causal)
        assert_equal(counts, memory, values)
        if seed < NUMERIC:
            np.testing.assert_allclose(memory.arrays["O"], element_walk.reference(q, k, v, causal), rtol=1e-9, atol=1e-12)


def test_square_tiling_equals_the_walk() -> None:
    for seed in range(100):
        values = draw(seed)
        values["B_r"] = element_walk.largest_square(random.Random(seed).randint(4, 400))
        q, k, v = inputs(values, seed)
        memory = element_walk.memory_with(q, k, v)
        element_walk.square_tiling(memory, values["B_r"])
        assert_equal(standard.square_tiling(), memory, values)
        np.testing.assert_allclose(memory.arrays["O"], element_walk.reference(q, k, v, causal=False), rtol=1e-9)


def test_the_draws_cover_the_hard_cases() -> None:
    """The draws have ragged blocks, N_k > N, N_k < N, and rows that see no key."""
    drawn = [draw(seed) for seed in range(CONFIGURATIONS)]
    for interesting in (
        lambda v: v["N"] % v["B_r"] and v["N_k"] % v["B_c"],
        lambda v: v["N_k"] > v["N"],
        lambda v: v["N_k"] < v["N"],
        lambda v: v["N"] - v["N_k"] >= v["B_r"],
        lambda v: v["B_r"] < v["B_c"] < v["N"],
        lambda v: v["B_c"] < v["B_r"] < v["N"],
        lambda v: v["M"] > 0,
    ):
        assert sum(bool(interesting(v)) for v in drawn) >= 30


def square(expr: sympy.Expr) -> sympy.Expr:
    return sympy.expand(expr.subs(N_k, N))


def total(counts: Counts) -> sympy.Expr:
    return counts.reads.count + counts.writes.count


def test_the_formulas_are_those_of_the_papers() -> None:
    T_c = sympy.ceiling(N / B_c)
    assert square(total(standard.idealised())) == sympy.expand(4 * N**2 + 4 * N * d)
    assert square(total(flash1.counts(False))) == sympy.expand(3 * N * d + 2 * N + T_c * (3 * N * d + 4 * N))
    assert square(total(flash2.counts(False))) == sympy.expand(2 * N * d + N + 2 * N * d * T_r)
    panels_less_flash2 = total(standard.row_panels()) - total(flash2.counts(False))
    assert square(panels_less_flash2) == 4 * N**2 - N


def test_flops_and_extra_memory_of_theorem_1() -> None:
    for module in (standard, flash1, flash2):
        assert module.counts(False).flops == 4 * N * N_k * d
    assert flash1.counts(True).extra.count == 2 * N
    assert flash2.counts(True).extra.count == N
    assert standard.counts(True).extra.count == 2 * N * N_k


@pytest.mark.parametrize(("head_dim", "constant"), [(64, 12.25), (128, 12.125)])
def test_the_leading_constant_of_algorithm_1(head_dim: int, constant: float) -> None:
    """12 (1 + 4/(3d)) N^2 d^2 / M with the paper's blocks, for large N."""
    counts, memory, n = flash1.counts(False), 8192 * head_dim, 2**24
    values = {"N": n, "N_k": n, "d": head_dim, "M": memory}
    values |= {name: evaluate(block, values) for name, block in counts.blocks.items()}
    leading = n**2 * head_dim**2 / memory
    assert counts.total_elements(values) / leading == pytest.approx(constant, rel=2e-3)
    assert constant == pytest.approx(12 * (1 + 4 / (3 * head_dim)))


def test_flash2_with_flash1s_row_block_does_not_depend_on_m() -> None:
    """Swapping the loops swaps the roles of the blocks.

    So the paper's rule for them must be swapped too.
    """
    reads_writes = square(total(flash2.counts(False))).subs(B_r, d)
    assert sympy.simplify(reads_writes - (2 * N * d + N + 2 * N * d * sympy.ceiling(N / d))) == 0
    rule = flash2.counts(False).blocks
    assert rule["B_r"] == flash1.counts(False).blocks["B_c"] == sympy.ceiling(M / (4 * d))


def test_causal_square_blocks_visit_half_the_tiles() -> None:
    """T (T + 1) / 2 tiles where the blocks divide N: N d + N d (T + 1) elements read."""
    for tiles in (1, 2, 5):
        values = {"N": 16 * tiles, "N_k": 16 * tiles, "d": 8, "B_r": 16, "B_c": 16}
        reads = evaluate(flash2.counts(True).reads.count, values)
        assert reads == values["N"] * 8 * (tiles + 2)
        assert evaluate(flash2.counts(True).flops, values) == 4 * 8 * 16 * 16 * tiles * (tiles + 1) // 2


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("module", [standard, flash1, flash2])
def test_counts_are_integers_and_grow_with_n(module: ModuleType, causal: bool) -> None:
    counts: Counts = module.counts(causal)
    sizes = np.array([1, 2, 3, 63, 64, 65, 127, 1000, 4095, 4096, 4097, 65_537])
    fixed = {"d": 64, "B_r": 64, "B_c": 32, "c": 1}
    for formula in (counts.reads.count, counts.writes.count, counts.flops):
        found = compile_expression(formula)({**fixed, "N": sizes, "N_k": sizes})
        assert np.all(np.diff(found) > 0)
    huge = {**fixed, "N": 2**20, "N_k": 2**20, "e": 2}
    assert evaluate(e * counts.reads.inputs, huge) > 0


def test_the_papers_blocks_exceed_m() -> None:
    """W9 <= M is false for all M < 8 d^2 + 8 d and true for all M >= 8 d^2 + 20 d."""
    for head_dim in (16, 64):
        blocks = flash1.counts(False).blocks
        for memory in (head_dim, head_dim**2, 8 * head_dim**2 + 8 * head_dim - 1, 8 * head_dim**2 + 20 * head_dim):
            values = {"d": head_dim, "M": memory}
            values |= {name: evaluate(block, values) for name, block in blocks.items()}
            assert (evaluate(LIVE_SET, values) <= memory) == (memory >= 8 * head_dim**2 + 20 * head_dim)
