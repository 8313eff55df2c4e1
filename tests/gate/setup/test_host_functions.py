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
    assert [(one.place, one.kernels, one.indirect) for one in found] == [
        ("ops.py:a", ("ops.py:k",), False),
        ("ops.py:b", ("ops.py:k",), True),
    ]
    assert found[1].calls == {"ops.py:a"}


@pytest.mark.parametrize("launch", ["wrap_triton(k)[(1,)](x)", "torch.library.wrap_triton(ops.k)[grid](x)"])
def test_a_kernel_wrapped_for_the_compiler(tmp_path: Path, launch: str) -> None:
    assert only(tmp_path, f"def a(x):\n    {launch}\n").kernels == ("ops.py:k",)


OPAQUE = """
class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, *args, **kwargs):
        return Scale._launch(*args)

    @staticmethod
    def _launch(x, factor):
        k[(1,)](x)
"""


def test_an_autograd_function_that_tells_no_call_is_called_by_its_wrapper(tmp_path: Path) -> None:
    (tmp_path / "functional.py").write_text(
        "def scale(x, factor):\n    return ops.Scale.apply(x, factor)\n\ndef other(x): ...\n"
    )
    (found,) = functions(tmp_path, OPAQUE)
    assert (found.place, found.kernels, found.indirect) == ("functional.py:scale", ("ops.py:k",), True)
    assert [param.name for param in found.params] == ["x", "factor"]


@pytest.mark.parametrize("body", ["k[(1,)](x)", "return Scale._launch(x, factor)", "return launches(x)"])
def test_an_autograd_function_comes_before_what_it_calls(tmp_path: Path, body: str) -> None:
    (tmp_path / "functional.py").write_text("def scale(x, factor):\n    return ops.Scale.apply(x, factor)\n")
    source = OPAQUE.replace("ctx, *args, **kwargs", "ctx, x, factor").replace("return Scale._launch(*args)", body)
    found = functions(tmp_path, f"def launches(x):\n    k[(1,)](x)\n{source}")
    assert [one.place for one in found] == ["ops.py:Scale.apply", "ops.py:launches", "functional.py:scale"]
    assert [param.name for param in found[0].params] == ["x", "factor"]
    assert ("ops.py:launches" in found[0].calls) is ("launches" in body)


def test_a_backward_pass_that_launches(tmp_path: Path) -> None:
    source = (
        "def gradient(x):\n    k[(1,)](x)\n\n"
        "class Scale(Function):\n    def forward(ctx, x): ...\n    def backward(ctx, g):\n        return gradient(g)\n"
    )
    applied, gradient = functions(tmp_path, source)
    assert (applied.name, applied.backward, applied.kernels) == ("Scale.apply", True, ("ops.py:k",))
    assert (gradient.name, gradient.backward, gradient.indirect) == ("gradient", False, False)


def test_kernels_of_one_name_in_two_files(tmp_path: Path) -> None:
    source = "def a(x):\n    k[(1,)](x)\n"
    (tmp_path / "more.py").write_text(KERNELS + source)
    (tmp_path / "third.py").write_text("from ops import k\n\ndef c(x):\n    k[(1,)](x)\n")
    assert [(one.place, one.kernels) for one in functions(tmp_path, source)] == [
        ("more.py:a", ("more.py:k",)),
        ("ops.py:a", ("ops.py:k",)),
    ]


def test_parameters_of_what_a_function_calls_say_what_its_own_are(tmp_path: Path) -> None:
    source = (
        "def inner(t, w, *, eps):\n    M, N = t.shape\n    k[(1,)](t, eps)\n\n"
        "def outer(x, v, e):\n    inner(x, w=v, eps=e)\n    outer(x, v, e)\n"
    )
    outer = functions(tmp_path, source)[1]
    assert [(one.name, one.kind, one.rank) for one in outer.params] == [
        ("x", "tensor", 2),
        ("v", "unknown", None),
        ("e", "unknown", None),
    ]
    assert outer.params[0].sizes == {0: "M", 1: "N"}


def test_a_kernel_says_which_parameters_are_tensors(tmp_path: Path) -> None:
    (tmp_path / "ops.py").write_text(
        "import triton\n\n@triton.jit\ndef k(x_ptr, w_ptr, n):\n    w = w_ptr + 2\n    tl.store(x_ptr + n, tl.load(w - n))\n\n"
        "def f(a, b, c):\n    k[(1,)](a, w_ptr=b, n=c)\n"
    )
    (found,) = find_host_functions(tmp_path)
    assert [one.kind for one in found.params] == ["tensor", "tensor", "unknown"]


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
        "def f(a, b: torch.Tensor, c: 'Tensor | None', d: Optional[float], e: bool, *, g, h=3):\n"
        "    torch.empty_like(a)\n    k[(1,)](a, b, g)\n"
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


@pytest.mark.parametrize("signature", ["x, mode: str", "d: float", ""])
def test_what_no_guess_can_know(tmp_path: Path, signature: str) -> None:
    assert needs_person(only(tmp_path, f"def f({signature}):\n    k[(1,)](0)\n"))


def test_small_tensors_are_tried_first(tmp_path: Path) -> None:
    source = "def f(x, w):\n    M, N = x.shape\n    assert x.dtype == torch.half\n    k[(1,)](x, w)\n"
    found = shapes(only(tmp_path, source))
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
    for package in ("pkg", "src/inner", "pkg/plain/deep"):
        (tmp_path / package).mkdir(parents=True)
        (tmp_path / package / "__init__.py").touch()
    places = {
        "a.py": (".", "a"),
        "ops/a.py": (".", "ops.a"),
        "pkg/a.py": (".", "pkg.a"),
        "src/a.py": ("src", "a"),
        "src/inner/a.py": ("src", "inner.a"),
        "my-ops/a.py": (".", ""),
        "pkg/plain/a.py": (".", "pkg.plain.a"),
        "pkg/plain/deep/a.py": (".", "pkg.plain.deep.a"),
        "src/inner/plain/a.py": ("src", "inner.plain.a"),
    }
    assert {path: import_place(tmp_path, path) for path in places} == places


def test_float32_is_tried_where_the_source_names_no_type(tmp_path: Path) -> None:
    function = only(tmp_path, "def f(x):\n    M, N = x.shape\n    k[(1,)](x)\n")
    assert [guess.params() for guess in first_guesses(function)] == [{"x": "float16[M, N]"}, {"x": "float32[M, N]"}]
    function = only(tmp_path, "def f(x):\n    M, N = x.shape\n    assert x.dtype == torch.bfloat16\n    k[(1,)](x)\n")
    assert [guess.params() for guess in first_guesses(function)] == [{"x": "bfloat16[M, N]"}]


def test_one_parameter_is_changed_before_two(tmp_path: Path) -> None:
    function = only(
        tmp_path, "def f(x, a: int, b: bool):\n    M, N = x.shape\n    assert x.dtype == torch.half\n    k[(1,)](x)\n"
    )
    tried = [tuple(guess.arguments.values())[1:] for guess in first_guesses(function)]
    assert tried == [(16, False), (16, True), (2, False), (2, True)]
