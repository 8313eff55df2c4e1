"""Files of different folders that import siblings of one name."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from ioaware.targets.loading import load_file

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
