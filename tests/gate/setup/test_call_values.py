"""Constants that callers give to a host function are tried first."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ioaware.gate.repository.kernel_finder import tree_of
from ioaware.gate.setup import call_values, first_tests
from ioaware.gate.setup.call_guesses import first_guesses, needs_person
from ioaware.gate.setup.call_values import read_call_values
from ioaware.gate.setup.gated_calls import GatedCall
from ioaware.gate.setup.host_functions import HostFunction, find_host_functions
from ioaware.gate.setup.host_params import MOST_VALUES, Constant

KERNEL = "import triton\n\n@triton.jit\ndef k(x):\n    pass\n\ndef f(x, mode: str, eps):\n    k[(1,)](x)\n\n"

SAVED = """
class F:
    def forward(ctx, x, m="a"):
        ctx.mode = m

    def backward(ctx, d):
        f(d, ctx.mode, ctx.eps)
"""


def function(root: Path, callers: str, name: str = "f") -> HostFunction:
    (root / "ops.py").write_text(KERNEL)
    (root / "use.py").write_text(f"from ops import f\n\n{callers}\n")
    found = find_host_functions(root)
    read_call_values(root, found)
    return next(one for one in found if one.name == name and one.path == "ops.py")


@pytest.mark.parametrize(
    ("callers", "mode", "eps"),
    [
        ("f(x, 'llama', -1)", ["llama"], [-1]),
        ("f(x, eps=1e-6, mode=m)", [], [1e-6]),
        ("def g(x, m='llama', *, e=None):\n    return f(x, m, e)", ["llama"], [None]),
        ("def g(x, m='llama'):\n    def inner(e=2):\n        f(x, m, e)", ["llama"], [2]),
        (SAVED, ["a"], []),
        ("ops.f(x, 'a', True)\nf(x, 'b', 1)\nf(x, 'a', True)", ["a", "b"], [True, 1]),
        ("f(x, 'a')\nf(x, 'b')\nf(x, 'c')\nf(x, 'd')", ["a", "b", "c"], []),
        ("f(*values)", [], []),
        ("g(x, 'a', 1)", [], []),
    ],
)  # fmt: skip
def test_values_of_callers(tmp_path: Path, callers: str, mode: list[Constant], eps: list[Constant]) -> None:
    found = function(tmp_path, callers)
    values = [param.values for param in found.params]
    assert values == [[], mode, eps]
    assert [list(map(type, one)) for one in values] == [[], list(map(type, mode)), list(map(type, eps))]
    assert all(len(one) <= MOST_VALUES for one in values)


AUTOGRAD = """
import torch

class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, mode: str, eps=1.0):
        if mode == "mean":
            k[(1,)](x)

    @staticmethod
    def backward(ctx, d):
        k[(1,)](d)

class Module(torch.nn.Module):
    def forward(self, x, m="sum"):
        return ops.Scale.apply(x, m)

def last(x, dim: int):
    k[(1,)](x)
"""


def test_an_autograd_function_is_called_by_its_apply(tmp_path: Path) -> None:
    (tmp_path / "more.py").write_text(KERNEL + AUTOGRAD)
    found = [one for one in find_host_functions(tmp_path) if one.path == "more.py"]
    read_call_values(tmp_path, found)
    assert [one.name for one in found] == ["Scale.apply", "f", "last"]
    assert [(param.name, param.values) for param in found[0].params] == [("x", []), ("mode", ["mean", "sum"])]
    assert [(param.name, param.values) for param in found[2].params] == [("x", []), ("dim", [-1])]
    call = GatedCall(found[0], ".", "more", first_guesses(found[0])[0])
    text = first_tests.tests_text([call])
    assert "from more import Scale\n" in text
    assert "def test_Scale(traffic):" in text
    assert "assert traffic(Scale.apply, x, 'mean') == traffic.snapshot()" in text
    text = first_tests.tests_text([replace(call, backward=True)])
    assert "assert traffic.with_backward(Scale.apply, x, 'mean') == traffic.snapshot()" in text


def test_a_text_that_a_caller_gives_needs_no_person(tmp_path: Path) -> None:
    assert needs_person(function(tmp_path, "")) == "`mode` is a value that a person must choose"
    found = function(tmp_path, "f(x, 'llama', None)")
    assert needs_person(found) == ""
    first = first_guesses(found)[0]
    assert (first.arguments["mode"], first.arguments["eps"]) == ("llama", None)
    assert first.params()["eps"] is None


def test_a_name_that_two_modules_have_is_read_in_its_own_only(tmp_path: Path) -> None:
    (tmp_path / "more.py").write_text(KERNEL + "def g(x):\n    f(x, 'more', 1)\n")
    assert [param.values for param in function(tmp_path, "f(x, 'other', 2)").params] == [[], [], []]
    more = next(one for one in find_host_functions(tmp_path) if one.path == "more.py")
    read_call_values(tmp_path, [function(tmp_path, ""), more])
    assert [param.values for param in more.params] == [[], ["more"], [1]]


def test_a_file_without_the_name_is_not_parsed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of `Scale.apply` the class is named."""
    parsed: list[bytes] = []
    monkeypatch.setattr(call_values, "tree_of", lambda source: parsed.append(source) or tree_of(source))
    found = function(tmp_path, "f(x, 'a')")
    (tmp_path / "other.py").write_text("g(1)\n")
    parsed.clear()
    read_call_values(tmp_path, [found])
    assert sorted(parsed) == sorted((tmp_path / name).read_bytes() for name in ("ops.py", "use.py"))
    (tmp_path / "more.py").write_text(KERNEL + AUTOGRAD)
    (applied,) = [one for one in find_host_functions(tmp_path) if one.name == "Scale.apply"]
    parsed.clear()
    read_call_values(tmp_path, [applied])
    assert parsed == [(tmp_path / "more.py").read_bytes()]
    assert [param.values for param in applied.params] == [[], ["mean", "sum"]]


@pytest.mark.parametrize(
    "text", ["print f\n", "f(x, 'b')\0", "-" * 100_000 + "f"], ids=["other version", "zero byte", "too deep"]
)
def test_a_file_that_this_python_cannot_read_has_no_calls(tmp_path: Path, text: str) -> None:
    (tmp_path / "old.py").write_text(text)
    assert [param.values for param in function(tmp_path, "f(x, 'a')").params] == [[], ["a"], []]
