"""What all verbs share: help, unknown names, exit codes, messages and pipes.

Messages are escaped, and pipes are closed.
"""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
from pathlib import Path

import click
import pytest

from ioaware import errors
from ioaware._deferred_gc import THRESHOLDS
from ioaware.cli import exit_codes
from ioaware.cli import main as cli
from ioaware.cli.main import VERBS, run
from ioaware.cli.options import Settings
from ioaware.errors import DataError, InconclusiveError, IoawareError, MachineError, NoKernelError, UsageError, WriteError

ROOT = Path(__file__).resolve().parents[2]


def ioaware(*arguments: str, **how: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ioaware", *arguments]
    return subprocess.run(command, cwd=ROOT, text=True, check=False, **{"capture_output": True, **how})


@pytest.fixture
def verb_that(monkeypatch: pytest.MonkeyPatch):
    """Return a function that replaces the action of `ioaware list`."""

    def install(action) -> None:
        @click.command("list")
        def command() -> int | None:
            return action()

        monkeypatch.setattr(cli.Verbs, "get_command", lambda self, context, name: command)

    return install


@pytest.mark.parametrize("name", VERBS)
def test_every_verb_has_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([name, "--help"], Settings()) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(f"Usage: ioaware {name}")
    assert all(flag in shown for flag in ("-v, --verbose", "-q, --quiet", "-h, --help"))


def test_help_names_every_verb(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--help"], Settings()) == 0
    shown = capsys.readouterr().out
    assert all(f"  {name} " in shown for name in VERBS)


def test_help_names_every_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    """The codes of all errors and all constants of the module."""
    import ioaware.sweep.runner  # noqa: F401 - defines an error of its own

    def codes(kind: type[IoawareError]) -> set[int]:
        return {kind.exit_code}.union(
            *(codes(child) for child in kind.__subclasses__() if child.__module__.startswith("ioaware."))
        )

    constants = {value for name, value in vars(exit_codes).items() if name.isupper() and isinstance(value, int)}
    assert run(["--help"], Settings()) == 0
    shown = capsys.readouterr().out.partition("Exit codes:")[2]
    assert {int(line.split()[0]) for line in shown.splitlines() if line.strip()} == constants | codes(IoawareError)


def test_flags_mean_the_same_everywhere(capsys: pytest.CaptureFixture[str]) -> None:
    """A short flag stands for one long name in all verbs."""
    meanings: dict[str, set[str]] = {}
    for name in VERBS:
        command = cli.ioaware.get_command(click.Context(cli.ioaware), name)
        assert command is not None
        for param in command.params:
            for short in (flag for flag in param.opts if len(flag) == 2):
                meanings.setdefault(short, set()).update(flag for flag in param.opts if flag.startswith("--"))
    assert meanings == {"-p": {"--param"}, "-o": {"--output"}, "-v": {"--verbose"}, "-q": {"--quiet"}}


def test_flags_of_every_verb_may_stand_before_it(capsys: pytest.CaptureFixture[str]) -> None:
    settings = Settings()
    assert run(["-q", "--verbose", "--json", "list"], settings) == 0
    assert settings == Settings(verbose=True, quiet=True)
    before = capsys.readouterr().out
    assert run(["list", "--json"], Settings()) == 0
    assert capsys.readouterr().out == before
    for arguments in ([], ["-q"]):
        assert run(arguments, Settings()) == 0
        assert capsys.readouterr().out.startswith("Usage: ioaware")
    assert run(["-v", "--version"], Settings()) == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["-p", "seq_len=4", "predict", "flash2"], ["No such option '-p'", "Options follow their verb"]),
        (["prdict"], ["no verb 'prdict'", "Did you mean predict?", "measure"]),
        (["predict"], ["Missing argument 'CASE'", "ioaware predict --help"]),
        (["list", "--nope"], ["No such option", "--nope"]),
        (["list", "surplus"], ["unexpected extra argument"]),
        (["predict", "flash3"], ["no case 'flash3'", "Did you mean flash", "standard, flash1, flash2"]),
        (["derive", "Flash2"], ["no case 'Flash2'", "Did you mean flash2?"]),
        (["derive", "backward"], ["no case 'backward'", "Cases: standard", "file.py:function"]),
        (["predict", "flash2", "-p", "seqlen=4"], ["no parameter 'seqlen'", "Did you mean seq_len?"]),
        (["predict", "flash2", "-p", "seq_len"], ["not name=value"]),
        (["predict", "flash2", "-p", "seq_len=x"], ["seq_len='x' cannot work", "an integer from 1"]),
        (["predict", "flash2", "-p", "dtype=int8"], ["float16 or bfloat16 or float32"]),
        (["predict", "flash2", "-p", "causal=true", "-p", "causal=false"], ["given twice"]),
        (["sweep", "nothing", "--store", "x.db"], ["no study 'nothing'"]),
        (["trace", "missing_file.py:f"], ["missing_file.py"]),
    ],
)
def test_messages_about_wrong_names_list_the_right_ones(
    arguments: list[str], words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments, Settings()) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("ioaware: ")
    assert "Traceback" not in shown.err
    for word in words:
        assert word in shown.err


CODES = {UsageError: 2, NoKernelError: 2, InconclusiveError: 3, MachineError: 5, WriteError: 5, DataError: 6}


