"""Targets: the ways to name one, and parameter parsing.

The message of every error is tested too.
"""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path

import pytest
import torch

from ioaware.case import Work
from ioaware.derivation.derive import derive
from ioaware.errors import UsageError
from ioaware.prediction import predict
from ioaware.targets.target import compulsory_bytes, load_target
from ioaware.tracing.trace import trace
from tests.support import SUPPORT
from tests.support.kernel_zoo.zoo_files import zoo

ZOO = SUPPORT / "kernel_zoo/zoo.py"
FAILING_LINE = 1 + next(i for i, line in enumerate(ZOO.read_text().splitlines()) if "tl.load(y_ptr + offsets" in line)


def write_file(directory: Path, text: str, name: str = "mine.py") -> Path:
    path = directory / name
    path.write_text(textwrap.dedent(text))
    return path


def error_message(spec: object, **params: object) -> str:
    with pytest.raises(UsageError) as caught:
        trace(load_target(spec), params)  # pyright: ignore[reportArgumentType]
    assert caught.value.exit_code == 2
    return str(caught.value)


def test_a_case_as_target_has_its_parameters() -> None:
    target = load_target("flash2")
    assert target.name == "flash2"
    assert target.resolve({"seq_len": "64", "dtype": "fp32"}, typed=True)["dtype"] == "float32"
    work = target.build(device="cpu", **target.resolve({"seq_len": 16, "head_dim": 16}))
    assert len(work.inputs) == 3


def test_a_file_is_imported_under_its_own_name_with_its_directory_on_the_path(tmp_path: Path) -> None:
    write_file(tmp_path, "WIDTH = 7\n", "neighbour.py")
    path = write_file(tmp_path, "from neighbour import WIDTH\ndef work(n: int = 1):\n    return lambda: (n, WIDTH, __name__)\n")
    target = load_target(f"{path}:work")
    n, width, module = target.build(device="cpu", n=3).run()  # pyright: ignore[reportGeneralTypeIssues]
    assert (n, width) == (3, 7)
    assert module != "mine"
    path.write_text(path.read_text().replace("WIDTH, ", "WIDTH + 1, "))
    assert load_target(f"{path}:work").build(device="cpu", n=3).run()[1] == 8  # pyright: ignore[reportIndexIssue]


def test_a_module_and_a_function() -> None:
    assert load_target("ioaware.params:resolve").name == "ioaware.params:resolve"

    def host(n: int = 2, device: str = "?"):
        return lambda: (n, device)

    target = load_target(host)
    assert target.name.endswith("host")
    assert [argument.name for argument in target.params] == ["n"]
    assert target.build(device="cuda", n=5).run() == (5, "cuda")


def test_a_function_that_returns_no_callable_is_the_work() -> None:
    calls: list[int] = []

    def host(n: int = 2) -> torch.Tensor:
        calls.append(n)
        return torch.ones(n)

    work = load_target(host).build(device="cpu", n=4)
    work.run()
    assert calls == [4, 4]


def test_a_function_may_return_a_work() -> None:
    work = Work(run=lambda: None)
    assert load_target(lambda: work).build(device="cpu") is work


def test_parameters_follow_the_signature() -> None:
    target = load_target(f"{ZOO}:required")
    kinds = {argument.name: (argument.kind, argument.default) for argument in target.params}
    assert kinds == {
        "n": ("int", None),
        "name": ("str", None),
        "factor": ("float", 0.5),
        "flip": ("bool", False),
        "dtype": ("dtype", "float16"),
        "limit": ("int", None),
        "anything": ("any", None),
    }
    typed = {"n": "4_096", "name": "3", "factor": "2", "flip": "yes", "dtype": "bf16", "limit": "none", "anything": "0.5"}
    values = target.resolve(typed, typed=True)
    expected = {"n": 4096, "name": "3", "factor": 2.0, "flip": True, "dtype": "bfloat16", "limit": None, "anything": 0.5}
    assert values == expected
    assert {name: type(value) for name, value in values.items()} == {name: type(value) for name, value in expected.items()}
    received = target.call(device="cpu", **values)
    assert received == (4096, "3", 2.0, True, torch.bfloat16, (1, 2), None, 0.5)
    assert target.resolve(values) == values


