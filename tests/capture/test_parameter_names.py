# pyright: basic, reportArgumentType=false
"""Parameters of modules have their names in the launches that are given them."""

from __future__ import annotations

from collections.abc import Callable
from io import StringIO

import pytest
import torch
import triton
import triton.language as tl
from rich.console import Console

import ioaware
from ioaware.capture.parameter_names import ParameterNames
from ioaware.cli.formula_tables import derived_text
from ioaware.cli.render import result_text
from ioaware.result import Result
from ioaware.result_file import decode, encode


@triton.jit
def scaled(x, weight, out, n, B: tl.constexpr):
    at = tl.arange(0, B)
    row = tl.program_id(0) * n
    value = tl.load(x + row + at, mask=at < n) * tl.load(weight + at, mask=at < n)
    tl.store(out + row + at, value, mask=at < n)


class Scale(torch.nn.Module):
    def __init__(self, n: int) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(n))
        self.register_buffer("shift", torch.ones(n))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        scaled[(x.shape[0],)](x, self.weight.view(1, -1)[0] if x.shape[0] == 5 else self.weight, out, x.shape[1], B=64)
        scaled[(x.shape[0],)](out, self.shift, out, x.shape[1], B=64)
        return out


class Twice(torch.nn.Module):
    def __init__(self, n: int) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList([Scale(n), Scale(n)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


def in_a_function(n: int = 48, device: str = "cuda") -> torch.Tensor:
    model = Scale(n).to(device)
    return model(torch.zeros(5, n, device=device))


def parameters(result: Result) -> list[dict[str, str]]:
    return [dict(launch.parameters or {}) for launch in result.launches if launch.origin == "triton"]


@pytest.mark.parametrize("verb", [ioaware.derive, ioaware.trace])
def test_a_module_s_parameters_have_their_own_names(verb: Callable[..., Result]) -> None:
    result = verb(Twice(48), torch.zeros(4, 48))
    expected = [f"layers.{layer}.{name}" for layer in (0, 1) for name in ("weight", "shift")]
    assert [one["weight"] for one in parameters(result)] == expected


def test_a_trace_shows_the_names() -> None:
    console = Console(file=StringIO(), width=200)
    console.print(*result_text(ioaware.trace(in_a_function)))
    assert "weight is model.shift" in " ".join(console.file.getvalue().split())  # type: ignore[attr-defined]


def test_a_function_s_model_is_named_as_in_its_code() -> None:
    result = ioaware.derive(in_a_function)
    assert parameters(result) == [{"weight": "model.weight"}, {"weight": "model.shift"}]
    console = Console(file=StringIO(), width=200)
    console.print(*derived_text(result))
    printed = " ".join(console.file.getvalue().split())  # type: ignore[attr-defined]
    assert "weight is model.weight" in printed
    assert "weight is model.shift" in printed
    assert decode(encode(Result("derive", "t", launches=result.launches))).launches == result.launches


def test_other_tensors_have_no_name() -> None:
    model = Scale(8)
    names = ParameterNames().of({"x": torch.zeros(8), "w": model.weight.t(), "n": 8})
    assert names == {"w": "model.weight"}
    assert not ParameterNames().of({"w": torch.zeros(3)})