def test_every_error_class_has_a_code_tested_here() -> None:
    public = {kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, IoawareError)}
    assert public - {IoawareError} == set(CODES)


@pytest.mark.parametrize(("kind", "code"), CODES.items())
def test_an_error_is_one_message_and_its_code(
    kind: type[IoawareError], code: int, verb_that, capsys: pytest.CaptureFixture[str]
) -> None:
    def action() -> None:
        raise kind("what happened", "first remedy\nsecond remedy")

    verb_that(action)
    assert run(["list"], Settings()) == code
    assert capsys.readouterr().err == "ioaware: what happened\n  first remedy\n  second remedy\n"


def test_a_bug_is_70_with_its_traceback_under_v_only(verb_that, capsys: pytest.CaptureFixture[str]) -> None:
    def action() -> None:
        raise RuntimeError("cracked \x1b[31m")

    verb_that(action)
    assert run(["list"], Settings()) == 70
    short = capsys.readouterr().err
    assert run(["list"], Settings(verbose=True)) == 70
    long = capsys.readouterr().err
    assert "unexpected RuntimeError: cracked \\x1b[31m" in short
    assert "Traceback" not in short
    assert "Traceback" in long
    assert "\x1b" not in short + long


def test_the_code_a_verb_returns_is_the_exit_code(verb_that) -> None:
    verb_that(lambda: 3)
    assert run(["list"], Settings()) == 3
    verb_that(lambda: None)
    assert run(["list"], Settings()) == 0


def test_full_garbage_collections_wait_for_the_end_of_a_verb(verb_that) -> None:
    seen: list[tuple[int, int, int]] = []
    verb_that(lambda: seen.append(gc.get_threshold()))
    before = gc.get_threshold()
    assert run(["list"], Settings()) == 0
    assert seen[0][2] >= THRESHOLDS[2]
    assert gc.get_threshold() == before


@pytest.mark.parametrize("kind", [KeyboardInterrupt, click.Abort])
def test_interrupted_is_130(kind: type[BaseException], verb_that, capsys: pytest.CaptureFixture[str]) -> None:
    def action() -> None:
        raise kind

    verb_that(action)
    assert run(["list"], Settings()) == 130
    assert capsys.readouterr().err == "ioaware: interrupted\n"


def test_a_real_ctrl_c_is_130_without_a_traceback() -> None:
    code = "import time\nfrom ioaware.cli.commands import list as verb\n"
    code += "verb._data = lambda: (print('ready', flush=True), time.sleep(30))\n"
    code += "from ioaware.cli.main import main\nmain(['list'])"
    with subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
        child.send_signal(signal.SIGINT)
        _, error = child.communicate(timeout=20)
    assert child.returncode == 130
    assert error == b"ioaware: interrupted\n"


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("arguments", [["list"], ["list", "--json"], ["--help"]])
def test_a_closed_pipe_is_quiet(arguments: list[str], unbuffered: str) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    done = ioaware(*arguments, capture_output=False, stdout=writing, stderr=subprocess.PIPE, env=environment)
    os.close(writing)
    assert done.returncode == 141
    assert done.stderr == ""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="/dev/full is a Linux device")
def test_a_full_disk_is_one_message() -> None:
    with Path("/dev/full").open("w") as full:
        done = ioaware("list", capture_output=False, stdout=full, stderr=subprocess.PIPE)
    assert done.returncode == 5
    assert done.stderr == "ioaware: the output cannot be written (No space left on device)\n"


def test_closed_standard_output_is_no_bug() -> None:
    done = subprocess.run(["sh", "-c", f"{sys.executable} -m ioaware list >&-"], cwd=ROOT, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


HOSTILE = [
    "\x1b[31mred",
    "\x1b]0;title\x07",
    "a\rb",
    "\u202egnp",
    "\x9b31m",
    "nul\x08\x08",
    "[bold]markup[/bold]",
    "x" * 10_000,
]


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize(
    "place", [["{}"], ["predict", "{}"], ["predict", "flash2", "-p", "{}=1"], ["predict", "flash2", "-p", "dtype={}"]]
)
def test_hostile_text_does_not_reach_the_terminal_raw(text: str, place: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run([part.format(text) for part in place], Settings()) == 2
    shown = capsys.readouterr().err
    assert not any(character in shown for character in "\x1b\x07\r\u202e\x9b\x08")


def test_narrow_encodings_get_escapes_instead_of_a_crash() -> None:
    done = ioaware("list", env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert done.returncode == 0
    assert done.stdout.isascii()


@pytest.mark.parametrize(
    ("words", "index", "offered"),
    [("ioaware ver", 1, {"verdict", "verify"}), ("ioaware derive --g", 2, {"--gpu", "--gpus"}), ("ioaware nope x", 2, set())],
)
def test_the_shell_completes_verbs_and_options(words: str, index: int, offered: set[str]) -> None:
    environment = {**os.environ, "_IOAWARE_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(index)}
    done = ioaware(env=environment)
    assert (done.returncode, done.stderr) == (0, "")
    assert {line.partition(",")[2] for line in done.stdout.split()} == offered


def test_the_completion_script_is_printed() -> None:
    done = ioaware(env={**os.environ, "_IOAWARE_COMPLETE": "bash_source"})
    assert done.returncode == 0
    assert "complete -o nosort -F _ioaware_completion ioaware" in done.stdout