@pytest.mark.parametrize(("text", "value"), [("7", 7), ("-2", -2), ("1e3", 1000.0), ("off", False), ("relu", "relu"), ("1", 1)])
def test_an_untyped_parameter_is_parsed_by_its_form(text: str, value: object) -> None:
    given = {"n": 1, "name": "x", "anything": text}
    got = load_target(f"{ZOO}:required").resolve(given, typed=True)["anything"]
    assert (got, type(got)) == (value, type(value))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"name": "x"}, "n has no default and was not given"),
        ({"n": "many", "name": "x"}, "n='many' cannot work: n takes an integer"),
        ({"n": "2.5", "name": "x"}, "n='2.5' cannot work"),
        ({"n": 1, "name": "x", "flip": "maybe"}, "flip takes true or false"),
        ({"n": 1, "name": "x", "factor": "nope"}, "factor takes a number"),
        ({"n": 1, "name": "x", "dtype": "float99"}, "dtype takes the name of a torch dtype"),
        ({"n": 1, "name": "x", "shape": "1"}, "has no parameter 'shape'"),
        ({"n": 1, "nam": "x"}, "Did you mean name?"),
        ({"n": True, "name": "x"}, "n takes an integer"),
        ({"n": 1, "name": 5}, "name takes text"),
        ({"n": None, "name": "x"}, "n has no default"),
        ({"n": 1, "name": "x", "factor": None}, "factor takes a number"),
    ],
)
def test_wrong_parameters(given: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        load_target(f"{ZOO}:required").resolve(given, typed=True)  # pyright: ignore[reportArgumentType]
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("flash9", "there is no case 'flash9'"),
        (str(ZOO), "names a file and no function"),
        (f"{ZOO}:masked_ad", f"Did you mean {ZOO}:masked_add?"),
        ("nowhere/at_all.py:f", "there is no file nowhere/at_all.py"),
        ("no_such_module_here:f", "no_such_module_here cannot be imported: ModuleNotFoundError"),
        ("ioaware.params:", "names no function"),
        (f"{ZOO}:add_kernel", "is a Triton kernel"),
        (zoo("tuned").replace(":tuned", ":tuned_kernel"), "is a Triton kernel"),
        (f"{ZOO}:Doubled", "is not a function"),
        (f"{ZOO}:DEVICE", "is not a function"),
        (f"{ZOO}:positional", "takes n by position only"),
        (f"{ZOO}:launches_nothing", "launched no Triton kernel"),
        (f"{ZOO}:raises", f"raised AttributeError at zoo.py:{FAILING_LINE}: 'NoneType' object"),
        (f"{ZOO}:exits", "raised SystemExit at zoo.py"),
        (f"{ZOO}:times_itself", "Leave timing to ioaware measure"),
    ],
)
def test_wrong_targets(spec: str, message: str) -> None:
    assert message in error_message(spec)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "import os\n\nimport not_installed_at_all\n",
            "ModuleNotFoundError at mine.py:3: No module named 'not_installed_at_all'",
        ),
        ("x = 1\ndef broken(:\n", "SyntaxError at mine.py:2"),
        ("def deep():\n    return 1 / 0\n\ndeep()\n", "ZeroDivisionError at mine.py:2: division by zero"),
        ("raise SystemExit(3)\n", "SystemExit at mine.py:1: 3"),
    ],
)
def test_files_that_cannot_be_imported(tmp_path: Path, text: str, message: str) -> None:
    path = write_file(tmp_path, text)
    assert f"mine.py cannot be imported: {message}" in error_message(f"{path}:work")


def test_a_module_that_queries_the_gpu_at_import_gets_the_fake_one(tmp_path: Path) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    text = """
        import torch
        SMS = torch.cuda.get_device_properties("cuda").multi_processor_count
        def work():
            return lambda: SMS
        """
    path = write_file(tmp_path, text)
    assert load_target(f"{path}:work").build(device="cpu").run() == 132


@pytest.mark.parametrize("causal", [False, True])
def test_compulsory_bytes_of_a_case_are_the_predicted_ones(causal: bool) -> None:
    params = load_target("flash1").resolve({"seq_len": 50, "kv_len": 20, "heads": 3, "causal": causal})
    compulsory, predicted = compulsory_bytes("flash1", params), predict("flash1", **params).compulsory
    assert compulsory is not None
    assert predicted is not None
    assert (compulsory.read_bytes, compulsory.write_bytes) == (predicted.read_bytes, predicted.write_bytes)
    assert compulsory_bytes("file.py:flash1", params) is None


