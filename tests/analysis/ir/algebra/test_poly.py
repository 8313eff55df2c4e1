"""Interned atoms of polynomials: equal atoms are one object while they are in use."""

from __future__ import annotations

import gc

from ioaware.analysis.ir.algebra import poly as module
from ioaware.analysis.ir.algebra.poly import Floor, Symbol, Unknown, poly


def test_equal_atoms_are_one_object() -> None:
    n = Symbol("n")
    assert Symbol("n") is n
    assert Symbol("n", poly(1)) is not n
    assert Floor(poly(n), poly(8)) is Floor(poly(Symbol("n")), poly(8))
    assert poly(n) + poly(Symbol("n")) == poly(n) * 2


def test_a_truth_value_is_not_the_number_of_the_same_name() -> None:
    truth, number = Unknown("x", "data", truth=True), Unknown("x", "data")
    assert poly(truth) * poly(truth) == poly(truth)
    assert poly(number) * poly(number) != poly(number)


def test_unused_atoms_are_released() -> None:
    before = len(module._atoms)
    kept = [Symbol(f"only_here_{at}") for at in range(100)]
    assert len(module._atoms) == before + len(kept)
    kept.clear()
    gc.collect()
    assert len(module._atoms) <= before
