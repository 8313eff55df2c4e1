"""Numbers drawn in each call, on which memory accesses depend or do not."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

from ioaware.derivation.derive import derive
from ioaware.derivation.derived import Derived
from ioaware.targets.target import load_target
from tests.support.targets import dropouts


def derived(function: Any, **params: Any) -> Derived:
    target = load_target(function)
    return derive(target, target.resolve(params), machine_code=False)


@pytest.mark.parametrize("seed", list(dropouts.SEEDS))
def test_a_seed_of_each_call_leaves_sizes_symbolic(seed: str) -> None:
    result = derived(dropouts.dropout, seed=seed)
    assert result.exact
    assert result.requested
    assert result.requested.read_formula == result.requested.write_formula == "4*n"


@pytest.mark.parametrize("seed", list(dropouts.SEEDS))
def test_a_drawn_number_that_masks_is_not_exact(seed: str) -> None:
    result = derived(dropouts.first, seed=seed)
    assert not result.exact
    assert any("draws random numbers" in note for note in result.notes)


@pytest.mark.parametrize("compiler", [False, True])
def test_a_seed_that_host_code_sets_is_exact(*, compiler: bool) -> None:
    """Importing torch's compiler replaces `torch.manual_seed`."""
    if compiler:
        importlib.import_module("torch._dynamo")
    result = derived(dropouts.seeded_first)
    assert result.exact, result.notes
    assert result.requested
    assert result.requested.read_bytes == 4 * (42 + 7 + 42)


@pytest.mark.parametrize("function", [dropouts.dropout_of_a_random_half, dropouts.twice_if_wide])
def test_a_drawn_branch_is_not_exact(function: Any) -> None:
    """Also one on the type of a seed, which is as wide as its value needs."""
    assert not derived(function).exact


@pytest.mark.slow
def test_formulas_hold_at_other_sizes_where_other_seeds_are_drawn() -> None:
    assert derived(dropouts.dropout, seed="torch.randint").evaluate(n=777)["read_bytes"] == 4 * 777