@pytest.mark.parametrize("text", ["inf", "-inf", "nan", "1e400", "9" * 4000, "9" * 5000])
@pytest.mark.parametrize("kind", ["n: int = 1", "n: float = 1.0", "n=1", "n"])
def test_numbers_that_no_record_can_hold_are_refused(kind: str, text: str, tmp_path: Path) -> None:
    """Refused before the function runs, since its result could not be written as JSON."""
    (tmp_path / "sized.py").write_text(f"def work({kind}):\n    raise RuntimeError('the function ran')\n")
    target = load_target(f"{tmp_path / 'sized.py'}:work")
    with pytest.raises(UsageError, match="cannot work"):
        target.resolve({"n": text}, typed=True)


def test_a_path_longer_than_any_file_name_is_refused() -> None:
    with pytest.raises(UsageError, match=r"cannot be read|no file"):
        load_target("a" * 5000 + ".py:work")


def test_integers_have_64_bits(tmp_path: Path) -> None:
    (tmp_path / "sized.py").write_text("def work(n: int = 1):\n    pass\n")
    target = load_target(f"{tmp_path / 'sized.py'}:work")
    assert target.resolve({"n": str(2**63 - 1)}, typed=True)["n"] == 2**63 - 1
    with pytest.raises(UsageError, match="64 bits"):
        target.resolve({"n": str(2**63)}, typed=True)


def test_a_users_parser_does_not_see_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = """
        import argparse, sys
        def parsed():
            parser = argparse.ArgumentParser()
            parser.add_argument("--n", type=int, default=5)
            return parser.parse_args().n
        N = parsed()
        sys.argv.append("--left-over")
        def work():
            assert parsed() == 5
            raise ValueError(f"n is {N}")
        """
    path = write_file(tmp_path, text)
    command_line = ["ioaware", "trace", "mine.py:work", "-p", "n=3"]
    monkeypatch.setattr("sys.argv", list(command_line))
    assert "raised ValueError at mine.py:11: n is 5" in error_message(f"{path}:work")
    assert sys.argv == command_line


AUTOGRAD = """
import torch
import triton
import triton.language as tl


@triton.jit
def scale_kernel(x, out, n, factor, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, at < n) * factor, at < n)


class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, factor=2.0):
        out = torch.empty_like(x)
        scale_kernel[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), factor, BLOCK=1024)
        return out

    @staticmethod
    def backward(ctx, grad):
        return grad, None


class Apart(torch.autograd.Function):
    @staticmethod
    def forward(x, factor=3.0):
        return Scale.apply(x, factor)

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass
"""


OPERATOR = """
@torch.library.custom_op("ioaware_test::scaled", mutates_args=(), device_types="cuda")
def scaled(x: torch.Tensor, factor: float = 2.0) -> torch.Tensor:
    out = torch.empty_like(x)
    scale_kernel[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), factor, BLOCK=1024)
    return out
"""


TRITON_OPERATOR = """
@torch.library.triton_op("ioaware_test::scaled_by_triton", mutates_args={})
def scaled(x: torch.Tensor, factor: float = 2.0) -> torch.Tensor:
    out = torch.empty_like(x)
    kernel = torch.library.wrap_triton(scale_kernel)
    kernel[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), factor, BLOCK=1024)
    return out
"""


@pytest.mark.parametrize("operator", [OPERATOR, TRITON_OPERATOR])
def test_a_custom_operator_takes_the_names_of_its_function(tmp_path: Path, operator: str) -> None:
    (tmp_path / "scale.py").write_text(AUTOGRAD.partition("class Scale")[0] + operator)
    target = load_target(f"{tmp_path / 'scale.py'}:scaled")
    assert [one.name for one in target.params] == ["x", "factor"]
    derived = derive(target, target.resolve({"x": "f32[n=4096]"}, typed=True))
    assert derived.requested is not None
    assert derived.requested.read_formula == "4*n"


@pytest.mark.parametrize(("name", "factor"), [("Scale", 2.0), ("Apart", 3.0)])
def test_apply_of_an_autograd_function_takes_the_names_of_forward(tmp_path: Path, name: str, factor: float) -> None:
    (tmp_path / "scale.py").write_text(AUTOGRAD)
    target = load_target(f"{tmp_path / 'scale.py'}:{name}.apply")
    assert [(one.name, one.default) for one in target.params[1:]] == [("factor", factor)]
    assert target.params[0].name == "x"
    derived = derive(target, target.resolve({"x": "f32[n=4096]"}, typed=True))
    assert derived.requested is not None
    assert derived.requested.read_formula == "4*n"
