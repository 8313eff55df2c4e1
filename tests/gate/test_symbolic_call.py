"""Calls on symbolic tensors: arguments of every kind reach the function.

Sizes are checked, and warnings stay inside.
"""

from __future__ import annotations

import importlib
import warnings
from pathlib import Path
from typing import Any

import pytest

from ioaware.compilation.triton_ir import find_gpu
from ioaware.errors import UsageError
from ioaware.gate.derived_snapshot import recorded
from ioaware.gate.symbolic_call import (
    DEFAULT_SIZES,
    STRIDES,
    Sizes,
    SymbolicSize,
    SymbolicTensor,
    derive_call,
    made,
    strides_of,
)
from ioaware.gate.traffic_fixture import Traffic
from ioaware.targets.loading import load_callable
from ioaware.targets.tensor_params import is_placeholder


def scaled(pair: Any, *, options: dict[str, Any], factor: int, plain: str) -> Any:
    import torch

    from tests.support.gate_repository import scale as example

    x, (w,) = pair
    assert (plain, factor, options["text"]) == ("as it is", 3, ["a", 4])
    assert x.device.type == options["w"].device.type == w.device.type == "cuda"
    assert x.shape[0] == options["rows"]
    assert (x.dtype, w.dtype, options["w"].dtype) == (torch.float16, torch.float32, torch.float32)
    return example.scale(x, w)


def test_arguments_of_every_kind() -> None:
    x, w = SymbolicTensor(("rows", 512), "float16"), SymbolicTensor((512,), "float32")
    options = {"w": w, "rows": SymbolicSize("rows"), "text": ["a", 4]}
    derived = derive_call(
        scaled,
        ((x, [w]),),
        {"options": options, "factor": 3, "plain": "as it is"},
        {"rows": 64, "unused": 5},
        gpu="cuda:90",
        machine_code=False,
    )
    assert derived.target == f"{__name__}:scaled"
    assert dict(derived.params) == {"rows": 64}
    assert derived.formulas
    assert (str(derived.formulas.read_bytes), str(derived.formulas.write_bytes)) == ("3072*rows", "1024*rows")
    assert derived.launches[0].registers is None
    assert derived.environment
    assert derived.environment["compiled_for"] == "cuda:90"


STRIDED = """
import torch, triton, triton.language as tl

@triton.jit
def strided_kernel(x, out, row_stride, col_stride, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    for start in range(0, cols, BLOCK):
        col = start + tl.arange(0, BLOCK)
        value = tl.load(x + row * row_stride + col * col_stride, col < cols)
        tl.store(out + row * cols + col, value, col < cols)

def copy(x):
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    strided_kernel[(x.shape[0],)](x, out, x.stride(0), x.stride(1), x.shape[1], BLOCK=64)

def copy_of_contiguous(x):
    copy(x if x.is_contiguous() else x.contiguous())
"""


@pytest.mark.slow
def test_views_are_strided(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same formula of bytes, and other sectors.

    A branch of host code for strided inputs runs.
    """
    (tmp_path / "strided_copies.py").write_text(STRIDED)
    monkeypatch.syspath_prepend(tmp_path)
    module: Any = importlib.import_module("strided_copies")
    x, n = SymbolicTensor(("rows", "cols"), "float16"), SymbolicSize("n")
    by_columns = SymbolicTensor(("rows", "cols"), "float16", ((1,), ("rows",)))
    of_wider = SymbolicTensor(("rows", "n"), "float16", (("cols",), (1,)))

    def found(call: Any, *arguments: Any, x: Any = x, **sizes: int) -> Any:
        return recorded(
            derive_call(call, (x, *arguments), {}, {"rows": 64, "cols": 64, **sizes}, gpu="cuda:90", machine_code=False)
        )

    contiguous = found(module.copy)
    transposed = found(lambda x: module.copy(x.t()))
    sliced = found(lambda x, n: module.copy(x[:, :n]), n, n=32)
    copied = found(lambda x: module.copy_of_contiguous(x.t()))
    assert contiguous.texts == transposed.texts == {"reads": "2*cols*rows", "writes": "2*cols*rows"}
    sectors = [one.facts["sector_bytes"] for one in (contiguous, transposed, sliced)]
    assert sectors == [2 * 8192, 8192 + 16 * 8192, 8192]
    assert (sliced.texts["reads"], sliced.where) == ("2*n*rows", ("n <= cols",))
    assert copied.texts == {**contiguous.texts, "torch_reads": "2*cols*rows", "torch_writes": "2*cols*rows"}
    by_strides = found(module.copy, x=by_columns)
    assert (by_strides.texts, by_strides.other_sectors) == (transposed.texts, transposed.other_sectors)
    assert by_strides.facts == transposed.facts
    wider = found(module.copy, x=of_wider, n=32)
    assert (wider.texts["reads"], wider.facts) == ("2*n*rows", sliced.facts)
    assert found(module.copy_of_contiguous, x=by_columns).texts == copied.texts


@pytest.mark.parametrize(
    ("strides", "expected"),
    [((1, "rows"), (1, 3)), (("pitch", 1), (8, 1)), (("2*cols*pitch", "2"), (80, 2)), ((0, 1), (0, 1)), (None, (5, 1))],
)
def test_strides(strides: Any, expected: tuple[int, int]) -> None:
    factors = None if strides is None else strides_of(strides, 2)
    values = {"rows": 3, "cols": 5, "pitch": 8}
    for dtype in ("float16", "int64"):
        tensor = made(SymbolicTensor(("rows", "cols"), dtype, factors), values, "cpu")
        assert (tuple(tensor.shape), tensor.stride()) == ((3, 5), expected)
        last = 1 + 2 * expected[0] + 4 * expected[1]
        assert tensor.untyped_storage().nbytes() == last * tensor.element_size()
        assert is_placeholder(tensor) == (dtype == "int64")


@pytest.mark.parametrize("strides", [(1,), (1, 2, 3), "rows", 4])
def test_strides_that_are_not_one_for_each_size(strides: Any) -> None:
    with pytest.raises(UsageError) as raised:
        strides_of(strides, 2)
    assert raised.value.what == f"strides are one for each of the 2 sizes, not {strides!r}"
    assert raised.value.remedy == 'For example traffic.tensor("rows", "cols", strides=("pitch", 1), pitch=4096).'


@pytest.mark.parametrize("stride", [-1, True, 1.0, None])
def test_a_stride_that_is_none(stride: Any) -> None:
    with pytest.raises(UsageError) as raised:
        strides_of((1, stride), 2)
    assert raised.value.what == f"a stride is a name, a product of names or a number of elements, not {stride!r}"
    assert raised.value.remedy == STRIDES


@pytest.mark.parametrize("stride", ["rows*", "", "rows+1", "2.5", "1" * 19, "pitch", "Sum"])
def test_a_stride_without_a_value_or_a_name(stride: str) -> None:
    traffic = Traffic("a test", {}, None, Path.cwd())
    with pytest.raises(UsageError, match=r"cannot name a size|has no value"):
        traffic.tensor("rows", "cols", strides=(stride, 1))
    assert traffic.tensor("rows", "cols", strides=("2*pitch", "rows"), pitch=8).strides == ((2, "pitch"), ("rows",))


IMPORTS_WHEN_CALLED = """
import triton, triton.language as tl

@triton.jit
def k(x, BLOCK: tl.constexpr):
    tl.store(x + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), 1)

