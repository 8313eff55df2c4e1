"""Interrupted commands and unwritable outputs: one exit code, no files left.

There is one short message.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ioaware.cli import main as cli
from ioaware.cli.main import VERBS, run
from ioaware.cli.options import Settings
from ioaware.cli.reports import report_data
from ioaware.errors import UsageError

ROOT = Path(__file__).resolve().parents[2]
WITH_OUTPUT = {
    "predict": ["flash2"],
    "derive": ["missing.py:work"],
    "explain": ["missing.py:work"],
    "trace": ["missing.py:work"],
    "measure": ["missing.py:work"],
    "verify": [],
    "bench": ["attention"],
    "fuse": ["missing.py:work"],
    "simulate": ["missing.py:work"],
    "advise": ["missing.py:work"],
    "calibrate": [],
    "walk": ["missing.py:work"],
    "check": ["missing.py:work", "--max-bytes", "1"],
    "verdict": ["missing.py:work"],
    "diff": ["missing.py:work", "missing.py:other"],
    "coverage": [],
    "compare": ["missing.db", "missing2.db"],
    "accuracy": [],
    "export": ["--store", "missing.db"],
}


def run_and_signal(code: str, number: signal.Signals, tmp_path: Path, *path: Path) -> subprocess.CompletedProcess[str]:
    """Run Python that prints `ready`, then send it a signal."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(map(str, (*path, ROOT))),
        "TMPDIR": str(tmp_path),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    arguments = [sys.executable, *(["-c", code] if code else ["-m", "ioaware", "trace", "flash2", "-p", "seq_len=16"])]
    with subprocess.Popen(
        arguments, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        child.send_signal(number)
        out, error = child.communicate(timeout=20)
    return subprocess.CompletedProcess(arguments, child.returncode, out, error)


def test_every_verb_with_an_output_is_in_the_table() -> None:
    import click

    context = click.Context(cli.ioaware)
    options = {
        name: {flag for option in cli.ioaware.get_command(context, name).params for flag in option.opts} for name in VERBS
    }
    assert {name for name, flags in options.items() if "-o" in flags} == {*WITH_OUTPUT, "report", "history"}


@pytest.mark.parametrize("verb", WITH_OUTPUT)
def test_an_output_that_cannot_be_written_is_5_before_any_work(
    verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The targets do not exist, which would be another error once work began."""
    (tmp_path / "file").write_text("x")
    for output in (tmp_path / "missing" / "out", tmp_path / "file" / "out", tmp_path):
        assert run([verb, *WITH_OUTPUT[verb], "-o", str(output)], Settings()) == 5
        assert f"{output}: cannot be written" in capsys.readouterr().err
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


def test_a_report_that_cannot_be_written_is_5_before_any_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(report_data, "theory_points", lambda: pytest.fail("work has begun"))
    (tmp_path / "file").write_text("x")
    assert run(["report", "-o", str(tmp_path / "file")], Settings()) == 5
    assert "cannot be written" in capsys.readouterr().err


def test_a_store_that_cannot_be_written_is_5(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["sweep", "forward", "--store", str(tmp_path / "missing" / "s.db")], Settings()) == 5
    assert "cannot be written" in capsys.readouterr().err


@pytest.mark.parametrize("verbose", [False, True])
@pytest.mark.parametrize("kind", [UsageError, RuntimeError])
def test_a_message_of_ten_megabytes_is_cut(
    kind: type[Exception], verbose: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object) -> None:
        raise kind("the beginning " + "x" * 10**7 + " the end")

    monkeypatch.setattr(cli, "_verb_first", fail)
    assert run(["list"], Settings(verbose=verbose)) == (2 if kind is UsageError else 70)
    shown = capsys.readouterr().err
    assert len(shown) < (60_000 if verbose else 6_000)
    assert "the beginning xxx" in shown
    assert "the end" in shown


@pytest.mark.parametrize("digits", [401, 5000])
@pytest.mark.parametrize(
    "command",
    [
        "derive flash2 -p seq_len={0}", "predict flash2 -p {0}=1", "derive {0}", "derive {0}.py:f",
        "derive flash2 --gpu {0}", "derive flash2 --memory {0}", "derive flash2 --timeout {0}", "verify {0}",
        "derive json:dumps -p obj=f32[rows={0}]", "derive json:dumps -p obj=f32[{0}]",
    ],
)  # fmt: skip
def test_a_number_of_hundreds_of_digits_is_refused_in_short(
    command: str, digits: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(command.format("1" * digits).split(), Settings()) == 2
    assert len(capsys.readouterr().err) < 1_500


def test_a_target_with_a_long_message_is_one_short_note(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "loud.py").write_text("def work():\n    raise RuntimeError('x' * 10**7)\n")
    assert run(["trace", f"{tmp_path}/loud.py:work"], Settings()) != 0
    shown = capsys.readouterr()
    assert len(shown.err) + len(shown.out) < 6_000
    study = tmp_path / "loud.toml"
    study.write_text(f'[[grid]]\nsources = ["trace"]\ntargets = ["{tmp_path}/loud.py:work"]\n')
    assert run(["sweep", str(study), "--store", str(tmp_path / "s.db")], Settings()) == 3
    shown = capsys.readouterr()
    assert len(shown.err) + len(shown.out) < 20_000
    assert (tmp_path / "s.db").stat().st_size < 200_000


SLEEPING = "import time\nprint('ready', flush=True)\n"


def test_ctrl_c_while_the_command_line_is_imported_has_no_traceback(tmp_path: Path) -> None:
    (tmp_path / "click.py").write_text(SLEEPING + "time.sleep(30)\n")
    done = run_and_signal("", signal.SIGINT, tmp_path, tmp_path)
    assert done.returncode == -signal.SIGINT, "a shell reports 130"
    assert done.stderr == ""


@pytest.mark.parametrize(
    "ending",
    ["time.sleep(30)", "try:\n    time.sleep(30)\nexcept BaseException as error:\n    raise ImportError('torn') from error"],
)
def test_ctrl_c_while_a_library_is_imported_is_130(ending: str, tmp_path: Path) -> None:
    """Some libraries turn any exception during their import into an ImportError."""
    (tmp_path / "torch.py").write_text(SLEEPING + ending + "\n")
    done = run_and_signal("", signal.SIGINT, tmp_path, tmp_path)
    assert (done.returncode, done.stderr) == (130, "ioaware: interrupted\n")


@pytest.mark.parametrize(
    "swallow",
    [
        "try:\n    time.sleep(30)\nexcept BaseException as error:\n    raise ImportError('torn') from error",
        "try:\n    time.sleep(30)\nexcept BaseException:\n    time.sleep(30)",
    ],
)
def test_a_termination_that_a_library_swallows_ends_the_command(swallow: str, tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text(SLEEPING + swallow + "\n")
    code = (
        "from ioaware.cli import signals\nfrom ioaware.cli.main import main\nsignals.AGAIN_S = 0.2\n"
        "main(['trace', 'flash2', '-p', 'seq_len=16'])"
    )
    done = run_and_signal(code, signal.SIGTERM, tmp_path, tmp_path)
    assert (done.returncode, done.stderr) == (143, "")


def test_a_termination_is_no_exit_of_the_target(tmp_path: Path) -> None:
    """A target's `sys.exit` is an error of the target; a signal is not."""
    (tmp_path / "slow.py").write_text("import os, time\ndef work():\n    os.write(1, b'ready\\n')\n    time.sleep(30)\n")
    code = (
        "from ioaware.cli import signals\nsignals.install()\nfrom ioaware.cli.main import run\n"
        "from ioaware.cli.options import Settings\nimport sys\n"
        f"sys.exit(run(['derive', {str(tmp_path / 'slow.py:work')!r}], Settings()))"
    )
    done = run_and_signal(code, signal.SIGTERM, tmp_path)
    assert (done.returncode, done.stderr) == (143, "")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_terminated_command_leaves_no_directory(number: signal.Signals, tmp_path: Path) -> None:
    code = (
        "import tempfile, time\nfrom ioaware.cli.commands import list as verb\n"
        "def work():\n    with tempfile.TemporaryDirectory():\n        print('ready', flush=True)\n        time.sleep(30)\n"
        "verb._data = work\nfrom ioaware.cli.main import main\nmain(['list'])"
    )
    done = run_and_signal(code, number, tmp_path)
    assert (done.returncode, done.stderr) == (128 + number, "")
    assert list(tmp_path.iterdir()) == []


def test_a_sweep_stopped_while_its_server_starts_leaves_no_directory(tmp_path: Path) -> None:
    """The server is importing torch, does not react, and is killed."""
    (tmp_path / "path").mkdir()
    (tmp_path / "path" / "torch.py").write_text("import time\ntime.sleep(30)\n")
    (tmp_path / "temporary").mkdir()
    code = (
        "import threading, os, signal\nfrom ioaware.cli.main import main\n"
        "def stop():\n"
        "    import pathlib, time\n"
        "    while not list(pathlib.Path(os.environ['TMPDIR']).iterdir()): time.sleep(0.05)\n"
        "    print('ready', flush=True)\n"
        "threading.Thread(target=stop).start()\n"
        f"main(['sweep', {str(tmp_path / 's.toml')!r}, '--store', {str(tmp_path / 's.db')!r}, '-q'])"
    )
    (tmp_path / "s.toml").write_text('[[grid]]\nsources = ["trace"]\ntargets = ["flash2"]\nparams = { seq_len = 16 }\n')
    done = run_and_signal(code, signal.SIGINT, tmp_path / "temporary", tmp_path / "path")
    assert done.returncode == 130
    assert list((tmp_path / "temporary").iterdir()) == []
