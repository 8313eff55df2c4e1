"""No algorithm moves fewer elements than the lower bounds.

This holds with any blocks that fit in M.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from ioaware.analysis.formulas.evaluate import compile_expression, evaluate
from ioaware.analysis.theory.counting import LIVE_SET, M
from ioaware.analysis.theory.counts import flash1, flash2, standard
from ioaware.analysis.theory.lower_bounds import (
    BOUNDS,
    EXPLICIT,
    SAHA_YE,
    SAHA_YE_LARGE,
    SAHA_YE_SMALL,
    THEOREM2_STANDARD,
    compulsory,
    leading_term,
    lower_bound_bytes,
    lower_bound_elements,
    saha_ye,
    visible_pairs,
)

SIZES = ((64, 64), (512, 512), (300, 1000), (1000, 300), (8192, 8192), (2**17, 2**17))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("head_dim", [2, 16, 64])
def test_no_execution_that_fits_in_m_undercuts_the_bound(head_dim: int, causal: bool) -> None:
    """Each power of two for one block, with the largest other block for which W9 <= M."""
    totals = [module.counts(causal).reads.count + module.counts(causal).writes.count for module in (flash1, flash2)]
    one = 2 ** np.arange(12)
    checked = 0
    for n, n_k in SIZES[:5] if causal else SIZES:
        for memory in (2**power for power in range(5, 27, 3)):
            largest_b_r = (memory - 2 * head_dim * one) // (2 * head_dim + one + 2)
            largest_b_c = (memory - 2 * head_dim * one - 2 * one) // (2 * head_dim + one)
            b_r, b_c = np.concatenate([largest_b_r, one]), np.concatenate([one, largest_b_c])
            possible = (b_r > 0) & (b_c > 0)
            if not possible.any():
                continue
            values = {"N": n, "N_k": n_k, "d": head_dim, "M": memory, "B_r": b_r[possible], "B_c": b_c[possible]}
            assert compile_expression(LIVE_SET)(values).max() <= memory
            bound = lower_bound_elements({"N": n, "N_k": n_k, "d": head_dim, "M": memory}, causal=causal)
            for total in totals:
                assert bound <= compile_expression(total)(values).min(), (n, n_k, memory)
                checked += 1
    assert checked >= 40


def test_the_bound_is_not_vacuous() -> None:
    """FlashAttention-2 is within 4 (1 + 4 d^2/M) of the explicit bound for large N.

    This is with the best blocks.
    """
    n, head_dim, memory = 2**17, 64, 2**16
    bound = lower_bound_elements({"N": n, "N_k": n, "d": head_dim, "M": memory})
    leading = n**2 * head_dim**2 / memory
    assert 0.79 < bound / leading < 0.81
    best = min(
        flash2.counts(False).total_elements({"N": n, "N_k": n, "d": head_dim, "B_r": rows, "B_c": 1})
        for rows in range(1, 520)
        if evaluate(LIVE_SET, {"d": head_dim, "B_r": rows, "B_c": 1}) <= memory
    )
    assert best / leading == pytest.approx(4.13, rel=0.02)


def test_square_tiling_respects_the_bound_below_d_squared() -> None:
    """It moves less than FlashAttention there.

    So the standard half of Theorem 2 needs M = Omega(d^2).
    """
    n, head_dim = 4096, 128
    for share, tiled, flash in ((4, 17.0, 18.4), (16, 33, 128)):
        memory = head_dim**2 // share
        values = {"N": n, "N_k": n, "d": head_dim, "M": memory}
        side = int((memory // 4) ** 0.5)
        found = standard.square_tiling().total_elements({**values, "B_r": side})
        assert found >= lower_bound_elements(values)
        assert found / n**2 == pytest.approx(tiled, rel=0.06)
        assert flash > tiled
        assert leading_term(SAHA_YE, values) == leading_term(SAHA_YE_SMALL, values) > leading_term(THEOREM2_STANDARD, values)


def test_every_algorithm_moves_at_least_the_compulsory_bytes() -> None:
    for causal, (n, n_k), module in itertools.product((False, True), SIZES[:5], (standard, flash1, flash2)):
        values = {"N": n, "N_k": n_k, "d": 16, "B_r": 10**6, "B_c": 10**6, "c": 1}
        counts, least = module.counts(causal), compulsory(causal)
        assert evaluate(least.reads.count, values) <= evaluate(counts.reads.count, values)
        assert evaluate(least.writes.count, values) <= evaluate(counts.writes.count, values)
    square = {"N": 100, "N_k": 100, "d": 16}
    assert evaluate(compulsory().reads.count + compulsory().writes.count, square) == 4 * 100 * 16


@pytest.mark.parametrize(("n", "n_k"), [(1, 1), (5, 5), (3, 9), (9, 3), (1, 7), (7, 1)])
def test_visible_pairs_are_those_of_the_mask(n: int, n_k: int) -> None:
    seen = sum(key <= query + n_k - n for query in range(n) for key in range(n_k))
    assert evaluate(visible_pairs(causal=True), {"N": n, "N_k": n_k}) == seen
    assert evaluate(visible_pairs(), {"N": n, "N_k": n_k}) == n * n_k


def test_saha_ye_regimes_cross_at_d_squared() -> None:
    values = {"N": 4096, "d": 64}
    for memory in (64, 64**2 - 1, 64**2, 64**2 + 1, 2**20):
        at = {**values, "M": memory}
        smallest = min(leading_term(SAHA_YE_SMALL, at), leading_term(SAHA_YE_LARGE, at))
        assert leading_term(SAHA_YE, at) == smallest == leading_term(saha_ye(memory, 64), at)
    assert leading_term(SAHA_YE_SMALL, {**values, "M": 64**2}) == leading_term(SAHA_YE_LARGE, {**values, "M": 64**2})


def test_more_heads_and_processors() -> None:
    values = {"N": 2**16, "N_k": 2**16, "d": 64, "M": 2**16, "e": 2}
    one = lower_bound_elements(values)
    assert lower_bound_elements(values, heads=8) > 8 * one  # only the very last part may be cheap
    assert lower_bound_elements(values, processors=5) == one - 4 * values["M"]
    assert lower_bound_elements(values, processors=10**6) == 4 * 2**16 * 64  # never below compulsory
    assert lower_bound_bytes(values) == 2 * one


def test_every_bound_has_a_condition_and_a_source() -> None:
    assert all(bound.condition and "arXiv" in bound.source for bound in BOUNDS)
    assert "Omega(d^2)" in THEOREM2_STANDARD.condition
    assert EXPLICIT.constant
    assert M in EXPLICIT.elements.free_symbols


@pytest.mark.parametrize(("n", "head_dim", "memory"), [(4096, 64, 2**14), (65536, 128, 2**16), (2048, 64, 777)])
def test_the_explicit_bound_shown_is_the_one_evaluated(n: int, head_dim: int, memory: int) -> None:
    """This holds where the bound exceeds the compulsory traffic.

    The two are equal up to the rounding of its quotient.
    """
    values = {"N": n, "N_k": n, "d": head_dim, "M": memory}
    assert 0 <= lower_bound_elements(values) - leading_term(EXPLICIT, values) < 1
