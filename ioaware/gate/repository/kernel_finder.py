"""Find the Triton and Gluon kernels of a repository, without importing it.

A kernel is a function decorated with `triton.jit` or `gluon.jit`, or given to one of them. One that other kernels call, and
that no code launches with `name[grid]`, is a device function and part of its callers. So is one that returns a value and that
no code launches.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from ioaware.errors import DataError

SKIPPED = frozenset({"__pycache__", "node_modules", "site-packages", "build", "dist", "venv", "env"})
LARGEST_FILE_BYTES = 4 * 2**20
MAX_FILES = 50_000
JIT = "jit"
LANGUAGES = ("triton", "gluon")
NO_PYTHON = (SyntaxError, ValueError, RecursionError, MemoryError)
"""Errors of the parser for what is no Python or is nested too deep."""


def find_kernels(root: Path) -> set[str]:
    """Return the kernels below a directory, as `path.py:function`.

    Raises `DataError` for a file that cannot be read.
    """
    found: dict[str, str] = {}
    called, launched = set[str](), set[str]()
    for path in python_files(root):
        try:
            source = path.read_bytes()
            if not any(language.encode() in source for language in LANGUAGES):
                continue
            tree = ast.parse(source)
        except (OSError, *NO_PYTHON) as error:
            raise DataError(f"{path}: cannot be read as Python ({error})", "Exclude it, or repair it.") from error
        launched |= set(launched_names(tree))
        for function in _jitted(tree):
            called |= _calls(function) - {function.name}
            if _returns(function):
                called.add(function.name)
            found[f"{path.relative_to(root).as_posix()}:{function.name}"] = function.name
    return {kernel for kernel, name in found.items() if name in launched or name not in called}


def python_files(root: Path) -> Iterator[Path]:
    count = 0
    pending = [root]
    while pending:
        for path in sorted(pending.pop().iterdir()):
            if path.is_symlink() or path.name.startswith(".") or path.name in SKIPPED:
                continue
            if path.is_dir():
                pending.append(path)
            elif path.suffix == ".py" and path.stat().st_size <= LARGEST_FILE_BYTES:
                count += 1
                if count > MAX_FILES:
                    raise DataError(f"{root} has more than {MAX_FILES} Python files", "Name a smaller directory.")
                yield path


def tree_of(source: bytes) -> ast.Module | None:
    """Return the syntax tree of a source; None where it is no Python of this version.

    Why: a file of another version cannot be imported, so that no function in it can be called.
    """
    try:
        return ast.parse(source)
    except NO_PYTHON:
        return None


def _jitted(tree: ast.Module) -> Iterator[ast.FunctionDef]:
    plain = set(_imported_jit(tree))
    called = set(_given_to_jit(tree, plain))
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and (
            node.name in called or any(_is_jit(one, plain) for one in node.decorator_list)
        ):
            yield node


def _given_to_jit(tree: ast.Module, plain: set[str]) -> Iterator[str]:
    """Yield the names of functions that jit is called with.

    An example is `kernel = triton.jit(kernel)`.
    """
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=function, args=[ast.Name(id=name), *_]) if _is_jit(function, plain):
                yield name
            case _:
                pass


def _imported_jit(tree: ast.Module) -> Iterator[str]:
    """Yield the names under which `from triton import jit` and the like import it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and any(language in (node.module or "") for language in LANGUAGES):
            yield from (alias.asname or alias.name for alias in node.names if alias.name == JIT)


def _is_jit(decorator: ast.expr, plain: set[str]) -> bool:
    function = decorator.func if isinstance(decorator, ast.Call) else decorator
    if isinstance(function, ast.Name):
        return function.id in plain
    return isinstance(function, ast.Attribute) and function.attr == JIT and _root(function) in (*LANGUAGES, "tl", "ttgl", "gl")


def _root(expression: ast.expr) -> str:
    while isinstance(expression, ast.Attribute):
        expression = expression.value
    return expression.id if isinstance(expression, ast.Name) else ""


def _returns(function: ast.FunctionDef) -> bool:
    """Return whether a function returns a value, which no kernel does."""
    return any(isinstance(node, ast.Return) and node.value is not None for node in ast.walk(function))


def _calls(function: ast.FunctionDef) -> set[str]:
    """Return the names that a function calls."""
    return {_name(node.func) for node in ast.walk(function) if isinstance(node, ast.Call)}


def launched_names(tree: ast.AST) -> Iterator[str]:
    """Yield the names of launched kernels.

    Launches are `name[grid](...)`, `wrap_triton(name)[grid](...)`, `name.run(...)` and `name.warmup(...)`.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and (name := launched_name(node)):
            yield name


def launched_name(call: ast.Call) -> str:
    """Return the kernel that a call launches, empty for any other call."""
    match call.func:
        case ast.Subscript(value=launched) | ast.Attribute(value=launched, attr="run" | "warmup"):
            return _name(launched)
        case _:
            return ""


def _name(expression: ast.expr) -> str:
    match expression:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case ast.Call(args=[wrapped, *_]):
            return _name(wrapped)
        case _:
            return ""
