"""Public errors: text, exit codes, and that the package raises each of them."""

from __future__ import annotations

import ast
import inspect
import os
from pathlib import Path

import pytest

from ioaware import errors
from ioaware.cli.main import run
from ioaware.cli.options import Settings
from ioaware.errors import IoawareError
from tests.support import ROOT

PUBLIC = {name: kind for name, kind in vars(errors).items() if inspect.isclass(kind) and issubclass(kind, IoawareError)}
ERRORS = {*PUBLIC, "BaselineError", "NoConfigurationError", "ReadsDataError", "SweepInterruptedError"}
EXIT_CODES = {
    "IoawareError": 70, "UsageError": 2, "NoKernelError": 2, "InconclusiveError": 3, "MachineError": 5,
    "DataError": 6, "WriteError": 5,
}  # fmt: skip


def test_each_error_has_its_exit_code() -> None:
    assert {name: kind.exit_code for name, kind in PUBLIC.items()} == EXIT_CODES


def test_a_message_says_what_and_then_what_to_do() -> None:
    error = errors.UsageError("there is no case 'a'", "See ioaware list.")
    assert str(error) == "there is no case 'a'\n  See ioaware list."
    assert (error.what, error.remedy, error.args) == ("there is no case 'a'", "See ioaware list.", ("there is no case 'a'",))
    assert str(errors.DataError("cut")) == "cut"


@pytest.fixture(scope="module")
def raised() -> list[tuple[str, str, ast.Call]]:
    """Where an error is raised, its name, and the call that makes it."""
    return [
        (f"{path.relative_to(ROOT)}:{node.lineno}", getattr(node.exc.func, "id", ""), node.exc)
        for path in sorted((ROOT / "ioaware").rglob("*.py"))
        if "Error(" in (text := path.read_text(encoding="utf-8"))
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call)
    ]


def test_the_package_raises_each_error(raised: list[tuple[str, str, ast.Call]]) -> None:
    assert {name for _, name, _ in raised} >= PUBLIC.keys() - {"IoawareError"}, "the base class of the others"


def test_each_error_says_what_to_do_next(raised: list[tuple[str, str, ast.Call]]) -> None:
    silent = [where for where, name, call in raised if name in ERRORS and len(call.args) + len(call.keywords) < 2]
    assert silent == []


def _template(part: ast.expr) -> str:
    """Return a text with `{}` for each value in it; a variable as its name."""
    match part:
        case ast.Constant(value=value):
            return str(value)
        case ast.JoinedStr(values=values):
            return "".join(_template(one) if isinstance(one, ast.Constant) else "{}" for one in values)
        case _:
            return ast.unparse(part)


RECORDED = Path(__file__).with_name("error_messages.txt")
"""Every message of the package: what is wrong, then what to do next."""


def test_every_message_is_as_recorded(raised: list[tuple[str, str, ast.Call]]) -> None:
    """Record anew with IOAWARE_RECORD=1, and read the diff as a user would."""
    found = [
        f"{where.partition(':')[0]} {name}\n" + "".join(f"  {_template(part)}\n" for part in call.args)
        for where, name, call in raised
        if name in ERRORS
    ]
    text = "\n".join(sorted(found))
    if os.environ.get("IOAWARE_RECORD") == "1":
        RECORDED.write_text(text, encoding="utf-8")
    assert text == RECORDED.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["derive", "no_such_case"], 2, "no_such_case"),
        (["predict", "flash2", "-p", "seq_len=many"], 2, "seq_len"),
        (["compare", "missing.jsonl", "missing.jsonl"], 4, "missing.jsonl"),
        (["simulate", "flash2", "--machine", "NO_SUCH_GPU"], 2, "NO_SUCH_GPU"),
        (["report", "--store", "missing.db"], 2, "missing.db"),
    ],
)
def test_an_error_of_the_user_is_one_message(
    arguments: list[str], code: int, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments, Settings()) == code
    shown = capsys.readouterr()
    assert words in shown.err
    assert "Traceback" not in shown.err + shown.out
    assert len(shown.err.strip().splitlines()) <= 6
