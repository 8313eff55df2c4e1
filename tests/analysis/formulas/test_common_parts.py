"""Substitution of shared parts, and the search for them, are those of sympy."""

from __future__ import annotations

from typing import Any

import pytest
import sympy
from sympy import Symbol

from ioaware.analysis.formulas.common_parts import Substitution, count_parts, operations, parts_of

n, m, k = (Symbol(name, integer=True, positive=True) for name in "nmk")
shared: Any = sympy.Max(0, sympy.Min(m, sympy.ceiling(n / 64) - 3)) + m * n
FORMULAS: list[Any] = [
    shared,
    sympy.Sum(shared * k, (k, 0, n - 1)) + shared**2,
    sympy.Piecewise((shared, n > 7), (m, True)),
    sympy.Integer(4),
    m + 1,
]


@pytest.mark.parametrize("rule", [{n: 128 * n}, {n: n / 64, m: 3}, {m: n, n: m}, {sympy.ceiling(n / 64): k}, {}], ids=str)
def test_it_replaces_as_sympy_does(rule: dict[Any, Any]) -> None:
    rule = {old: sympy.sympify(new) for old, new in rule.items()}
    substitute = Substitution(rule)
    for formula in [*FORMULAS, *FORMULAS]:
        expected = formula.xreplace(rule)
        assert substitute(formula) == expected
        assert sympy.srepr(substitute(formula)) == sympy.srepr(expected)


def test_a_common_part_is_built_once() -> None:
    built: list[Any] = []

    class Counted(sympy.Function):
        @classmethod
        def eval(cls, *args: Any) -> None:
            built.append(args)

    part: Any = Counted(n)
    built.clear()
    substitute = Substitution({n: m})
    total = [substitute(formula) for formula in (part + 1, part * 2 + Counted(k), part**part)]
    assert total[0] == Counted(m) + 1
    assert built.count((m,)) <= 2  # here and by the assertion


def test_a_class_with_a_substitution_of_its_own_keeps_it() -> None:
    class Opaque(sympy.Function):
        def _xreplace(self, rule: Any) -> tuple[Any, bool]:
            return self, False

    formula: Any = Opaque(n) + n
    assert Substitution({n: m})(formula) == Opaque(n) + m


@pytest.mark.parametrize(
    "kinds", [(sympy.Min, sympy.Max), (sympy.Mul,), (sympy.Symbol,), (sympy.Sum, sympy.Piecewise)], ids=str
)
def test_the_same_parts_are_found_as_by_sympy(kinds: tuple[Any, ...]) -> None:
    for formula in FORMULAS:
        assert parts_of(formula, *kinds) == formula.atoms(*kinds)
        assert operations(formula) == operations(formula) == formula.count_ops()


@pytest.mark.parametrize("formula", FORMULAS, ids=str)
def test_a_part_has_fewer_parts(formula: Any) -> None:
    for part in parts_of(formula, sympy.Basic) - {formula}:
        assert count_parts(part) < count_parts(formula)
