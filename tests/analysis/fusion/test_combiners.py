"""Derived combiners: FlashAttention's equation (14), Chan's formula, and states.

The states are those of reductions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
import sympy

from ioaware.analysis.fusion.answer import Fusion
from ioaware.analysis.fusion.expressions.algebra import is_zero
from ioaware.analysis.fusion.lifting.combiner import Combiner, steps
from ioaware.analysis.fusion.lifting.identities import identities
from ioaware.analysis.fusion.lifting.map_rank import rank_of
from ioaware.analysis.fusion.lifting.pass_plan import make_plan
from ioaware.analysis.fusion.programs.program_tracing import trace_program
from tests.support.fusion_programs import (
    FUSABLE,
    answer,
    attention,
    entropy,
    flash_decoding,
    largest_deviation,
    layer_norm_dot,
    logsoftmax_attention,
    shifted_maximum,
    softmax_variance,
    squared_deviations,
    top_probability,
)

Symbols = Mapping[str, Any]


def combiner_formulas(fusion: Fusion) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the formula of each component of C, and every symbol by its name.

    The formulas are over both states.
    """
    (part,) = fusion.plan.passes
    combiner = Combiner(part)
    merged: dict[Any, Any] = {}
    sides: dict[Any, Any] = {}
    for step in steps(part):
        if step.component:
            merged[step.component.symbol] = combiner.merged(step.component).xreplace(merged).xreplace(sides).xreplace(merged)
            continue
        assert step.parameter
        symbol = step.parameter.symbol
        if symbol not in merged:
            merged[symbol] = step.value.xreplace(merged)
        for side in (combiner.left, combiner.right):
            if step.value != symbol:
                sides[side(symbol)] = step.value.xreplace({free: side(free) for free in step.value.free_symbols})
    symbols = {free.name: free for expr in merged.values() for free in expr.free_symbols}
    return {symbol.name: expr for symbol, expr in merged.items()}, symbols


@pytest.mark.parametrize("program", FUSABLE, ids=lambda program: program.__name__)
def test_the_examples_run_in_one_pass_with_the_fewest_numbers_known(program: Callable[..., Any]) -> None:
    fusion = answer(program)
    passes, numbers = FUSABLE[program]
    assert fusion.fusable
    assert (fusion.passes_before, fusion.passes_after) == (passes, 1)
    assert len(fusion.state) == numbers


def test_equation_14_of_flash_attention() -> None:
    """o is the mean of o1 and o2 weighted by e1 exp(b1 - b) and e2 exp(b2 - b).

    That is, o = (exp(b1 - b) o1 e1 + exp(b2 - b) o2 e2) / (e1 exp(b1 - b) + e2 exp(b2 - b)), where b is the larger maximum.
    """
    found, s = combiner_formulas(answer(attention))
    b = sympy.Max(s["m1"], s["m2"])
    first, second = sympy.exp(s["m1"] - b), sympy.exp(s["m2"] - b)
    denominator = s["l1"] * first + s["l2"] * second
    assert found["m"] == b
    assert is_zero(found["l"] - denominator)
    assert is_zero(found["o"] - (first * s["o1"] * s["l1"] + second * s["o2"] * s["l2"]) / denominator)


def test_the_log_sum_exp_combiner_of_flash_decoding() -> None:
    fusion = answer(flash_decoding)
    assert "o = o1*exp(lse1 - lse) + o2*exp(lse2 - lse)" in fusion.combine


def test_chan_and_welford() -> None:
    """M2 = M2_1 + M2_2 + delta^2 n1 n2 / n, delta the difference of the means.

    No other number is carried.
    """
    found, s = combiner_formulas(answer(squared_deviations))
    n = s["n_1"] + s["n_2"]
    delta = s["sum_x_2"] / s["n_2"] - s["sum_x_1"] / s["n_1"]
    assert is_zero(found["m2"] - (s["m2_1"] + s["m2_2"] + delta**2 * s["n_1"] * s["n_2"] / n))


def test_logsoftmax_attention_needs_the_sum_of_v() -> None:
    """The state (b, e, o) is not closed: w = sum of v joins it."""
    fusion = answer(logsoftmax_attention)
    assert [number.name for number in fusion.state] == ["m", "s", "o", "o_v"]
    assert fusion.state[3].meaning == "sum of v"
    found, s = combiner_formulas(fusion)
    lse = {side: s[f"m{side}"] + sympy.log(s[f"s{side}"]) for side in "12"}
    b = sympy.Max(s["m1"], s["m2"])
    both = b + sympy.log(s["s1"] * sympy.exp(s["m1"] - b) + s["s2"] * sympy.exp(s["m2"] - b))
    expected = sum(s[f"o{side}"] + (lse[side] - both) * s[f"o_v{side}"] for side in "12")
    assert is_zero(found["o"] - expected)


def test_states_of_the_other_examples() -> None:
    assert [number.name for number in answer(entropy).state] == ["m", "s", "h"]
    assert [number.meaning for number in answer(layer_norm_dot).state][-1] == "sum of w"
    assert len(answer(softmax_variance).state) == 4
    assert answer(shifted_maximum).combine.splitlines()[-1] == "o = max(m1 + o1 - m, m2 + o2 - m)"
    assert answer(top_probability).combine.splitlines()[-1] == "o = max(l1*o1*exp(m1 - m)/l, l2*o2*exp(m2 - m)/l)"
    assert answer(largest_deviation).combine.splitlines()[-1] == "o = max(o_a, o_b)"


@pytest.mark.parametrize(
    ("program", "rank", "of_derivative"),
    [
        (attention, 1, 1),
        (squared_deviations, 3, 2),
        (logsoftmax_attention, 2, 2),
        (entropy, 2, 2),
        (layer_norm_dot, 2, 2),
        (softmax_variance, 3, 3),
    ],
)
def test_ranks_are_those_of_theory(program: Callable[..., Any], rank: int, of_derivative: int) -> None:
    traced = trace_program(program)
    found = rank_of(make_plan(traced).passes[0].lifted[-1], traced.inputs)
    assert (found.at_most, found.at_least, found.of_derivative) == (rank, rank, of_derivative)


@pytest.mark.parametrize("program", [attention, squared_deviations, entropy, largest_deviation])
def test_a_wrong_coefficient_is_not_proven(program: Callable[..., Any]) -> None:
    """Every coefficient of every rescaling matters. With a 1 added, an identity fails."""
    from dataclasses import replace

    traced = trace_program(program)
    for lifted in make_plan(traced).passes[0].lifted:
        if not lifted.parameters:
            continue
        assert all(identity.proven for identity in identities(lifted, traced.inputs))
        for number, form in enumerate(lifted.repair):
            for symbol in form:
                wrong = {**form, symbol: form[symbol] + 1}
                repair = (*lifted.repair[:number], wrong, *lifted.repair[number + 1 :])
                assert not all(identity.proven for identity in identities(replace(lifted, repair=repair), traced.inputs))


def test_a_parameter_that_only_some_maps_divide_by_has_two_guards() -> None:
    from ioaware.fusion import reduce_mean, reduce_sum

    def program(x: Any, v: Any) -> Any:
        mu = reduce_mean(x)
        return reduce_sum((x - mu) ** 2), reduce_sum(v / mu)

    guards = answer(program).guards
    assert guards[0].startswith("mu = sum_x/n: 0 stands in")
    assert guards[1].startswith("mu_divisor = sum_x/n: 1 stands in")
