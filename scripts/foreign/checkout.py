"""Load definitions from a library's checkout.

Benchmarks that run on import and unneeded packages are left out.

A file is reduced to the requested definitions and the module-level statements that these need, to any depth. Imports of the
library's own modules are reduced likewise. Line numbers stay, so that Triton finds a kernel's source.
"""

from __future__ import annotations

import ast
import importlib.machinery
import importlib.util
import os
import symtable
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from types import CodeType, MappingProxyType, ModuleType
from typing import Any

DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
NOTHING: Mapping[str, object] = MappingProxyType({})


class Library:
    """A checkout named by the environment variable `FOREIGN_<NAME>`.

    `source` is its folder on Python's path.
    """

    def __init__(self, name: str, source: str = ".") -> None:
        self.variable = f"FOREIGN_{name.upper()}"
        self._source = source

    @property
    def root(self) -> Path:
        """The folder that absolute imports of the library start from.

        Raises where the variable is not set.
        """
        given = os.environ.get(self.variable)
        if not given:
            raise FileNotFoundError(f"{self.variable} is not set: it names the library's checkout")
        root = (Path(given) / self._source).resolve()
        if not root.is_dir():
            raise FileNotFoundError(f"{self.variable}: there is no folder {root}")
        return root

    def definitions(self, path: str, *names: str, given: Mapping[str, object] = NOTHING) -> Any:
        """A module with `names` of the file `path`, relative to the root.

        What `given` names is taken from it.
        """
        return definitions(self.root, self.root / path, frozenset(names), tuple(given.items()))