def fill(x):
    from neighbour_of_gated import BLOCK

    k[(triton.cdiv(x.numel(), BLOCK),)](x, BLOCK=BLOCK)
"""


def test_a_function_by_its_path_imports_its_neighbours_when_called(tmp_path: Path) -> None:
    for at, block in (("one", 64), ("two", 128)):
        (tmp_path / at).mkdir()
        (tmp_path / at / "neighbour_of_gated.py").write_text(f"BLOCK = {block}\n")
        (tmp_path / at / "ops.py").write_text(IMPORTS_WHEN_CALLED)
        function = load_callable(f"{tmp_path / at / 'ops.py'}:fill")
        derived = derive_call(function, (SymbolicTensor(("n",), "int8"),), {}, {"n": 256}, gpu="cuda:90", machine_code=False)
        assert derived.launches[0].grid == (256 // block, 1, 1)


def test_sizes() -> None:
    sizes = Sizes()
    sizes.add(["rows", "cols", "rows"], {"cols": 7})
    assert sizes.values == {"rows": DEFAULT_SIZES[0], "cols": 7}
    sizes.add(["depth", "cols"], {"cols": 7})
    assert sizes.values == {"rows": DEFAULT_SIZES[0], "cols": 7, "depth": DEFAULT_SIZES[1]}
    for given, what in (({"cols": 8}, "cols is 7 and 8"), ({"b": 1, "a": 2}, "no size of this tensor is named a, b")):
        with pytest.raises(UsageError) as raised:
            sizes.add(["cols"], given)
        assert raised.value.what == what
    many = Sizes()
    many.add([f"n{at}" for at in range(10)], {})
    assert list(many.values.values()) == [*DEFAULT_SIZES, 56, 63]


EXAMPLE = 'For example traffic.tensor("rows", "cols", dtype="float16", rows=8192).'


@pytest.mark.parametrize("value", [0, -1, 1.5, True, "3"])
def test_a_size_that_is_no_number(value: Any) -> None:
    with pytest.raises(UsageError) as raised:
        Sizes().add(["rows"], {"rows": value})
    assert (raised.value.what, raised.value.remedy) == (f"rows must be a positive integer, not {value!r}", EXAMPLE)


@pytest.mark.parametrize("name", ["min", "for", "a b", "größe", "", "1a"])
def test_a_name_that_no_formula_can_have(name: str) -> None:
    with pytest.raises(UsageError) as raised:
        Sizes().add([name], {})
    assert (raised.value.what, raised.value.remedy) == (f"{name!r} cannot name a size in a formula", EXAMPLE)


@pytest.mark.parametrize("folder", ["", "/somewhere"])
def test_what_a_call_gives_to_the_derivation(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Arguments reach the function, from a file too, and options the derivation."""
    given: list[Any] = []

    def derive(target: Any, params: Any, **options: Any) -> Any:
        assert warnings.filters[0][0] == "ignore"
        target.call(device="cpu", rows=3)()
        return target.name, dict(params), options

    monkeypatch.setattr("ioaware.derivation.derive.derive", derive)
    monkeypatch.setattr("ioaware.targets.loading.folder_of_function", lambda function: folder)

    def function(x: Any, rows: int, *, scale: float) -> None:
        given.append((tuple(x.shape), rows, scale))

    arguments = (SymbolicTensor(("rows", 4), "float32"), SymbolicSize("rows"))
    found: Any = derive_call(
        function, arguments, {"scale": 0.5}, {"rows": 64, "other": 1}, gpu="cuda:80", machine_code=True, autotune={"BLOCK": 8}
    )
    name, params, options = found
    assert given == [((3, 4), 3, 0.5)]
    assert (name, params) == (f"{__name__}:{function.__qualname__}", {"rows": 64})
    assert options == {"gpu": find_gpu("cuda:80"), "machine_code": True, "autotune": {"BLOCK": 8}}
