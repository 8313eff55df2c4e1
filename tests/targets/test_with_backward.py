"""A call with its backward pass."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from ioaware.errors import UsageError
from ioaware.gate.traffic_fixture import Traffic
from ioaware.targets.with_backward import with_backward
from tests.support.targets.squares import Square


def test_the_bytes_of_both_passes() -> None:
    traffic = Traffic("t.py::test", {}, None, Path())
    x = traffic.tensor("n", dtype="float16")
    forward, both = traffic(Square.apply, x).derived, traffic.with_backward(Square.apply, x).derived
    assert forward.requested
    assert both.requested
    assert (forward.requested.read_formula, forward.requested.write_formula) == ("2*n", "2*n")
    assert (both.requested.read_formula, both.requested.write_formula) == ("6*n", "4*n")
    assert both.exact
    assert both.assumed is None, "the gradient that the backward pass starts from moves no bytes"


def test_gradients_of_every_tensor_of_numbers() -> None:
    x, w, at = torch.ones(2, 3), torch.ones(3, requires_grad=True), torch.zeros(2, dtype=torch.long)

    def scaled(x: Any, pair: Any, at: Any, *, factor: float) -> Any:
        return {"sum": (x * pair[0] * factor).sum(), "rows": x[at].detach()}

    returned, (of_x, of_w) = with_backward(scaled)(x, (w, None), at, factor=2.0)
    assert returned["sum"] == 12
    assert of_x.tolist() == [[2.0] * 3] * 2, "a result of one number starts at 1"
    assert of_w.tolist() == [4.0] * 3
    assert x.grad is None
    assert w.grad is None
    assert not x.requires_grad


def test_a_result_without_a_gradient() -> None:
    with pytest.raises(UsageError, match="returns nothing that has a gradient"):
        with_backward(lambda x: x.detach())(torch.ones(2))


def test_its_name_and_parameters() -> None:
    def f(x: Any, *, n: int = 3) -> None: ...

    both: Any = with_backward(f)
    assert both.__qualname__.endswith("f with its backward pass")
    assert str(both.__signature__) == "(x: 'Any', *, n: 'int' = 3) -> 'None'"
