"""Kernels that data decide: derived, traced, and counted by loops."""

from __future__ import annotations

import pytest

from ioaware.derivation.derive import derive
from ioaware.targets.target import load_target
from ioaware.tracing.trace import trace
from tests.support.targets import ragged_kernels, sparse_kernels

TARGETS = {name: (module, count) for module in (sparse_kernels, ragged_kernels) for name, count in module.COUNTS.items()}


@pytest.mark.parametrize("name", TARGETS)
def test_derived_traced_and_counted(name: str) -> None:
    module, count = TARGETS[name]
    target = load_target(getattr(module, name))
    reads, writes, atomics = count()
    by_hand = {"read_bytes": 4 * reads, "write_bytes": 4 * writes, "atomic_bytes": 4 * atomics}
    traced = trace(target, target.resolve({})).requested
    assert {field: getattr(traced, field) or 0 for field in by_hand} == by_hand
    derived = derive(target, target.resolve({}), machine_code=False)
    assert {field: getattr(derived.requested, field) or 0 for field in by_hand} == by_hand
    assert derived.exact


def test_an_unrolled_search_has_a_short_formula() -> None:
    """Each step of the search doubles the expression of the place it reads."""
    target = load_target(sparse_kernels.searched)
    derived = derive(target, target.resolve({}), machine_code=False)
    assert len(str(derived.requested.read_formula)) < 2000
