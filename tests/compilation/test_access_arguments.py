"""Integer arguments on which memory accesses depend."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import sympy

from ioaware.capture.capture import DEFAULT_GPU, capture
from ioaware.compilation.access_arguments import accesses_depend_on
from ioaware.targets.target import load_target
from tests.support.targets import dropouts


@pytest.mark.parametrize(
    ("function", "name", "depends"),
    [
        (dropouts.dropout, "seed", False),
        (dropouts.dropout, "n", True),
        (dropouts.dropout, "BLOCK", True),
        (dropouts.seeded_first, "first", True),
    ],
)
def test_addresses_and_masks_depend_on(function: Any, name: str, depends: bool) -> None:
    target = load_target(function)
    captured = capture(target, target.resolve({}))
    (launch,) = captured.launches
    assert accesses_depend_on(launch, name, captured.values, DEFAULT_GPU) is depends


def test_an_argument_that_the_compiler_made_a_constant_may_decide() -> None:
    target = load_target(dropouts.dropout)
    captured = capture(target, target.resolve({}))
    (launch,) = captured.launches
    of_one = replace(launch, arguments={**launch.arguments, "seed": sympy.S.One})
    assert accesses_depend_on(of_one, "seed", captured.values, DEFAULT_GPU)
