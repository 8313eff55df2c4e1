"""Files of different folders that import siblings of one name."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from ioaware.targets.loading import load_file
from ioaware.targets.target import load_target

LAZY = """
import {module}

def value():
    import {module}
    return {module}.VALUE
"""


def folder(path: Path, value: int, module: str = "siblings_of_test") -> Path:
    path.mkdir(parents=True, exist_ok=True)
    (path / f"{module}.py").write_text(f"VALUE = {value}\n")
    (path / "target.py").write_text(LAZY.format(module=module))
    return path / "target.py"


@pytest.mark.parametrize(("first", "second"), [("one", "two"), ("one", "one/below"), ("one/below", "one")])
def test_each_file_imports_the_siblings_of_its_own_folder(tmp_path: Path, first: str, second: str) -> None:
    for at, value in ((first, 1), (second, 2), (first, 1)):
        made: Any = load_file(folder(tmp_path / at, value))
        assert made.siblings_of_test.VALUE == made.value() == value  # an import within the call is that of the last one, too


def test_packages_and_their_modules(tmp_path: Path) -> None:
    for at in ("one", "two"):
        package = tmp_path / at / "ops_of_test"
        package.mkdir(parents=True)
        (package / "__init__.py").touch()
        (package / "scale.py").write_text(f"FOLDER = {at!r}\n")
        (tmp_path / at / "target.py").write_text("from ops_of_test.scale import FOLDER\n")
    assert [load_file(tmp_path / at / "target.py").FOLDER for at in ("one", "two", "one")] == ["one", "two", "one"]


def test_modules_of_other_code_are_put_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    suite = ModuleType("helpers_of_test")
    suite.__file__ = str(tmp_path / "elsewhere.py")
    suite.VALUE = 0  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "helpers_of_test", suite)
    made: Any = load_file(folder(tmp_path / "one", 1, "helpers_of_test"))
    assert made.helpers_of_test.VALUE == 1
    assert sys.modules["helpers_of_test"] is suite


@pytest.mark.parametrize("name", ["json", "numpy", "__main__"])
def test_python_and_libraries_are_not_replaced(tmp_path: Path, name: str) -> None:
    before = sys.modules[name]
    (tmp_path / f"{name}.py").write_text("VALUE = 1\n")
    (tmp_path / "target.py").write_text(f"import {name} as found\n")
    assert load_file(tmp_path / "target.py").found is before
    assert sys.modules[name] is before


WHEN_CALLED = """
def value():
    from siblings_when_called import VALUE
    def work():
        import siblings_when_called
        siblings_when_called.CALLS.append(1)
        return VALUE, siblings_when_called.VALUE, len(siblings_when_called.CALLS)
    return work
"""


@pytest.mark.parametrize("spec", ["target.py:value", "target_when_called:value"])
def test_imports_of_a_call_are_from_the_folder_of_its_target(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spec: str
) -> None:
    """Each folder's module is imported once, as in a process of its own."""
    path = list(sys.path)
    targets: dict[str, Any] = {}
    for at in ("one", "two"):
        (tmp_path / at).mkdir()
        (tmp_path / at / "siblings_when_called.py").write_text(f"VALUE, CALLS = {at!r}, []\n")
        for name in ("target.py", "target_when_called.py"):
            (tmp_path / at / name).write_text(WHEN_CALLED)
        monkeypatch.chdir(tmp_path / at)
        targets[at] = load_target(spec)
        monkeypatch.chdir(tmp_path)
    for calls, at in ((1, "one"), (1, "two"), (2, "one"), (2, "two")):
        work = targets[at].build(device="cuda")
        assert work.run() == (at, at, calls)
    assert sys.path == path
