"""Numbers that host code converts and rounds stay symbolic."""

from __future__ import annotations

import math
import operator
from typing import Any

import pytest

from ioaware.capture import symbolic_builtins
from ioaware.derivation.derive import derive
from ioaware.derivation.derived import Derived
from ioaware.errors import UsageError
from ioaware.symints.number_types import STAND_INS, replaceable_types
from ioaware.targets.loading import load_function
from ioaware.targets.target import Target, load_target
from ioaware.tracing.trace import trace
from tests.support import SUPPORT

TARGETS = SUPPORT / "targets/number_targets.py"
TYPE_TARGETS = SUPPORT / "targets/number_type_targets.py"


def derived(target: Target) -> Derived:
    return derive(target, target.resolve({}), machine_code=False)


@pytest.mark.parametrize(
    ("name", "formula", "sizes"),
    [
        ("whole_elements", "16*n", (1, 31, 999, 5000)),
        ("half_elements", None, (2, 31, 32, 999, 5000)),
        ("scaled_by_a_root", "4*n*width", (7, 1001)),
        ("block_of_a_root", "4*n", (513, 1024)),
        ("largest_power_of_two", None, (513, 1023)),
        ("next_power_of_two", None, (513, 1024)),
        ("rows_of_a_tensor", "4*n", (1, 999)),
        ("distance", None, (1, 599, 600, 601, 5000)),
        ("common_divisor", "32*n", (8, 40, 1096)),
    ],
)
def test_sizes_stay_symbolic(name: str, formula: str | None, sizes: tuple[int, ...]) -> None:
    target = load_target(f"{TARGETS}:{name}")
    result = derived(target)
    assert result.exact
    assert result.requested
    assert not any("specialised" in note for note in result.notes)
    assert formula in (None, result.requested.read_formula)
    for n in sizes:
        requested = trace(target, target.resolve({"n": n})).requested
        assert requested
        assert result.evaluate(n=n)["read_bytes"] == requested.read_bytes


@pytest.mark.parametrize(
    ("name", "outside"),
    [("block_of_a_root", 1025), ("largest_power_of_two", 1025), ("next_power_of_two", 512), ("common_divisor", 1001)],
)
def test_a_choice_is_a_condition(name: str, outside: int) -> None:
    with pytest.raises(UsageError, match="do not hold at n="):
        derived(load_target(f"{TARGETS}:{name}")).evaluate(n=outside)


def test_int_cuts_towards_zero() -> None:
    """A formula would have to round up below 1,001 and down above it."""
    result = derived(load_target(f"{TARGETS}:cut_towards_zero"))
    assert result.requested
    assert result.requested.read_bytes == 4 * 1000
    with pytest.raises(UsageError):
        result.evaluate(n=1004)


def test_types_are_restored() -> None:
    """Without a derivation, which restores all variables of the module."""
    before = math.sqrt, math.gcd, operator.index
    function: Any = load_function(f"{TARGETS}:whole_elements")
    names: dict[str, Any] = function.__globals__
    with symbolic_builtins.symbolic_builtins({function.__code__: names}):
        assert {name: names[name] for name in STAND_INS} == STAND_INS
        assert math.sqrt is not before[0]
    assert not STAND_INS.keys() & names.keys()
    assert (math.sqrt, math.gcd, operator.index) == before


def test_a_module_that_the_run_only_imports_keeps_its_types() -> None:
    """Its names need not be looked for then."""
    function: Any = load_function(f"{TARGETS}:whole_elements")
    names: dict[str, Any] = function.__globals__
    with symbolic_builtins.symbolic_builtins({compile(TARGETS.read_text(), str(TARGETS), "exec"): names}):
        assert not STAND_INS.keys() & names.keys()


def test_a_type_that_a_module_needs_is_left() -> None:
    assert replaceable_types(str(TYPE_TARGETS)) == ("abs", "len")
    assert replaceable_types(str(TARGETS)) == ("int", "float", "abs", "len")
    result = derived(load_target(f"{TYPE_TARGETS}:of_integers"))
    assert result.exact
    assert any("specialised" in note for note in result.notes)


@pytest.mark.parametrize(("name", "formula"), [("by_dispatch", "4*n + 4"), ("by_pattern", "4*n"), ("by_abstract_type", "4*n")])
def test_a_symbol_is_an_integer_in_any_module(name: str, formula: str) -> None:
    result = derived(load_target(f"{TYPE_TARGETS}:{name}"))
    assert result.requested
    assert result.requested.read_formula == formula


def test_a_check_of_the_type_leads_to_the_branch_behind_it() -> None:
    """It replaced the size by 5, in the same branch as 1,000, and needed no condition."""
    result = derived(load_target(f"{TYPE_TARGETS}:branch_on_a_checked_size"))
    assert result.requested
    assert result.requested.read_bytes == 40
    with pytest.raises(UsageError, match="do not hold at n=2000"):
        result.evaluate(n=2000)


def test_an_attribute_that_symbols_lack_is_that_of_the_value() -> None:
    result = derived(load_target(f"{TYPE_TARGETS}:by_an_attribute"))
    assert result.requested
    assert result.requested.read_bytes == 40
    with pytest.raises(UsageError):
        result.evaluate(n=2000)


def test_modules_of_torch_keep_their_types(monkeypatch: pytest.MonkeyPatch) -> None:
    """Methods of their dataclasses run, and are in no file."""
    replaced: list[str] = []

    def files(path: str) -> tuple[str, ...]:
        replaced.append(path)
        return replaceable_types(path)

    monkeypatch.setattr(symbolic_builtins, "replaceable_types", files)
    derived(load_target(f"{TARGETS}:whole_elements"))
    assert str(TARGETS) in replaced
    assert not any(path.startswith("<") or "/torch/" in path for path in replaced)
