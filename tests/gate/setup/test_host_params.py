"""What the source of a host function says of its parameters."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from ioaware.gate.setup.host_functions import find_host_functions
from ioaware.gate.setup.host_params import HostParam, params_of

KERNEL = "import triton\n\n@triton.jit\ndef k(x_ptr):\n    tl.store(x_ptr, 0)\n\n"


def param(source: str) -> HostParam:
    """Return the first parameter of the last function."""
    functions = {node.name: node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)}
    return next(params_of(list(functions.values())[-1], functions.get))


@pytest.mark.parametrize(
    ("annotation", "kind"),
    [
        ("torch.Tensor", "tensor"), ("'Tensor'", "tensor"), ("float", "float"), ("str", "text"),
        ("Optional[Tensor]", "tensor"), ("typing.Optional[torch.Tensor]", "tensor"), ("typing.optional[int]", "unknown"),
        ("int | None", "int"), ("int | float", "unknown"), ("Foo", "unknown"), ("'a b'", "unknown"), ("list[int]", "unknown"),
    ],
)  # fmt: skip
def test_kinds_by_annotation(annotation: str, kind: str) -> None:
    assert param(f"def f(x: {annotation}): ...").kind == kind


@pytest.mark.parametrize(
    ("source", "dtype"),
    [
        ("def f(token_ids: Tensor): ...", "int64"), ("def f(labels: Tensor): ...", "int64"), ("def f(labels): ...", ""),
        ("def f(ids: Tensor):\n    assert ids.dtype == torch.float32", "float32"), ("def f(x: Tensor): ...", ""),
        ("def f(ids: Tensor):\n    assert ids.dtype == torch.int32", "int64"),
        ("def f(x: Tensor):\n    assert x.dtype == torch.int32", ""), ("def f(x):\n    assert x.dtype in other", ""),
    ],
)  # fmt: skip
def test_types_by_name_and_comparison(source: str, dtype: str) -> None:
    assert param(source).dtype == dtype


@pytest.mark.parametrize("first", ["unknown(x)", "f(x)", "inner()"])
def test_what_cannot_be_read_does_not_end_the_reading(first: str) -> None:
    found = param(f"{KERNEL}def inner():\n    pass\n\ndef f(x):\n    {first}\n    k[(1,)](x)\n")
    assert found.kind == "tensor"


@pytest.mark.parametrize("annotation", ["", ": torch.device", ": Tensor"])
def test_a_device_is_the_gpu(annotation: str) -> None:
    source = f"def f(device{annotation}):\n    if device.type == 'cpu': k[(1,)](device)"
    assert param(source) == HostParam("device", "device", values=["cuda"])
    assert param(f"def f(*, device{annotation}): ...").keyword_only
    assert param("def f(devices): ...").kind == "unknown"


def test_the_last_dimension_is_tried_for_its_names() -> None:
    assert param("def f(dim: int): ...").values == [-1]
    assert param("def f(dim): ...").values == []
    assert param("def f(size: int): ...").values == []


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("ops.py", True), ("testing/a.py", True), ("tests.py", True), ("test/a.py", False), ("tests/a.py", False),
        ("pkg/tests/a.py", False), ("tests/pkg/a.py", False), ("benchmark/a.py", False), ("benchmarks/a.py", False),
        ("pkg/conftest.py", False), ("setup.py", False), ("test_a.py", False),
    ],
)  # fmt: skip
def test_functions_of_tests_are_left_out(tmp_path: Path, path: str, found: bool) -> None:
    (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / path).write_text(f"{KERNEL}def f(x):\n    k[(1,)](x)\n")
    assert [one.place for one in find_host_functions(tmp_path)] == [f"{path}:f"] * found


def test_a_name_of_two_files_is_neither(tmp_path: Path) -> None:
    inner = "def inner(t):\n    M, N = t.shape\n"
    (tmp_path / "ops.py").write_text(f"{KERNEL}def f(x):\n    inner(x)\n    k[(1,)](0)\n")
    for name in ("one.py", "two.py"):
        (tmp_path / name).write_text(f"{inner}    k[(1,)](t)\n")
        (found,) = [one for one in find_host_functions(tmp_path) if one.name == "f"]
        assert found.params[0].sizes == ({0: "M", 1: "N"} if name == "one.py" else {})
