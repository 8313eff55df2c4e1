"""What a host function's source says of its parameters, and guessed calls.

The calls are guessed from what the source says.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from ioaware.gate.setup.call_guesses import MOST_GUESSES, first_guesses, needs_person
from ioaware.gate.setup.gated_calls import import_place
from ioaware.gate.setup.host_functions import HostFunction, find_host_functions

KERNELS = """
import triton

@triton.jit
def k(x):
    pass

"""


def functions(tmp_path: Path, source: str) -> list[HostFunction]:
    (tmp_path / "ops.py").write_text(KERNELS + source)
    return find_host_functions(tmp_path)


def only(tmp_path: Path, source: str) -> HostFunction:
    (found,) = functions(tmp_path, source)
    return found


def shapes(function: HostFunction) -> list[dict[str, object]]:
    return [guess.arguments for guess in first_guesses(function)]


def test_functions_that_launch_kernels(tmp_path: Path) -> None:
    found = functions(
        tmp_path,
        "def a(x):\n    k[(1,)](x)\n\ndef b(x):\n    a(x)\n\ndef test_c(x):\n    k[(1,)](x)\n\n"
        "class D:\n    def e(self, x):\n        k[(1,)](x)\n",
    )
    assert [(one.place, one.kernels) for one in found] == [("ops.py:a", ("k",))]


@pytest.mark.parametrize("launch", ["wrap_triton(k)[(1,)](x)", "torch.library.wrap_triton(ops.k)[grid](x)"])
def test_a_kernel_wrapped_for_the_compiler(tmp_path: Path, launch: str) -> None:
    assert only(tmp_path, f"def a(x):\n    {launch}\n").kernels == ("k",)


OPAQUE = """
class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, *args, **kwargs):
        return Scale._launch(*args)

    @staticmethod
    def _launch(x, factor):
        k[(1,)](x)
"""


@pytest.mark.parametrize("signature", ["ctx, *args", "ctx, x, factor"])
def test_an_autograd_function_that_tells_no_call_is_called_by_its_wrapper(tmp_path: Path, signature: str) -> None:
    (tmp_path / "functional.py").write_text(
        "def scale(x, factor):\n    return ops.Scale.apply(x, factor)\n\ndef other(x): ...\n"
    )
    (found,) = functions(tmp_path, OPAQUE)
    assert (found.place, found.kernels) == ("functional.py:scale", ("k",))
    assert [param.name for param in found.params] == ["x", "factor"]


def test_an_autograd_function_that_launches_is_called_itself(tmp_path: Path) -> None:
    (tmp_path / "functional.py").write_text("def scale(x, factor):\n    return ops.Scale.apply(x, factor)\n")
    found = only(tmp_path, OPAQUE.replace("ctx, *args", "ctx, x").replace("return Scale._launch(*args)", "k[(1,)](x)"))
    assert found.place == "ops.py:Scale.apply"


@pytest.mark.parametrize(
    ("body", "rank", "sizes"),
    [
        ("M, N = x.shape", 2, {0: "M", 1: "N"}),
        ("M, N = x.size()", 2, {0: "M", 1: "N"}),
        ("_, N = x.shape", 2, {1: "N"}),
        ("n = x.shape[0]", None, {0: "n"}),
        ("n, m = x.shape[0], x.size(2)", None, {0: "n", 2: "m"}),
        ("n = x.numel()", None, {0: "n"}),
        ("y = x.stride(1)", None, {1: "y"}),
        ("B, *rest = x.shape", None, {}),
    ],
)
def test_sizes_are_named_as_the_source_names_them(tmp_path: Path, body: str, rank: int | None, sizes: dict[int, str]) -> None:
    (param,) = only(tmp_path, f"def f(x):\n    {body}\n    k[(1,)](x)\n").params
    assert (param.kind, param.rank, param.sizes) == ("tensor", rank, sizes)


def test_kinds_of_parameters(tmp_path: Path) -> None:
    source = (
        "def f(a, b: torch.Tensor, c: 'Tensor', d: float, e: bool, *, g, h=3):\n    torch.empty_like(a)\n    k[(1,)](a, b, g)\n"
    )
    function = only(tmp_path, source)
    assert [(one.name, one.kind, one.keyword_only) for one in function.params] == [
        ("a", "tensor", False),
        ("b", "tensor", False),
        ("c", "tensor", False),
        ("d", "float", False),
        ("e", "bool", False),
        ("g", "unknown", True),
    ]
    assert not needs_person(function)


@pytest.mark.parametrize("signature", ["x, n: int", "x, mode: str", "d: float", ""])
def test_what_no_guess_can_know(tmp_path: Path, signature: str) -> None:
    assert needs_person(only(tmp_path, f"def f({signature}):\n    k[(1,)](0)\n"))


def test_small_tensors_are_tried_first(tmp_path: Path) -> None:
    found = shapes(only(tmp_path, "def f(x, w):\n    M, N = x.shape\n    k[(1,)](x, w)\n"))
    assert found == [
        {"x": ("M", "N"), "w": 0.5},
        {"x": ("M", "N"), "w": ("N",)},
        {"x": ("M", "N"), "w": ("M",)},
        {"x": ("M", "N"), "w": ("M", "N")},
    ]


def test_a_product_of_matrices(tmp_path: Path) -> None:
    found = shapes(only(tmp_path, "def f(a, b):\n    M, K = a.shape\n    _, N = b.shape\n    k[(1,)](a, b)\n"))
    assert found[0] == {"a": ("M", "K"), "b": ("K", "N")}


def test_sizes_are_all_different(tmp_path: Path) -> None:
    """Equal ones would let a tensor of the wrong shape pass."""
    for guess in first_guesses(only(tmp_path, "def f(a, b, c):\n    M, K = a.shape\n    k[(1,)](a, b, c)\n")):
        for sizes in (guess.sizes, guess.small):
            assert len(set(sizes.values())) == len(sizes)
            assert sizes.keys() >= {name for value in guess.arguments.values() if isinstance(value, tuple) for name in value}


def test_the_number_of_guesses_is_bounded(tmp_path: Path) -> None:
    assert len(shapes(only(tmp_path, "def f(a, b, c, d, e, g):\n    k[(1,)](a, b, c, d, e, g)\n"))) == MOST_GUESSES


def test_modules_are_imported_from_where_python_finds_them(tmp_path: Path) -> None:
    for package in ("pkg", "src/inner"):
        (tmp_path / package).mkdir(parents=True)
        (tmp_path / package / "__init__.py").touch()
    places = {
        "a.py": (".", "a"),
        "ops/a.py": (".", "ops.a"),
        "pkg/a.py": (".", "pkg.a"),
        "src/a.py": ("src", "a"),
        "src/inner/a.py": ("src", "inner.a"),
        "my-ops/a.py": (".", ""),
    }
    assert {path: import_place(tmp_path, path) for path in places} == places
