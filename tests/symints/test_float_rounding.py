"""Floats of host code decide sizes and branches as Python computes them."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import pytest

from ioaware.derivation.derive import derive
from ioaware.derivation.derived import Derived
from ioaware.errors import UsageError
from ioaware.targets.target import load_target
from ioaware.tracing.trace import trace
from tests.support import SUPPORT

TARGETS = SUPPORT / "targets/number_targets.py"


def derived(name: str) -> Derived:
    target = load_target(f"{TARGETS}:{name}")
    return derive(target, target.resolve({}), machine_code=False)


@pytest.mark.parametrize("name", ["rounded_twice", "branch_on_a_product_of_floats", "branch_below_a_product_of_floats"])
def test_a_product_of_rounded_floats_is_no_fraction(name: str) -> None:
    """At 99 they are others than the fractions; a formula is refused there or right."""
    result = derived(name)
    assert result.exact
    target = load_target(f"{TARGETS}:{name}")
    for n in (97, 98, 99, 100, 196, 198):
        with suppress(UsageError):
            found = result.evaluate(n=n)["read_bytes"]
            traced = trace(target, {"n": n}).requested
            assert traced
            assert found == traced.read_bytes
    with pytest.raises(UsageError, match=r"do not hold|no symbolic parameter"):
        result.evaluate(n=99)


def test_many_points_are_not_decided_by_a_few_runs() -> None:
    result = derived("branch_on_a_product_of_floats")
    with pytest.raises(UsageError, match="so it has to be run at each point"):
        result.evaluate(n=np.arange(1, 100))
    with pytest.raises(UsageError, match="do not hold at n=99"):
        result.evaluate(n=np.arange(93, 108))


def test_floats_that_round_once_stay_symbolic() -> None:
    result = derived("rounded_once")
    assert "n" in (result.symbols or {})
    sizes = np.arange(2, 400)
    found = np.asarray(result.evaluate(n=sizes)["read_bytes"])
    expected = [4 * ((n // 49) + -(-3 * n // 2) + (9 * n // 4)) for n in range(2, 400)]
    assert np.array_equal(found, expected)


def test_halves_are_rounded_to_even_integers() -> None:
    result = derived("rounded_to_even")
    assert "n" in (result.symbols or {})
    sizes = np.arange(2, 200)
    found = np.asarray(result.evaluate(n=sizes)["read_bytes"])
    expected = [4 * (n + round(n / 2) + round(n / 3) + round(3 * n / 4) + round(n * 1.5)) for n in range(2, 200)]
    assert np.array_equal(found, expected)
    below = np.asarray(derived("rounded_below_zero").evaluate(n=sizes)["read_bytes"])
    assert np.array_equal(below, [4 * (2 * n + round(-n / 2)) for n in range(2, 200)])


def test_a_whole_number_is_its_own_rounding() -> None:
    """No floor or ceiling is left of `round(n / 1)`."""
    result = derived("rounded_to_one")
    assert result.requested
    assert result.requested.read_formula == "4*n"
