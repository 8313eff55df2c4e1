"""Parts of an address that programs decide."""

from __future__ import annotations

from ioaware.analysis.ir.algebra.poly import ZERO, Sum, Symbol, poly
from ioaware.simulation.addresses.affine import outer_parts


def test_the_index_of_a_sum_is_no_part_of_its_program() -> None:
    """A sum over k to the loop's index i, of p k: p alone is the program's."""
    program, index, summed = Symbol("p", ZERO), Symbol("i", ZERO), Symbol("k", ZERO)
    value = poly(Sum(poly(program) * poly(summed), summed, ZERO, poly(index)))
    assert set(outer_parts(value, frozenset({index.key}))) == {poly(program)}
