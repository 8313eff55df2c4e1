"""Files that a plan of `ioaware init` writes, and tables that it adds."""

from __future__ import annotations

from pathlib import Path

import pytest

from ioaware.errors import UsageError
from ioaware.gate.setup import setup_plan
from ioaware.gate.setup.gated_calls import TimeLimits
from ioaware.gate.setup.setup_plan import NewText, Plan, make_plan
from tests.support.invented_processes import raised


def test_new_files_are_shown_as_differences() -> None:
    new = NewText(Path("a/b.py"), "", "x\n")
    assert new.diff().splitlines()[:3] == ["--- /dev/null", "+++ b/a/b.py", "@@ -0,0 +1 @@"]
    changed = NewText(Path("a/b.py"), "x\n", "x\ny\n")
    assert changed.diff().splitlines() == ["--- a/a/b.py", "+++ b/a/b.py", "@@ -1 +1,2 @@", " x", "+y"]


def test_a_plan_writes_nothing_where_a_file_has_changed(tmp_path: Path) -> None:
    (tmp_path / "b.txt").write_text("other")
    plan = Plan(tmp_path, [NewText(Path("a.txt"), "", "new"), NewText(Path("b.txt"), "old", "new")])
    expected = (UsageError, f"{tmp_path / 'b.txt'} has changed meanwhile", "Run ioaware init again.")
    assert raised(plan.write) == expected
    assert not (tmp_path / "a.txt").exists()
    (tmp_path / "b.txt").write_text("")  # an empty file that appeared is not replaced either
    assert raised(Plan(tmp_path, [NewText(Path("b.txt"), "", "new")]).write) == expected
    (tmp_path / "b.txt").write_text("old")
    plan.write()
    assert [(tmp_path / name).read_text() for name in ("a.txt", "b.txt")] == ["new", "new"]


def test_a_repository_without_kernels(tmp_path: Path) -> None:
    what = f"there is no Triton or Gluon kernel below {tmp_path}"
    assert raised(make_plan, tmp_path, None, print, TimeLimits()) == (
        UsageError,
        what,
        "Name the root of a repository with kernels.",
    )


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", '[tool.ioaware]\ngpu = "cuda:90"  # the GPU that the kernels are compiled for\n'),
        ("[a]", '[a]\n\n[tool.ioaware]\ngpu = "cuda:90"  # the GPU that the kernels are compiled for\n'),
        ("[a]\n", '[a]\n\n[tool.ioaware]\ngpu = "cuda:90"  # the GPU that the kernels are compiled for\n'),
    ],
)
def test_the_table_at_the_end(tmp_path: Path, before: str, after: str) -> None:
    if before:
        (tmp_path / "pyproject.toml").write_text(before)
    plan = Plan(tmp_path)
    setup_plan._add_tables(plan, None)  # pyright: ignore[reportPrivateUsage]
    assert [(file.before, file.after) for file in plan.files] == [(before, after)]


def test_tables_that_exist_stay(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.ioaware]\n")
    plan = Plan(tmp_path)
    setup_plan._add_tables(plan, None)  # pyright: ignore[reportPrivateUsage]
    assert (plan.files, plan.kept) == ([], ["[tool.ioaware] of pyproject.toml stays as it is"])
    (tmp_path / "pyproject.toml").write_text("tool = {}\n")
    setup_plan._add_tables(plan, None)  # pyright: ignore[reportPrivateUsage]
    assert plan.kept[1:] == ["pyproject.toml cannot take a table at its end; add [tool.ioaware] by hand"]


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        ("pyproject.toml", "[tool.pytest.ini_options]\n", True), ("pyproject.toml", "[tool.other]\n", False),
        ("pytest.ini", "", True), (".pytest.ini", "", True), ("tox.ini", "[pytest]\n", True), ("tox.ini", "[tox]\n", False),
        ("setup.cfg", "[tool:pytest]\n", True), ("setup.cfg", "[metadata]\n", False), ("other.ini", "[pytest]", False),
    ],
)  # fmt: skip
def test_where_pytest_is_configured(tmp_path: Path, name: str, text: str, found: bool) -> None:
    (tmp_path / name).write_text(text)
    assert setup_plan._has_pytest_table(tmp_path) is found  # pyright: ignore[reportPrivateUsage]
