"""Python functions become reductions and maps.

Unsupported ones are refused with line and remedy.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import sympy

from ioaware.analysis.fusion.programs.program_tracing import trace_program
from ioaware.errors import UsageError
from ioaware.fusion import exp, length, maximum, reduce_max, reduce_mean, reduce_min, reduce_sum
from tests.support.fusion_programs import attention, layer_norm_dot


def test_reductions_have_the_names_of_the_variables_that_hold_them() -> None:
    program = trace_program(attention)
    x, v = program.inputs
    m, total, o = (reduction.symbol for reduction in program.reductions)
    assert [symbol.name for symbol in (m, total, o)] == ["m", "l", "o"]
    assert [reduction.op for reduction in program.reductions] == ["max", "sum", "sum"]
    assert program.reductions[2].body == sympy.exp(x - m) / total * v
    assert program.outputs == (o,)


def test_scalars_made_of_reductions_become_parameters_of_the_maps() -> None:
    program = trace_program(layer_norm_dot)
    assert [parameter.symbol.name for parameter in program.parameters] == ["mu", "sg"]
    assert program.passes == 3


def test_the_same_reduction_twice_is_one_and_unused_ones_are_dropped() -> None:
    def program(x: Any) -> Any:
        reduce_min(x)
        return reduce_mean(x) + reduce_sum(x) / length(x)

    traced = trace_program(program)
    assert sorted(reduction.name for reduction in traced.reductions) == ["n", "sum_x"]


def test_defaults_are_constants_and_floats_the_shortest_fraction() -> None:
    def program(x: Any, scale: float = 0.1) -> Any:
        return reduce_sum(scale * x)

    (reduction,) = trace_program(program).reductions
    assert reduction.body == sympy.Rational(1, 10) * trace_program(program).inputs[0]


def branch(x: Any) -> Any:
    return reduce_sum(x) if reduce_max(x) > 0 else reduce_max(x)


def branch_on_a_value(x: Any) -> Any:
    return reduce_sum(x) or 0


def neighbours(x: Any) -> Any:
    return reduce_sum(x[1:])


def loop(x: Any) -> Any:
    return sum(x)


def whole_length(x: Any) -> Any:
    return reduce_sum(x) / len(x)


def product(x: Any, y: Any) -> Any:
    return reduce_sum(x @ y)


def method(x: Any) -> Any:
    return x.sum()


def numpy_call(x: Any) -> Any:
    return reduce_sum(np.exp(x))


def math_call(x: Any) -> Any:
    return math.exp(reduce_max(x))


def reduction_of_a_scalar(x: Any) -> Any:
    return reduce_sum(reduce_max(x))


def sequence(x: Any) -> Any:
    return exp(x - reduce_max(x))


def constant(x: Any) -> Any:
    return 0 * reduce_sum(x) + 1


def nothing(x: Any) -> Any:
    reduce_sum(x)


def infinite(x: Any) -> Any:
    return reduce_max(maximum(x, -math.inf))


def by_zero(x: Any) -> Any:
    return reduce_sum(x) / 0


def misspelt(x: Any) -> Any:
    return reduce_sum(x) + y  # noqa: F821 # pyright: ignore[reportUndefinedVariable]


def power(x: Any, y: Any) -> Any:
    return reduce_sum(x**y)


def wrong_type(x: Any) -> Any:
    return reduce_sum(x * "a")


def variadic(*x: Any) -> Any:
    return reduce_sum(x[0])


def without_sequence() -> Any:
    return 0


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (branch, r"a comparison \(test_tracing.py:\d+\)"),
        (branch_on_a_value, "a branch on a value"),
        (neighbours, "by index"),
        (loop, "a loop over the elements"),
        (whole_length, r"len\(\) of a sequence"),
        (product, "a matrix product"),
        (method, "the attribute .sum"),
        (numpy_call, "numpy.exp"),
        (math_call, "a Python number"),
        (reduction_of_a_scalar, "reduce_sum of a scalar"),
        (sequence, "returns a sequence"),
        (constant, "returns a constant"),
        (nothing, "returns a NoneType"),
        (infinite, "the constant -inf"),
        (by_zero, "a division by 0"),
        (misspelt, r"NameError \(test_tracing.py:\d+\)"),
        (power, "exponent is not a number"),
        (wrong_type, "a str among the values"),
        (variadic, r"\*args"),
        (without_sequence, "takes no sequence"),
    ],
)
def test_unsupported_functions_are_refused(function: Callable[..., Any], message: str) -> None:
    with pytest.raises(UsageError, match=message) as refused:
        trace_program(function)
    assert refused.value.remedy or function is by_zero


def test_the_functions_take_numpy_arrays_too() -> None:
    x, v = np.array([1.0, 2.0, 0.5]), np.array([3.0, -1.0, 2.0])
    weights = np.exp(x) / np.exp(x).sum()
    assert attention(x, v) == pytest.approx(float(weights @ v), rel=1e-14)
