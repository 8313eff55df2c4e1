"""Values that are tried for a parameter beside the tensor of the most sizes."""

from __future__ import annotations

from typing import Any

import pytest

from ioaware.gate.setup import call_guesses
from ioaware.gate.setup.call_guesses import FLOAT, INTS
from ioaware.gate.setup.host_params import HostParam

PRIMARY = ("batch", "rows", "cols")
SHAPES = [("cols",), ("batch",), ("rows", "cols"), PRIMARY]


@pytest.mark.parametrize(
    ("param", "found"),
    [
        (HostParam("x", "tensor"), SHAPES),
        (HostParam("x"), [FLOAT, *SHAPES]),
        (HostParam("x", values=[3]), [3, *SHAPES]),
        (HostParam("x", "tensor", least_rank=2), SHAPES[2:]),
        (HostParam("x", "tensor", rank=1), SHAPES[:2]),
        (
            HostParam("x", "tensor", rank=2, sizes={0: "heads"}),
            [("heads", name) for name in ("cols", "rows", "batch")] + SHAPES[2:3],
        ),
        (HostParam("x", "int"), list(INTS)),
        (HostParam("x", "int", values=[7]), [7]),
        (HostParam("x", "bool", values=[True]), [True, False]),
        (HostParam("x", "float"), [FLOAT]),
        (HostParam("x", "float", values=[0.1]), [0.1]),
    ],
)
def test_small_shapes_come_first(param: HostParam, found: list[Any]) -> None:
    forms: Any = vars(call_guesses)["_forms"]
    assert list(forms(param, PRIMARY)) == found