@cache
def definitions(root: Path, path: Path, names: frozenset[str], given: tuple[tuple[str, object], ...] = ()) -> ModuleType:
    """`names` of the file `path` as a module.

    Imports of files under `root` are cut down too.
    """
    name = f"foreign_{path.stem.replace('-', '_')}_{len(sys.modules)}"
    loader = _Loader(name, path, root, names, dict(given))
    spec = importlib.util.spec_from_file_location(name, path, loader=loader)
    if spec is None:
        raise FileNotFoundError(path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # Triton and pickling look a function's module up by name
    loader.exec_module(module)
    return module


class _Loader(importlib.machinery.SourceFileLoader):
    """Runs the wanted part of a file."""

    def __init__(self, name: str, path: Path, root: Path, names: frozenset[str], given: dict[str, object]) -> None:
        super().__init__(name, str(path))
        self._root = root
        self._names = names
        self._given = given

    def get_code(self, fullname: str) -> CodeType:
        del fullname
        source = self.get_data(self.path).decode()
        tree = wanted(source, self.path, self._names, self._given.keys())
        tree.body = [self._with_imports(statement) for statement in tree.body]
        return compile(tree, self.path, "exec", dont_inherit=True)

    def exec_module(self, module: ModuleType) -> None:
        vars(module).update(self._given)
        self._module = module
        super().exec_module(module)

    def _with_imports(self, statement: ast.stmt) -> ast.stmt:
        """An import of the library's own is done here and now, and leaves nothing to do."""
        if not isinstance(statement, ast.ImportFrom) or statement.module == "__future__":
            return statement
        file = module_file(self._root, Path(self.path), statement)
        if file is None:
            return statement
        names = frozenset(alias.name for alias in statement.names if alias.name not in self._given)
        found = definitions(self._root, file, names, tuple(self._given.items()))
        for alias in statement.names:
            if alias.name in names:
                vars(self._module)[alias.asname or alias.name] = getattr(found, alias.name)
        return ast.copy_location(ast.Pass(), statement)


def module_file(root: Path, importer: Path, statement: ast.ImportFrom) -> Path | None:
    """The file under `root` that a `from ... import` reads.

    None for a module from elsewhere.
    """
    base = importer.parents[statement.level - 1] if statement.level else root
    folder = base.joinpath(*(statement.module or "").split("."))
    for candidate in (folder.with_name(f"{folder.name}.py"), folder / "__init__.py"):
        if candidate.is_file():
            return candidate
    return None


def wanted(source: str, path: str, names: Iterable[str], given: Iterable[str] = ()) -> ast.Module:
    """The module cut down to `names` and what they need.

    Raises `AttributeError` for a name that nothing there defines.
    """
    tree = ast.parse(source, path)
    globals_of = {(table.get_name(), table.get_lineno()): _globals(table) for table in _tables(source, path)}
    bound = [(statement, frozenset(_binds(statement))) for statement in tree.body]
    known, asked, kept = frozenset(given), list(names), set[int]()
    missing = set(asked) - {name for _, found in bound for name in found} - known
    if missing:
        raise AttributeError(f"{path} does not define {', '.join(sorted(missing))}")
    seen = set(known)
    while asked:
        name = asked.pop()
        if name in seen:
            continue
        seen.add(name)
        for index, (statement, found) in enumerate(bound):
            if name in found and index not in kept:
                kept.add(index)
                asked.extend(_needs(statement, globals_of))
    body = [_import_of(bound[index][0], seen - known) for index in sorted(kept)]
    future = [item for item in tree.body if isinstance(item, ast.ImportFrom) and item.module == "__future__"]
    return ast.Module([*future, *(item for item in body if item not in future)], type_ignores=[])


def _import_of(statement: ast.stmt, names: set[str]) -> ast.stmt:
    """Of an import only the names that are needed."""
    if isinstance(statement, (ast.Import, ast.ImportFrom)):
        statement.names = [alias for alias in statement.names if _bound_by(alias) in names or alias.name == "*"]
    return statement


def _bound_by(alias: ast.alias) -> str:
    return alias.asname or alias.name.partition(".")[0]


def _binds(statement: ast.AST) -> Iterator[str]:
    """The module-level names that a statement defines."""
    if isinstance(statement, DEFINITIONS):
        yield statement.name
    elif isinstance(statement, (ast.Import, ast.ImportFrom)):
        yield from map(_bound_by, statement.names)
    elif isinstance(statement, ast.Name):
        if isinstance(statement.ctx, ast.Store):
            yield statement.id
    elif not isinstance(statement, (ast.Lambda, ast.ListComp, ast.DictComp, ast.SetComp, ast.GeneratorExp)):
        for child in ast.iter_child_nodes(statement):
            yield from _binds(child)


def _needs(statement: ast.AST, globals_of: Mapping[tuple[str, int], frozenset[str]]) -> Iterator[str]:
    """Yield the names that a statement looks up in the module.

    It looks them up when it runs, or when what it defines does.
    """
    for node in _outside(statement):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, DEFINITIONS):
            line = min([node.lineno, *(item.lineno for item in node.decorator_list)])
            yield from globals_of.get((node.name, node.lineno), globals_of.get((node.name, line), frozenset()))


def _outside(statement: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes that run with the module.

    The bodies of functions and classes do not; the symbol table knows these.
    """
    yield statement
    if isinstance(statement, DEFINITIONS):
        for node in (*statement.decorator_list, *_signature(statement)):
            yield from ast.walk(node)
        return
    for child in ast.iter_child_nodes(statement):
        yield from _outside(child)


def _signature(statement: ast.stmt) -> Iterator[ast.AST]:
    """Annotations, defaults and bases: evaluated where the definition stands."""
    if isinstance(statement, ast.ClassDef):
        yield from (*statement.bases, *statement.keywords)
    elif isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
        yield statement.args
        if statement.returns:
            yield statement.returns


def _tables(source: str, path: str) -> list[symtable.SymbolTable]:
    return symtable.symtable(source, path, "exec").get_children()


def _globals(table: symtable.SymbolTable) -> frozenset[str]:
    """What a function or a class and all inside look up in the module."""
    own = {symbol.get_name() for symbol in table.get_symbols() if symbol.is_global()}
    return frozenset(own.union(*map(_globals, table.get_children())))
