"""Files of a gated repository that cannot be read, and what its source says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ioaware.errors import DataError, IoawareError
from ioaware.gate.repository import gate_config, kernel_finder
from ioaware.gate.repository.coverage import completed, coverage
from ioaware.gate.repository.gate_config import EXAMPLE, GateConfig, config_table, project_table, read_config
from ioaware.gate.repository.kernel_finder import find_kernels, python_files
from ioaware.gate.repository.ledger import LEDGER, REMEDY, Entry, Ledger, read_ledger, write_ledger

JIT = "import triton\n\n@triton.jit\ndef {name}(x):\n    {body}\n\n"


def raised(call: Any, *arguments: Any) -> tuple[str, str]:
    with pytest.raises(DataError) as error:
        call(*arguments)
    assert isinstance(error.value, IoawareError)
    return error.value.what, error.value.remedy


def test_a_project_file_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "pyproject.toml"
    assert (project_table(tmp_path), config_table(tmp_path), read_config(tmp_path)) == ({}, None, GateConfig("cuda:90", None))
    path.write_text("tool = 3\n")
    assert config_table(tmp_path) is None
    path.write_text("[other]\n")
    assert config_table(tmp_path) is None
    path.write_text("x")
    what, remedy = raised(project_table, tmp_path)
    assert what.startswith(f"{path}: not TOML (Expected")
    assert remedy == "Repair it."
    monkeypatch.setattr(gate_config, "LARGEST_BYTES", 10)
    path.write_text("a = 12345\n")
    assert project_table(tmp_path) == {"a": 12345}
    path.write_text("a = 123456\n")
    assert raised(project_table, tmp_path) == (f"{path}: not TOML (more than 10 bytes)", "Repair it.")
    path.unlink()
    path.mkdir()
    remedy = "Check the path and its permissions."
    assert raised(project_table, tmp_path) == (f"{path}: cannot be read (Is a directory)", remedy)


@pytest.mark.parametrize(
    ("table", "why"),
    [
        ("ioaware = 3", "[tool.ioaware] is no table"),
        ("ioaware.b = 1\nioaware.a = 2", "[tool.ioaware] has the unknown key a, b"),
        (f"ioaware.{'k' * 150} = 1", f"[tool.ioaware] has the unknown key {'k' * 100}"),
        ('ioaware.gpu = ""', "gpu of [tool.ioaware] is the name of a GPU"),
        ("ioaware.gpu = 90", "gpu of [tool.ioaware] is the name of a GPU"),
        ("ioaware.coverage = 100.5", "coverage of [tool.ioaware] is a percentage, not 100.5"),
        ("ioaware.coverage = -1", "coverage of [tool.ioaware] is a percentage, not -1"),
        (f'ioaware.coverage = "{"9" * 60}"', f"coverage of [tool.ioaware] is a percentage, not {'9' * 40}"),
    ],
)
def test_a_damaged_table(tmp_path: Path, table: str, why: str) -> None:
    (tmp_path / "pyproject.toml").write_text(f"[tool]\n{table}\n")
    assert raised(read_config, tmp_path) == (f"{tmp_path / 'pyproject.toml'}: {why}", EXAMPLE)


def test_the_ends_of_a_percentage(tmp_path: Path) -> None:
    for share in (0, 100, 99.5):
        (tmp_path / "pyproject.toml").write_text(f'[tool.ioaware]\ngpu = "cuda:80"\ncoverage = {share}\n')
        assert read_config(tmp_path) == GateConfig("cuda:80", share)


def test_kernels_are_launched_or_called(tmp_path: Path) -> None:
    """A device function is one that kernels call and nothing launches, in any file."""
    (tmp_path / "a.py").write_text(JIT.format(name="a", body="b(x); c(x); d(x); e(x)") + "def f(x):\n    b[(1,)](x)\n")
    (tmp_path / "b.py").write_text("".join(JIT.format(name=name, body="pass") for name in "bcde"))
    (tmp_path / "c.py").write_text("import triton\n\ndef g(x):\n    c.run(x)\n    d.warmup(x)\n    e.other(x)\n")
    assert find_kernels(tmp_path) == {"a.py:a", "b.py:b", "b.py:c", "b.py:d"}
    (tmp_path / "bad.py").write_text("triton (")
    what, remedy = raised(find_kernels, tmp_path)
    assert what.startswith(f"{tmp_path / 'bad.py'}: cannot be read as Python ('(' was never closed")
    assert remedy == "Exclude it, or repair it."


def test_which_files_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a.py", "b.txt", ".c.py", "venv/d.py", "sub/e.py", "build/f.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("12345")
    (tmp_path / "link.py").symlink_to(tmp_path / "a.py")
    assert list(python_files(tmp_path)) == [tmp_path / "a.py", tmp_path / "sub" / "e.py"]
    monkeypatch.setattr(kernel_finder, "LARGEST_FILE_BYTES", 4)
    assert list(python_files(tmp_path)) == []
    monkeypatch.setattr(kernel_finder, "LARGEST_FILE_BYTES", 5)
    monkeypatch.setattr(kernel_finder, "MAX_FILES", 2)
    assert len(list(python_files(tmp_path))) == 2
    monkeypatch.setattr(kernel_finder, "MAX_FILES", 1)
    expected = (f"{tmp_path} has more than 1 Python files", "Name a smaller directory.")
    assert raised(lambda: list(python_files(tmp_path))) == expected


def test_a_ledger_that_cannot_be_read(tmp_path: Path) -> None:
    path = tmp_path / LEDGER
    assert read_ledger(tmp_path) is None
    for text, why in (
        ("schema = 2\n", "schema 2, this version reads schema 1"),
        ("schema = true\n", "schema True, this version reads schema 1"),
        ("schema = 1\nb = 1\na = 1\n", "unknown entry a, b"),
        ("schema = 1\nkernels = 3\n", "no kernels"),
        ("schema = 1\ncount = 1\n[kernels]\n", "count is 1, and it has 0 kernels"),
        ("schema = 1\ncount = true\n[kernels]\nk = {}\n", "count is True, and it has 1 kernels"),
        ("schema = 1\ncount = 1\n[kernels]\nk = 3\n", "k is no table"),
        ("schema = 1\ncount = 1\n[kernels]\nk = {test = []}\n", "k: only `tests`, `exempt` and `pending` are known"),
        ("schema = 1\ncount = 1\n[kernels]\nk = {tests = ['']}\n", "k: tests are a list of names"),
        ("schema = 1\ncount = 1\n[kernels]\nk = {tests = 't'}\n", "k: tests are a list of names"),
        ("schema = 1\ncount = 1\n[kernels]\nk = {exempt = ' '}\n", "k: an exemption is a reason in words"),
        ("schema = 1\ncount = 1\n[kernels]\nk = {exempt = 3}\n", "k: an exemption is a reason in words"),
    ):
        path.write_text(text)
        assert raised(read_ledger, tmp_path) == (f"{path}: not a ledger ({why})", REMEDY)
    path.unlink()
    path.mkdir()
    remedy = "Check the path and its permissions."
    assert raised(read_ledger, tmp_path) == (f"{path}: cannot be read (Is a directory)", remedy)


def test_a_ledger_is_read_back(tmp_path: Path) -> None:
    ledger = Ledger(
        {"b.py:b": Entry(["t.py::t"]), 'ä"\x7f.py:a': Entry([], "data decide"), "c": Entry([], "", "since May"), "d": Entry()}
    )
    write_ledger(tmp_path, ledger)
    assert read_ledger(tmp_path) == ledger
    assert (
        (tmp_path / LEDGER)
        .read_text(encoding="utf-8")
        .endswith(
            'schema = 1\ncount = 4\n[kernels]\n"b.py:b" = { tests = ["t.py::t"] }\n"c" = { pending = "since May" }\n'
            '"d" = { tests = [] }\n'
            '"ä\\"\\u007f.py:a" = { exempt = "data decide" }\n'
        )
    )


def test_coverage_of_a_repository(tmp_path: Path) -> None:
    (tmp_path / "k.py").write_text("".join(JIT.format(name=name, body="pass") for name in "abcd"))
    (tmp_path / "t.py").write_text(
        "class T:\n    def one(self, traffic): ...\n\ndef two(): ...\n\ndef three(*, traffic): ...\n"
    )
    entries = {"k.py:a": ["t.py::T::one", "t.py::two"], "k.py:b": ["t.py::none"], "gone.py:g": ["t.py::three[1]"]}
    ledger = Ledger({kernel: Entry(tests) for kernel, tests in entries.items()})
    ledger.kernels["k.py:c"] = Entry([], "no formula")
    found = coverage(tmp_path, ledger)
    assert found.kernels == (
        ("k.py:a", "gated", "t.py::T::one"), ("k.py:b", "pending", "its test is gone"), ("k.py:c", "exempt", "no formula"),
        ("k.py:d", "pending", "not in the ledger: ioaware coverage --write adds it"),
    )  # fmt: skip
    assert found.stale == (
        "gone.py:g is in the ledger, and no kernel of the repository: ioaware coverage --write removes it",
        "t.py::none does not exist, or does not use traffic: restore it, or take it out of traffic-ledger.toml",
        "t.py::two does not exist, or does not use traffic: restore it, or take it out of traffic-ledger.toml",
        "k.py:d is pending, not in the ledger: ioaware coverage --write adds it",
    )
    assert found.share == pytest.approx(100 / 3)
    assert coverage(tmp_path, None).share == 0
    new = Entry(pending="today")
    assert completed(ledger, {"k.py:a": "today", "new": "today"}).kernels == {"k.py:a": ledger.kernels["k.py:a"], "new": new}
    assert completed(None, {"new": "today"}).kernels == {"new": new}
