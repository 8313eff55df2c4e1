"""Targets without an adapter.

They have tensors written as text, module classes, and calls from Python.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
import triton
import triton.language as tl
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

import ioaware
from ioaware.errors import UsageError
from ioaware.result import ParamValue
from ioaware.targets.target import load_target
from ioaware.targets.tensor_params import MAX_FLOATS, TensorParam, parse_tensor


@triton.jit
def scale_kernel(x, weight, out, cols, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    inside = at < cols
    tl.store(out + row * cols + at, tl.load(x + row * cols + at, inside) * tl.load(weight + at, inside), inside)


def scale(x: torch.Tensor, weight: torch.Tensor, factor=1.0) -> torch.Tensor:
    assert x.is_cuda
    out = torch.empty_like(x)
    scale_kernel[(x.shape[0],)](x, weight, out, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
    return out


class Scale(torch.nn.Module):
    def __init__(self, hidden: int, factor: float = 1.0) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(hidden))
        self.factor = factor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return scale(x, self.weight, self.factor)


@pytest.mark.parametrize(
    ("text", "canonical", "sizes"),
    [
        ("f16[rows=4096, cols=2048]", "float16[rows, cols]", {"rows": 4096, "cols": 2048}),
        ("bf16[cols]", "bfloat16[cols]", {}),
        ("i64[7, n=1_000]", "int64[7, n]", {"n": 1000}),
        (" fp32 [ ] ", "float32[]", {}),
        ("u8[3]", "uint8[3]", {}),
        ("bool[n]", "bool[n]", {}),
        ("float8_e4m3fn[n]", "float8_e4m3fn[n]", {}),
    ],
)
def test_a_tensor_in_text(text: str, canonical: str, sizes: Mapping[str, int]) -> None:
    parsed = parse_tensor(text)
    assert parsed is not None
    assert (str(parsed[0]), parsed[1]) == (canonical, sizes)
    again = parse_tensor(canonical)
    assert again == (parsed[0], {})


@pytest.mark.parametrize("text", ["relu", "x[3]", "f17[3]", "16", "", 3, None, "f16"])
def test_other_values_are_no_tensors(text: object) -> None:
    assert parse_tensor(text) is None


@pytest.mark.parametrize("text", ["f16[rows=]", "f16[a-b]", "f16[=3]", "f16[n=m]", "f16[-1]", "f16[n=1.5]"])
def test_invalid_sizes_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is not a size"):
        parse_tensor(text)


def test_values_of_a_tensor() -> None:
    torch.manual_seed(0)
    floats = TensorParam("float16", ("n", 3)).make({"n": 2}, "cpu")
    assert (floats.dtype, floats.shape, bool(floats.any())) == (torch.float16, (2, 3), True)
    assert not TensorParam("int64", (4,)).make({}, "cpu").any()
    assert TensorParam("bool", (4,)).make({}, "cpu").all()


class Operators(TorchDispatchMode):
    """Notes the operators that run inside the block."""

    def __init__(self) -> None:
        super().__init__()  # pyright: ignore[reportUnknownMemberType]
        self.names: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(func._schema.name)
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize(("size", "converted"), [(MAX_FLOATS, True), (MAX_FLOATS + 1, False)])
def test_a_large_fake_tensor_is_not_converted(size: int, converted: bool) -> None:
    with FakeTensorMode(), Operators() as operators:
        floats = TensorParam("float16", ("n",)).make({"n": size}, "cpu")
    assert (floats.dtype, tuple(floats.shape)) == (torch.float16, (size,))
    assert ("aten::_to_copy" in operators.names) is converted


def test_a_large_real_tensor_has_the_numbers_of_a_wider_one() -> None:
    param = {kind: TensorParam(kind, (MAX_FLOATS + 1,)) for kind in ("float16", "float32")}
    made: dict[str, torch.Tensor] = {}
    for kind, one in param.items():
        torch.manual_seed(0)
        made[kind] = one.make({}, "cpu")
    assert torch.equal(made["float16"], made["float32"].half())


def resolve(target: Callable[..., object], **given: ParamValue) -> dict[str, ParamValue]:
    return load_target(target).resolve(given, typed=True)


def test_named_sizes_are_parameters() -> None:
    values = resolve(scale, x="f16[rows=40, cols=100]", weight="f16[cols]")
    assert values == {"x": "float16[rows, cols]", "weight": "float16[cols]", "factor": 1.0, "rows": 40, "cols": 100}
    assert resolve(scale, x="f16[rows, cols]", weight="f16[cols]", rows="7", cols="8")["rows"] == 7
    assert resolve(scale, x="f16[rows=1, cols=2]", weight="f16[cols]", rows="7")["rows"] == 7
    assert load_target(scale).resolve(values) == values


def test_a_size_with_the_name_of_an_argument_is_that_argument() -> None:
    values = resolve(Scale, x="bf16[rows=4, hidden=16]")
    assert values == {"hidden": 16, "factor": 1.0, "x": "bfloat16[rows, hidden]", "rows": 4}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"x": "f16[rows=4, cols]", "weight": "f16[cols]"}, "cols of weight has no value\n  Give it: -p cols=..."),
        ({"x": "f16[rows=4, cols=3]", "weight": "f16[cols=4]"}, "cols is 3 and 4"),
        ({"x": "f16[4, 3]"}, "weight has no default and was not given"),
        ({"x": "f16[4, 3]", "weight": "f16[3]", "rows": "4"}, "has no parameter 'rows'"),
    ],
)
def test_wrong_sizes(given: dict[str, ParamValue], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        resolve(scale, **given)
    assert message in str(caught.value)


def test_a_function_without_an_adapter_is_derived_and_traced() -> None:
    given = {"x": "f16[rows=40, cols=100]", "weight": "f16[cols]"}
    derived, traced = ioaware.derive(scale, **given), ioaware.trace(scale, **given)
    assert derived.exact
    assert derived.formulas is not None
    assert str(derived.formulas.read_bytes) == "4*cols*rows"
    assert [launch.kernel for launch in traced.launches] == ["scale_kernel"]
    assert traced.requested == derived.requested.__class__(16_000, 8_000, 0, 17_920, 8_960)
    assert traced.extra_memory_bytes == 0


def test_a_module_class_with_the_arguments_of_its_constructor() -> None:
    given = {"x": "bf16[rows=40, hidden=96]"}
    derived, traced = ioaware.derive(Scale, **given), ioaware.trace(Scale, **given)
    assert derived.formulas is not None
    assert str(derived.formulas.read_bytes) == "4*hidden*rows"
    assert traced.requested.read_bytes == 4 * 40 * 96


def test_a_call_from_python_traces_its_data() -> None:
    x, weight = torch.rand(5, 20), torch.rand(20)
    before = x.clone()
    result = ioaware.trace(scale, x, weight=weight)
    assert (result.requested.read_bytes, result.requested.write_bytes) == (800, 400)
    assert (dict(result.params)["x_0"], dict(result.params)["x_1"]) == (5, 20)
    assert torch.equal(x, before)
    assert ioaware.trace(Scale(20), x).requested == result.requested


@triton.jit
def gather_kernel(x, index, out, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    place = tl.load(index + at)
    tl.store(out + at, tl.load(x + place, mask=place >= 0), mask=place >= 0)


def gather(x: torch.Tensor, index: torch.Tensor, out: torch.Tensor) -> None:
    gather_kernel[(1,)](x, index, out, BLOCK=16)


def test_index_data_and_views_of_one_storage_are_kept() -> None:
    whole = torch.arange(64.0)
    index = torch.tensor([3, -1] * 8)
    result = ioaware.trace(gather, whole[32:48], index - 16, whole[:16])
    assert result.requested.read_bytes == 16 * 8
    result = ioaware.trace(gather, whole[32:48], index + 16, whole[:16])  # other rows of the same storage
    assert result.requested.read_bytes == 16 * 8 + 16 * 4
    assert torch.equal(whole, torch.arange(64.0))
