"""Programs without a finite state are refused with a certificate.

Unproven ones are undecided.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest
import sympy

from ioaware.analysis.fusion.lifting.pass_plan import make_plan
from ioaware.analysis.fusion.programs.program_tracing import trace_program
from ioaware.analysis.fusion.refutation.alternant import find_alternant
from ioaware.analysis.fusion.refutation.samples import Sample
from ioaware.errors import InconclusiveError
from ioaware.fusion import (
    exp,
    log,
    maximum,
    minimum,
    reduce_max,
    reduce_mean,
    reduce_sum,
    relu,
    rint,
    sigmoid,
    softplus,
    sqrt,
    tanh,
)
from tests.support.fusion_programs import (
    IMPOSSIBLE,
    UNDECIDED,
    answer,
    relu_of_mean,
    rounded_dot,
    softplus_of_max,
    squared_deviations,
)


@pytest.mark.parametrize("program", IMPOSSIBLE, ids=lambda program: program.__name__)
def test_the_examples_are_refused_with_a_certificate(program: Callable[..., Any]) -> None:
    fusion = answer(program)
    assert not fusion.fusable
    assert fusion.passes_after > 1
    assert IMPOSSIBLE[program] in fusion.certificate
    assert "8 x 8 matrix" in fusion.certificate
    assert fusion.refutation
    assert fusion.refutation.alternant.size == 8


@pytest.mark.parametrize("program", UNDECIDED, ids=lambda program: program.__name__)
def test_unproven_programs_are_undecided(program: Callable[..., Any]) -> None:
    with pytest.raises(InconclusiveError, match="undecided"):
        answer(program)


DISGUISES: tuple[Callable[[Any], Any], ...] = (
    lambda u: softplus(u) - softplus(-u) - u,
    lambda u: sigmoid(u) + sigmoid(-u),
    lambda u: relu(u) - relu(-u),
    lambda u: abs(u) * abs(u),
    lambda u: sqrt(u * u) - abs(u),
    lambda u: tanh(u) - 2 * sigmoid(2 * u),
    lambda u: log(exp(u) * (1 + exp(-u))) - softplus(u),
    lambda u: rint(u) + rint(-u),
    lambda u: 1 / (u - 1) - 1 / (u + 1) - 2 / (u * u - 1),
    lambda u: sqrt(u * u + 2 * u + 1) - abs(u + 1),
    lambda u: log(u * u + 1) - log(2 * u * u + 2),
    lambda u: log(exp(u) + exp(-u)) + u - softplus(2 * u),
    lambda u: minimum(maximum(u, -1), 1) - (abs(u + 1) - abs(u - 1)) / 2,
    lambda u: minimum(abs(u), 1) ** 2 + maximum(abs(u), 1) ** 2 - u * u,
    lambda u: abs(abs(u) - 1) ** 2 - (abs(u) - 1) ** 2,
    lambda u: abs(abs(u) + 1) - abs(u),
    lambda u: abs(u - 1) ** 3 - abs((u - 1) ** 3),
    lambda u: (abs(u) - 1) * abs(abs(u) - 1) - maximum(abs(u) - 1, 0) ** 2 + minimum(abs(u) - 1, 0) ** 2,
)


@pytest.mark.parametrize("disguise", DISGUISES)
def test_a_finite_rank_in_disguise_is_never_refuted(disguise: Callable[[Any], Any]) -> None:
    """Singularities that cancel: each expression is a polynomial of u, or 0."""

    def program(x: Any, v: Any) -> Any:
        mu = reduce_mean(x)
        return reduce_sum(exp(x - mu) * v + v * disguise(x - mu))

    with contextlib.suppress(InconclusiveError):
        assert answer(program).fusable


def test_an_alternant_is_nonsingular_in_exact_arithmetic_too() -> None:
    """The matrix of relu's slopes has zeros and ones.

    Its determinant is taken with sympy's fractions.
    """
    program = trace_program(relu_of_mean)
    found = find_alternant(program, program.reductions[-1], program.inputs[0], 5)
    assert found
    assert found.of_derivative
    total, rows = sum(found.points), []
    for text in found.continuations:
        later = Fraction(text.strip("()").split(" = ")[1])
        mean = (total + later) / (len(found.points) + 1)
        rows.append([int(point > mean) for point in found.points])
    assert sympy.Matrix(rows).det() != 0


def test_a_map_of_finite_rank_has_no_larger_alternant() -> None:
    """The derivative of (x - mu)^2 has rank 2."""
    program = trace_program(squared_deviations)
    assert find_alternant(program, program.reductions[-1], program.inputs[0], 2)
    assert not find_alternant(program, program.reductions[-1], program.inputs[0], 3)


def test_a_continuation_that_cannot_move_the_parameter_proves_nothing() -> None:
    """A later element below the maximum leaves the maximum unchanged.

    A larger one changes it.
    """
    program = trace_program(softplus_of_max)
    (x,) = program.inputs
    seen = ({x: Fraction(1)}, {x: Fraction(3)})
    low, high = (Sample(program, seen, ({x: (Fraction(value), Fraction(value))},)) for value in (2, 5))
    assert not low.steers(program.parameters)
    assert high.steers(program.parameters)


def test_data_that_fix_the_parameter_are_not_refuted() -> None:
    """The reference is 0 for all data.

    The map has infinite rank, but its parameter never changes.
    """

    def program(x: Any) -> Any:
        return reduce_sum(sigmoid(x - reduce_max(0 * x)))

    with pytest.raises(InconclusiveError):
        answer(program)


def test_an_output_that_drops_the_sum_is_not_refuted() -> None:
    def program(x: Any) -> Any:
        mu = reduce_mean(x)
        return 0 * reduce_sum(relu(x - mu)) + mu

    assert answer(program).fusable


def test_an_output_that_uses_the_sum_later_is_refuted() -> None:
    def program(x: Any, v: Any) -> Any:
        mu = reduce_mean(x)
        s = reduce_sum(sigmoid(x - mu))
        return reduce_sum(s * v + v) + mu

    fusion = answer(program)
    assert not fusion.fusable
    assert fusion.refutation
    assert fusion.refutation.reduction.name == "s"


def test_an_output_with_a_kink_in_the_sum_is_undecided() -> None:
    def program(x: Any) -> Any:
        mu = reduce_mean(x)
        return relu(reduce_sum(sigmoid(x - mu)) - 1)

    with pytest.raises(InconclusiveError):
        answer(program)


def test_part_of_a_program_is_fused_where_all_cannot_be() -> None:
    """The leading softmax fuses, the sigmoid of its result does not."""

    def program(x: Any, v: Any) -> Any:
        m = reduce_max(x)
        l = reduce_sum(exp(x - m))  # noqa: E741
        mu = reduce_sum(exp(x - m) * v) / l
        return reduce_sum(sigmoid(v - mu))

    fusion = answer(program)
    assert not fusion.fusable
    assert (fusion.passes_before, fusion.passes_after) == (3, 2)


@pytest.mark.parametrize("degree", [2, 7, 12])
def test_polynomials_of_any_degree_are_fused(degree: int) -> None:
    """A rank of 13 is finite. Failing on many functions is no proof of infinite rank."""

    def program(x: Any) -> Any:
        return reduce_sum((x - reduce_mean(x)) ** degree)

    assert answer(program).fusable


def test_poles_and_roots_inside_and_outside_the_range_of_the_data() -> None:
    def pole(x: Any) -> Any:
        return reduce_sum(1 / (x - reduce_mean(x)))

    def root(x: Any) -> Any:
        return reduce_sum(sqrt(reduce_max(x) - x + 1))

    def fixed(x: Any) -> Any:
        """The singularity is fixed: log(x^2 + 1) depends on the element alone."""
        return reduce_sum(log(x * x + 1) * (x - reduce_mean(x)))

    assert "pole at x = mu" in answer(pole).certificate or "pole at x = p" in answer(pole).certificate
    assert "branch point" in answer(root).certificate
    assert answer(fixed).fusable


def test_what_changes_within_one_of_a_maximum_is_refuted() -> None:
    """Only elements closer together than 1 show it."""

    def clipped(x: Any) -> Any:
        return reduce_sum(minimum(reduce_max(x) - x, 1))

    def rounded(x: Any) -> Any:
        return reduce_sum(rint(x - reduce_max(x)))

    assert "kink where" in answer(clipped).certificate
    assert "jump where" in answer(rounded).certificate


def test_kinks_of_a_derivative_and_kinks_beside_kinks_are_refuted() -> None:
    """Huber's loss bends in its derivative; x |x - mu| where x is not 0."""

    def huber(x: Any) -> Any:
        r = abs(x - reduce_mean(x))
        least = minimum(r, 1)
        return reduce_sum(least * (r - least / 2))

    def signed_square(x: Any) -> Any:
        u = x - reduce_mean(x)
        return reduce_sum(u * abs(u))

    def distance_to_a_ring(x: Any) -> Any:
        return reduce_sum(abs(abs(x - reduce_mean(x)) - 2))

    def beside_another_input(x: Any, v: Any) -> Any:
        mu = reduce_mean(x)
        return reduce_sum(relu(x - mu) * abs(v - mu))

    for program in (huber, signed_square, distance_to_a_ring, beside_another_input):
        assert "kink where" in answer(program).certificate


def test_the_rounded_dot_has_a_plan_of_two_passes() -> None:
    assert len(make_plan(trace_program(rounded_dot)).passes) == 2
