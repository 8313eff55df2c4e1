"""Guessed types, shapes and values in the tests that `ioaware init` writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from ioaware.gate.setup import first_tests
from ioaware.gate.setup.call_guesses import first_guesses, needs_person
from ioaware.gate.setup.gated_calls import GatedCall
from ioaware.gate.setup.host_functions import HostFunction, find_host_functions
from ioaware.gate.setup.host_params import HostParam

KERNEL = "import triton\n\n@triton.jit\ndef k(x):\n    pass\n\n"


def only(tmp_path: Path, source: str, name: str = "ops.py") -> HostFunction:
    (tmp_path / name).write_text(KERNEL + source)
    (found,) = find_host_functions(tmp_path)
    return found


@pytest.mark.parametrize(
    ("body", "dtype"),
    [
        ("assert x.dtype == torch.float32", "float32"), ("assert x.dtype is torch.bfloat16", "bfloat16"),
        ("assert x.dtype in (torch.half, torch.float32)", "float16"), ("assert x.dtype in [torch.double]", "float64"),
        ("if x.dtype != torch.float: raise TypeError", "float32"), ("assert x.dtype == w.dtype", "float16"),
        ("assert x.dtype == torch.int8", "float16"), ("assert y.dtype == torch.float32", "float16"), ("pass", "float16"),
        ("assert x.dtype in DTYPES\n    assert x.dtype == torch.float32\n    assert x.dtype != torch.float16", "float32"),
    ],
)  # fmt: skip
def test_types_are_those_that_the_source_compares_with(tmp_path: Path, body: str, dtype: str) -> None:
    function = only(tmp_path, f"def f(x, w):\n    M, N = x.shape\n    {body}\n    k[(1,)](x, w)\n")
    found = next(one for one in first_guesses(function) if one.arguments["w"] == ("M", "N"))
    assert found.params() == {"x": f"{dtype}[M, N]", "w": f"{dtype}[M, N]"}
    text = first_tests.tests_text([GatedCall(function, ".", "ops", found)])
    assert f'x = traffic.tensor("M", "N", dtype="{dtype}", M=4096, N=2048)' in text
    assert f'w = traffic.tensor("M", "N", dtype="{dtype}")' in text


def test_names_that_two_modules_have(tmp_path: Path) -> None:
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "ops.py").write_text(KERNEL + "def f(x):\n    n = x.numel()\n    k[(1,)](x)\n")
    (tmp_path / "a.py").write_text(
        KERNEL
        + "def f(x, *, w: float):\n    n = x.numel()\n    k[(1,)](x)\n\n\ndef g(g):\n    n = g.shape[0]\n    k[(n,)](g)\n"
    )
    found = find_host_functions(tmp_path)
    assert [one.place for one in found] == ["a.py:f", "a.py:g", "pkg/ops.py:f"]
    modules = {"a.py": "a", "pkg/ops.py": "pkg.ops"}
    text = first_tests.tests_text([GatedCall(one, ".", modules[one.path], first_guesses(one)[0]) for one in found])
    assert "\nfrom a import f as a_f, g\nfrom pkg.ops import f as pkg_ops_f\n\n\ndef test_a_f(traffic):\n" in text
    assert "    assert traffic(a_f, x, w=0.5) == traffic.snapshot()\n" in text
    g_ = '    g_ = traffic.tensor("n", "cols", dtype="float16", n=4096, cols=2048)\n'
    assert f"{g_}    assert traffic(g, g_) == " in text


def test_functions_that_are_no_host_functions(tmp_path: Path) -> None:
    body = "def f(x):\n    k[(1,)](x)\n\n\ndef bench_f(x):\n    k[(1,)](x)\n"
    for name in ("test_ops.py", "conftest.py", "setup.py", "z.py", "a.py"):
        (tmp_path / name).write_text(KERNEL + body)
    assert [one.place for one in find_host_functions(tmp_path)] == ["a.py:f", "z.py:f"]


def test_values_and_shapes_that_are_guessed(tmp_path: Path) -> None:
    flag = only(tmp_path, "def f(x, flag: bool, scale: float):\n    n, = x.shape\n    k[(1,)](x)\n")
    assert [one.arguments for one in first_guesses(flag) if one.dtypes["x"] == "float16"] == [
        {"x": ("n",), "flag": flag, "scale": 0.5} for flag in (False, True)
    ]
    wide = only(tmp_path, "def f(x):\n    b = x.shape[2]\n    k[(1,)](x)\n")
    assert list(dict.fromkeys(one.arguments["x"] for one in first_guesses(wide))) == [
        ("batch", "rows", "b"), ("batch", "heads", "b", "head_dim"),
    ]  # fmt: skip
    two = only(tmp_path, "def f(x, w):\n    a, b, c = x.shape\n    w.stride(1)\n    k[(1,)](x)\n")
    assert list(dict.fromkeys(one.arguments["w"] for one in first_guesses(two))) == [("b", "c"), ("a", "b", "c")]
    unknown = only(tmp_path, "def f(x):\n    k[(1,)](x)\n")
    assert needs_person(unknown) == ""
    assert list(dict.fromkeys(one.arguments["x"] for one in first_guesses(unknown)))[:2] == [("rows", "cols"), ("n",)]
    assert needs_person(only(tmp_path, "def f(scale: float):\n    k[(1,)](scale)\n")) == "it takes no tensor"


def test_a_parameter_starts_unknown() -> None:
    assert HostParam("x") == HostParam("x", "unknown", False, None, {}, 0, "", [])
