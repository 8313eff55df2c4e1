"""Find out whether a test file that cannot be imported may have a gate.

The file is read, never run. It has none where neither it, nor a conftest.py above it, nor a module of the repository that these
import names the fixture `traffic`. Whatever cannot be read, or imports by a computed name, may have one.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

from ioaware.errors import DataError
from ioaware.gate.repository.kernel_finder import python_files

FIXTURE = "traffic"
PLUGINS = "pytest_plugins"
PACKAGE = "__init__"
DYNAMIC = frozenset({"__import__", "exec", "eval", "import_module", "run_path", "run_module"})
"""Functions that bring in code which a reader of imports does not see."""


def may_have_gate(path: Path, root: Path, plugins: Iterable[str] = ()) -> bool:
    """Return whether a test file below `root` may use the fixture `traffic`.

    `plugins` are modules that pytest loads by name (`-p`).
    """
    above = [folder for folder in path.parents if folder.is_relative_to(root)]
    own = [path, *(place for folder in above for place in (folder / "conftest.py", folder / f"{PACKAGE}.py") if place.exists())]
    try:
        by_name = _by_module_name(root)
        trees = {file: ast.parse(file.read_bytes()) for file in own}
        if any(_dynamic(tree) for tree in trees.values()):
            return True
        pending = [file for name in plugins for file in _files_of(name, by_name)]
        while True:
            for tree in trees.values():
                if _names_fixture(tree):
                    return True
                pending += [file for module in _imports(tree) for file in _files_of(module, by_name)]
            own += trees
            new = set(pending) - set(own)
            if not new:
                return False
            trees, pending = {file: ast.parse(file.read_bytes()) for file in new}, []
    except (DataError, OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return True


def _by_module_name(root: Path) -> dict[str, list[Path]]:
    """Return the Python files of a repository by their modules' last names."""
    found: defaultdict[str, list[Path]] = defaultdict(list)
    for file in python_files(root):
        found[file.parent.name if file.stem == PACKAGE else file.stem].append(file)
    return found


def _files_of(module: str, by_name: dict[str, list[Path]]) -> Iterator[Path]:
    """Yield the files, anywhere, that a module and its packages may be."""
    parts = module.split(".")
    for end in range(1, len(parts) + 1):
        for file in by_name.get(parts[end - 1], ()):
            place = file.parent if file.stem == PACKAGE else file.with_suffix("")
            if list(place.parts[-end:]) == parts[:end]:
                yield file


def _names_fixture(tree: ast.Module) -> bool:
    """Return whether a file has the fixture's name, or a string equal to it."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name) | ast.arg(arg=name) | ast.alias(name=name) | ast.Attribute(attr=name):
                pass
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.Constant(value=str(name)):
                pass
            case _:
                continue
        if name.strip() == FIXTURE:
            return True
    return False


def _dynamic(tree: ast.Module) -> bool:
    """Return whether a file runs or imports code by a computed name.

    `model.eval()` is another thing.
    """
    calls = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
    names = {call.id for call in calls if isinstance(call, ast.Name)}
    methods = {call.attr for call in calls if isinstance(call, ast.Attribute)}
    return bool((names | methods - {"eval", "exec"}) & DYNAMIC)


def _imports(tree: ast.Module) -> Iterator[str]:
    """Yield the modules that a file imports.

    A name that is imported from a module may be one, too.
    """
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module=module, names=names):
                yield from (f"{module}.{alias.name}" if module else alias.name for alias in names)
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if name == PLUGINS:
                yield from (
                    one.value for one in ast.walk(value) if isinstance(one, ast.Constant) and isinstance(one.value, str)
                )
            case _:
                pass
