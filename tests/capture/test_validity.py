"""Evaluation is refused where a condition fails.

Conditions come from constexprs, branches, torch guards and data reads.
"""

from __future__ import annotations

import numpy as np
import pytest
import sympy
from torch.utils._sympy.functions import CeilDiv, FloorDiv

from ioaware.compilation.launch_traffic import _in_parameters  # pyright: ignore[reportPrivateUsage]
from ioaware.derivation.derive import derive
from ioaware.derivation.derived import Derived
from ioaware.errors import UsageError
from ioaware.symints.guards import Condition, without_redundant
from ioaware.targets.target import load_target
from ioaware.tracing.trace import trace
from tests.support import SUPPORT

TARGETS = SUPPORT / "targets/validity_targets.py"


def derive_target(name: str, **params: int) -> Derived:
    target = load_target(f"{TARGETS}:{name}")
    return derive(target, target.resolve(params), machine_code=False)


def write_bytes_of(name: str, **params: int) -> int | None:
    target = load_target(f"{TARGETS}:{name}")
    requested = trace(target, target.resolve(params)).requested
    return requested and requested.write_bytes


@pytest.mark.parametrize(
    ("name", "inside", "outside", "condition"),
    [
        ("frozen_block", {"columns": (65, 128)}, {"columns": (64, 129, 1)}, "next_power_of_2(columns) == 128"),
        ("short_block", {"columns": (65, 128)}, {"columns": (64, 129, 300)}, "next_power_of_2(columns) == 128"),
        ("frozen_share", {"rows": (133, 264)}, {"rows": (132, 265, 1000)}, "ceil(rows/132) == 2"),
        ("branching", {"n": (1, 4095)}, {"n": (4096, 10_000)}, "n < 4096"),
        ("even", {"n": (64, 640)}, {"n": (63, 65)}, "n % 64 == 0"),
    ],
)
def test_every_guard_is_checked_at_new_values(name, inside, outside, condition) -> None:
    result = derive_target(name)
    assert condition in result.conditions
    ((parameter, good),) = inside.items()
    ((_, bad),) = outside.items()
    for value in good:
        assert result.evaluate(**{parameter: value})["write_bytes"] == write_bytes_of(name, **{parameter: value})
    for value in bad:
        with pytest.raises(UsageError) as caught:
            result.evaluate(**{parameter: value})
        assert condition in str(caught.value)
        assert f"Derive again at {parameter}={value}." in str(caught.value)
        assert derive_target(name, **{parameter: value}).evaluate()["write_bytes"] == write_bytes_of(name, **{parameter: value})


def test_first_failing_point_is_named() -> None:
    result = derive_target("frozen_share")
    assert np.array_equal(np.asarray(result.evaluate(rows=np.arange(133, 265))["write_bytes"]), 4 * np.arange(133, 265))
    with pytest.raises(UsageError, match=r"do not hold at rows=265: they are for ceil\(rows/132\) == 2"):
        result.evaluate(rows=np.arange(133, 400))


def test_launches_carry_their_conditions() -> None:
    result = derive_target("frozen_block", columns=100)
    assert result.requested
    assert result.requested.write_formula == "4*columns*rows"  # not min(128, columns), which the condition replaces
    first, *largest = result.to_dict()["launches"][-1]["conditions"]
    assert first == "next_power_of_2(columns) == 128"
    assert all(one.endswith("<= 2147483647") for one in largest)  # sizes beyond which integers or the grid do not fit
    assert "rows <= 2147483647" in largest
    assert "for <code>next_power_of_2(columns) == 128</code>" in result._repr_html_()


def test_torch_guards_are_checked_by_running() -> None:
    """torch guards on sizes of 1 in many places.

    Running the host function shows whether they matter.
    """
    result = derive_target("stretched")
    assert result.evaluate(n=1)["write_bytes"] == write_bytes_of("stretched", n=1)
    transposed = derive_target("transposed")
    assert transposed.evaluate(n=7)["write_bytes"] == 40
    with pytest.raises(UsageError, match="do not hold at m=80, n=1"):
        transposed.evaluate(n=1)
    with pytest.raises(UsageError, match="do not hold"):
        transposed.evaluate(n=np.array([7, 1]))
    one = derive_target("stretched", n=1)
    assert np.array_equal(np.asarray(one.evaluate(m=np.arange(1, 2000))["write_bytes"]), np.full(1999, 4))


def test_data_reads_are_repeated_at_new_values() -> None:
    result = derive_target("lengths")
    assert result.evaluate()["write_bytes"] == 400
    with pytest.raises(UsageError, match="do not hold at n=200"):
        result.evaluate(n=200)
    assert derive_target("constant_length").evaluate(n=200)["write_bytes"] == 4 * 800
    with pytest.raises(UsageError, match=r"so it has to be run at each point"):
        result.evaluate(n=np.arange(1, 101))


@pytest.mark.parametrize("value", [0, -3, 2.5, np.array([3, 0]), np.array([1.0])])
def test_a_size_is_a_positive_integer(value: object) -> None:
    with pytest.raises(UsageError, match="must be a positive integer"):
        derive_target("branching").evaluate(n=value)  # pyright: ignore[reportArgumentType]


def test_conditions_without_parameters_are_dropped() -> None:
    n = sympy.Symbol("n", integer=True, positive=True)
    about_n, about_none = Condition(sympy.Le(n, 7), "branch"), Condition(sympy.Eq(64, 64, evaluate=False), "constexpr ROWS")
    assert without_redundant([about_n, about_none]) == (about_n,)


def test_exact_quotient_prints_as_divisibility() -> None:
    n = sympy.Symbol("n", integer=True, positive=True)
    exact = sympy.Eq(CeilDiv(n, 128), FloorDiv(n, 128), evaluate=False)
    assert str(Condition(exact, "branch")) == "n % 128 == 0"


def test_notes_are_in_parameters_not_in_units_of_multiples() -> None:
    n = sympy.Symbol("n", integer=True, positive=True)
    note = "sectors of tt.load at rows.py:7 at most: rows may share sectors, unless n % 4 == 0 and nn % 4 == 0"
    assert _in_parameters(note, [(n, 32)]) == note.replace("unless n % 4", "unless n % 128")
