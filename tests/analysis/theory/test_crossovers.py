"""Each crossover condition equals the comparison of the two counts.

This holds at every small size.
"""

from __future__ import annotations

import numpy as np
import pytest
from sympy import Expr, Integer, Symbol

from ioaware.analysis.formulas.evaluate import compile_expression, evaluate
from ioaware.analysis.theory.counting import N, N_k, T_c, T_r
from ioaware.analysis.theory.counts import flash1, flash2, standard
from ioaware.analysis.theory.crossovers import (
    FLASH1_MEMORY,
    FLASH2_MEMORY,
    first_flash1_memory,
    first_flash2_memory,
    flash1_beats_standard,
    flash1_beats_standard_bytes,
    flash2_beats_standard,
)

GRID = {"N": np.arange(1, 80)[:, None, None], "d": np.arange(1, 24)[None, :, None], "passes": np.arange(1, 40)[None, None, :]}


def wins(total: Expr) -> np.ndarray:
    """Return where the count is below that of idealised standard attention.

    `passes` stands for the count's T_c or T_r.
    """
    passes = Symbol("passes", integer=True, positive=True)
    ideal = standard.idealised()
    difference = ideal.reads.count + ideal.writes.count - total.subs({T_c: passes, T_r: passes})
    return compile_expression(difference.subs(N_k, N))(GRID) > 0


@pytest.mark.parametrize(("module", "condition"), [(flash1, flash1_beats_standard), (flash2, flash2_beats_standard)])
def test_the_condition_is_the_comparison(module: object, condition: object) -> None:
    counts = module.counts(False)
    found = wins(counts.reads.count + counts.writes.count)
    assert found.any()
    assert not found.all()
    for (n, head_dim, passes), win in np.ndenumerate(found):
        assert condition(n + 1, head_dim + 1, passes + 1) == win


def test_the_condition_in_bytes_is_the_comparison_in_bytes() -> None:
    """Standard attention with one read per row and one block.

    S is in fp32, and P, Q, K, V and O are in fp16.
    """
    for n in range(1, 300, 7):
        for head_dim in (1, 16, 64):
            for passes in (1, 2, 5):
                if passes > n:
                    continue
                values = {"N": n, "N_k": n, "d": head_dim, "B_r": n, "B_c": n, "c": 1, "e": 2}
                ours = standard.counts(False)
                standard_bytes = evaluate(ours.reads.bytes + ours.writes.bytes, values)
                counts = flash1.counts(False)
                flash_bytes = evaluate((counts.reads.bytes + counts.writes.bytes).subs(T_c, Integer(passes)), values)
                condition = flash1_beats_standard_bytes(
                    n, head_dim, passes, input_bytes=2, output_bytes=2, score_bytes=4, probability_bytes=2
                )
                assert condition == (flash_bytes < standard_bytes)


@pytest.mark.parametrize(
    ("first", "module", "block"), [(first_flash1_memory, flash1, "B_c"), (first_flash2_memory, flash2, "B_r")]
)
def test_the_first_memory_is_where_the_counts_cross(first: object, module: object, block: str) -> None:
    counts, ideal = module.counts(False), standard.idealised()
    difference = ideal.reads.count + ideal.writes.count - counts.reads.count - counts.writes.count
    for n in (1, 5, 17, 64, 100, 513):
        for head_dim in (4, 16, 32):
            memories = np.arange(1, 4 * head_dim * n + 1)
            values = {"N": n, "N_k": n, "d": head_dim, block: -(-memories // (4 * head_dim))}
            better = compile_expression(difference)(values) > 0
            expected = int(memories[better.argmax()]) if better.any() else None
            assert first(n, head_dim) == expected


def test_as_n_grows_the_first_memory_is_the_asymptotic_one() -> None:
    """Within one block of 3 d^2 + 4 d and 2 d^2.

    For d = 64 the theory gives 12,289 to 13,057.
    """
    for head_dim in (64, 128):
        asymptotic = [evaluate(formula, {"d": head_dim}) for formula in (FLASH1_MEMORY, FLASH2_MEMORY)]
        found = [first(2**20, head_dim) for first in (first_flash1_memory, first_flash2_memory)]
        for value, limit in zip(found, asymptotic, strict=True):
            assert abs(value - limit) <= 4 * head_dim
    assert 12_289 <= first_flash1_memory(2**20, 64) <= 13_057
    assert first_flash1_memory(33, 64) is None
    assert first_flash1_memory(34, 64) is not None
