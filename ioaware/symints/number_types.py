"""Let `int`, `float`, `abs` and `len` of host code return symbolic numbers.

Python's own `int(n)` and `len(x)` are plain integers by the rules of the language, and `isinstance(n, int)` is false.
"""

from __future__ import annotations

import ast
import linecache
import math
import re
from functools import lru_cache
from typing import Any

import torch

_torch: Any = torch
NAMES = ("int", "float", "abs", "len")
_MENTIONED = re.compile(rf"\b(?:{'|'.join(NAMES)})\b")


class _NumberType(type):
    """Behaves as `int` or `float` in calls, comparisons and `isinstance`."""

    plain: Any
    symbolic: Any

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        if len(args) == 1 and not kwargs and isinstance(args[0], (torch.SymInt, torch.SymFloat)):
            return cls.converted(args[0])
        return cls.plain(*args, **kwargs)

    def converted(cls, number: Any) -> Any:
        """Return a symbolic number of this type."""
        if cls.plain is float:
            return _torch.sym_float(number)
        return number if isinstance(number, torch.SymInt) else math.trunc(number)

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, (cls.plain, cls.symbolic))

    def __subclasscheck__(cls, subclass: Any) -> bool:
        return subclass in (cls, cls.symbolic) or issubclass(subclass, cls.plain)

    def __eq__(cls, other: object) -> bool:
        return other is cls or other is cls.plain

    def __hash__(cls) -> int:
        return hash(cls.plain)


class SymbolicInt(metaclass=_NumberType):
    """What stands for `int` in modules of host code."""

    plain, symbolic = int, torch.SymInt


class SymbolicFloat(metaclass=_NumberType):
    """What stands for `float` in modules of host code, and in some of torch."""

    plain, symbolic = float, torch.SymFloat


def symbolic_abs(number: Any) -> Any:
    """Stand for `abs` in modules of host code."""
    return _torch.sym_max(number, -number) if isinstance(number, torch.SymInt) else abs(number)


def symbolic_len(value: Any) -> Any:
    """Stand for `len` in modules of host code: the rows of a tensor may be a symbol."""
    rows = isinstance(value, torch.Tensor) and type(value).__len__ is torch.Tensor.__len__ and value.dim()
    return value.shape[0] if rows else len(value)


STAND_INS: dict[str, Any] = {"int": SymbolicInt, "float": SymbolicFloat, "abs": symbolic_abs, "len": symbolic_len}
_STANDS_FOR: dict[Any, str] = {int: "int", torch.SymInt: "int", float: "float", torch.SymFloat: "float"}


def type_in_host_code(kind: Any, names: dict[str, Any]) -> Any:
    """Return what a module with these names calls the type of a number.

    Other types are returned as they are.
    """
    if kind is torch.SymBool:
        return bool
    name = _STANDS_FOR.get(kind)
    if name is None:
        return kind
    stand_in = STAND_INS[name]
    return stand_in if names.get(name) is stand_in else stand_in.plain


@lru_cache(maxsize=1024)
def replaceable_types(path: str) -> tuple[str, ...]:
    """Return which of `NAMES` a module only calls or compares types with.

    Elsewhere (`dtype=int`, `key=len`) the type itself is needed. So it is in kernels: Triton knows Python's own alone.
    """
    source = "".join(linecache.getlines(path))
    if not _MENTIONED.search(source):  # most modules of a large library, and parsing takes its time
        return ()
    uses = _Uses()
    try:
        uses.visit(ast.parse(source))
    except SyntaxError:
        return ()
    return tuple(name for name in NAMES if name not in uses.needed)


class _Uses(ast.NodeVisitor):
    """The names of a module that stand for more than a conversion or a type."""

    def __init__(self) -> None:
        self.needed: set[str] = set()

    def visit_Name(self, node: ast.Name) -> None:
        self.needed.add(node.id)

    def visit_alias(self, node: ast.alias) -> None:
        self.needed.add(node.asname or node.name)

    def visit_arg(self, node: ast.arg) -> None:
        self.needed.add(node.arg)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self._visit_all(node.target, node.value)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self.needed.add(node.name)
        self._visit_all(*node.decorator_list, node.args, *node.body)
        if any("jit" in ast.unparse(decorator) for decorator in node.decorator_list):
            self.needed |= {name.id for part in node.body for name in ast.walk(part) if isinstance(name, ast.Name)}

    def visit_Call(self, node: ast.Call) -> None:
        args: list[ast.expr] = node.args
        if isinstance(node.func, ast.Name):
            if node.func.id in ("isinstance", "issubclass"):
                args = args[:1]
            elif node.func.id == "map" and args and isinstance(args[0], ast.Name):
                args = args[1:]
        else:
            self.visit(node.func)
        self._visit_all(*args, *node.keywords)

    def visit_Compare(self, node: ast.Compare) -> None:
        self.visit(node.left)
        if not (isinstance(node.left, ast.Call) and isinstance(node.left.func, ast.Name) and node.left.func.id == "type"):
            self._visit_all(*node.comparators)

    def _visit_all(self, *nodes: ast.AST | None) -> None:
        for node in nodes:
            if node is not None:
                self.visit(node)
