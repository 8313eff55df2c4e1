"""Kernels, their addresses, and where arguments go, in source code."""

from __future__ import annotations

import ast

import pytest

from ioaware.gate.setup.source_calls import is_kernel, parameter_at, pointers


def function(source: str) -> ast.FunctionDef:
    (found,) = ast.parse(source).body
    assert isinstance(found, ast.FunctionDef)
    return found


@pytest.mark.parametrize(
    ("decorator", "found"),
    [
        ("jit", True), ("triton.jit", True), ("triton.runtime.jit", True), ("triton.jit(do_not_specialize=[1])", True),
        ("a.jit(x.y)", True), ("jitted", False), ("triton.autotune(jit)", False), ("jit.other", False),
    ],
)  # fmt: skip
def test_kernels_by_their_decorator(decorator: str, found: bool) -> None:
    assert is_kernel(function(f"@first\n@{decorator}\ndef k(x): ...")) is found


def test_parameters_of_arguments() -> None:
    callee = function("def f(a, /, b, *, c): ...")
    assert [parameter_at(callee, at) for at in (0, 1, 3, "b", "c", "d")] == ["a", "b", "", "b", "c", ""]


def test_addresses_are_the_first_summand() -> None:
    kernel = function(
        "def k(x, w, o, n):\n    p = w + n\n    q = p\n    q += 1\n"
        "    tl.store(o + n, tl.load(x - n * 2) + tl.load(q))\n    tl.dot(n, n)\n    tl.load(f(n))"
    )
    assert pointers(kernel) == {"x", "w", "o", "p", "q"}
