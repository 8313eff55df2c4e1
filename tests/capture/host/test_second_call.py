"""Host code that does more at a second call, as a gate sees it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from ioaware.capture.host.second_call import MORE_LATER
from ioaware.gate.derived_work import conditions_of
from ioaware.gate.traffic_fixture import Traffic
from tests.support.targets.squares import square

CALLS: list[int] = []
KEPT: dict[str, Any] = {}


def twice_when_called_again(x: Any) -> Any:
    CALLS.append(1)
    return square(square(x)) if len(CALLS) > 1 else square(x)


def copies_when_called_again(x: Any) -> Any:
    CALLS.append(1)
    return square(x.clone()) if len(CALLS) > 1 else square(x)


def raises_when_called_again(x: Any) -> Any:
    CALLS.append(1)
    assert len(CALLS) == 1
    return square(x)


def makes_a_workspace_once(x: Any) -> Any:
    if "zeros" not in KEPT:
        KEPT["zeros"] = square(torch.zeros_like(x))
    return square(x)


@pytest.mark.parametrize(
    ("function", "later"),
    [
        (twice_when_called_again, "square_kernel"),
        (copies_when_called_again, "aten.clone.default"),
        (raises_when_called_again, ""),
        (makes_a_workspace_once, ""),
        (square, ""),
    ],
)
def test_a_second_call_that_launches_more_is_a_condition(function: Any, later: str) -> None:
    traffic = Traffic("t.py::test", {}, None, Path())
    derived = traffic(function, traffic.tensor("n")).derived
    assert (MORE_LATER in conditions_of(derived)) is bool(later)
    assert any(f"{later} is not in the first" in note for note in derived.notes) is bool(later)
    assert not CALLS
    assert not KEPT
    assert derived.requested
    assert derived.requested.read_formula == ("8*n" if function is makes_a_workspace_once else "4*n")
