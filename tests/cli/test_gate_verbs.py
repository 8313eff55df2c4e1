"""`check` and `diff` on the command line: outputs and exit codes."""

from __future__ import annotations

import html
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ioaware.cli.main import run
from ioaware.cli.options import Settings
from tests.support.gate_rows import document

KERNEL = """
import torch, triton, triton.language as tl

@triton.jit
def double_kernel(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, i < n) * 2, i < n)

def double(n: int = 4096):
    x = torch.empty(n, device="cuda")
    double_kernel[(triton.cdiv(n, 256),)](x, torch.empty_like(x), n, BLOCK=256)
"""


def ioaware(*arguments: str) -> int:
    return run(list(arguments), Settings())


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "double.py").write_text(KERNEL)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_check_within_and_over_a_budget(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ioaware("check", "double.py:double", "--max-bytes", "8*n", "--vs-compulsory", "1") == 0
    assert "max_bytes      ok  32,768 B, the limit is 32,768 B at n=4096" in capsys.readouterr().out
    assert ioaware("check", "double.py:double", "--max-reads", "n", "--json", "--summary", "budgets.md") == 1
    found = json.loads(capsys.readouterr().out)
    assert (found["verdict"], found["budgets"][0]["budget"]) == ("WORSE", "max_reads")
    summary = html.unescape((folder / "budgets.md").read_text())
    assert "## Budgets of double.py:double: 1 of 1 failing" in summary
    assert "| WORSE | double.py:double | n=4096 | max_reads | 16,384 B, the limit is 4,096 B" in summary


@pytest.mark.parametrize(
    "limit", [(), ("--max-bytes", "q"), ("--max-bytes", "nan"), ("--vs-compulsory", "nan"), ("--max-spills", "-1")]
)
@pytest.mark.usefixtures("folder")
def test_check_refuses_invalid_budgets(limit: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert ioaware("check", "double.py:double", *limit) == 2
    assert "Traceback" not in capsys.readouterr().err


def save(path: Path, *args: Any, **kwargs: Any) -> str:
    path.write_text(json.dumps(document(*args, **kwargs)))
    return str(path)


def test_diff_of_saved_derivations(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old = save(tmp_path / "old.json")
    new = save(tmp_path / "new.json", "12*n", 12_000, ir_hash="ba9876543210")
    assert ioaware("diff", old, old) == 0
    assert "SAME: nothing that is gated differs" in capsys.readouterr().out
    assert ioaware("diff", old, new, "--json") == 1
    assert json.loads(capsys.readouterr().out)["verdict"] == "WORSE"
    assert ioaware("diff", new, old) == 0
    assert ioaware("diff", old, save(tmp_path / "moved.json", "12*n", 12_000, triton="3.9.0")) == 3
    assert "the toolchain moved: Triton 3.7.1 -> 3.9.0" in capsys.readouterr().out


def test_diff_without_a_side(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old = save(tmp_path / "old.json")
    (tmp_path / "cut.json").write_text("{")
    assert ioaware("diff", old, str(tmp_path / "none.json")) == 4
    assert ioaware("diff", old, str(tmp_path / "cut.json")) == 6
    assert capsys.readouterr().out == ""


def git(folder: Path, *arguments: str) -> None:
    author = ("-c", "user.name=a", "-c", "user.email=a@b")
    subprocess.run(["git", *author, *arguments], cwd=folder, check=True, capture_output=True)


@pytest.mark.slow
def test_diff_of_two_revisions(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The kernel's helper is in another file. Each side imports its own version of it."""
    helper, main = KERNEL.split("def double(")
    (folder / "helper.py").write_text(helper)
    (folder / "double.py").write_text("import torch, triton\nfrom helper import double_kernel\n\ndef double(" + main)
    git(folder, "init", "-q")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "one")
    (folder / "helper.py").write_text(helper.replace("* 2, i < n", "* 2 + tl.load(x + n - 1 - i, i < n), i < n"))
    assert ioaware("diff", "HEAD:double.py:double", "double.py:double") == 1
    printed = capsys.readouterr().out
    assert "reads: 4*n\n       8*n\nWORSE: reads: +16,384 at n=4096" in printed
    assert ioaware("diff", "nowhere:double.py:double", "nowhere:double.py:double") == 2
    assert ioaware("diff", "--", "--output=x:double.py:double", "-q:double.py:double") == 2
    assert "Traceback" not in capsys.readouterr().err
