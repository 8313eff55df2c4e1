"""Find where host code uses the order of a set.

Texts and objects are in another order in each process, and so may be launches that follow it.
"""

from __future__ import annotations

import ast
import dis
import inspect
import sys
import textwrap
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, cast

from torch._C._dynamo import eval_frame

_frames: Any = eval_frame
SAME_ORDER = (bool, int, float, complex, type(None))
"""Types whose hashes, and so order in a set, are the same in each process."""
OPERATORS = (ast.BitOr, ast.BitAnd, ast.BitXor, ast.Sub)
METHODS = ("union", "intersection", "difference", "symmetric_difference", "copy")
"""Operators and methods of sets that return sets."""
ANY_ORDER = ("set", "frozenset", "any", "all", "len", "sum")
"""Functions whose result no order changes; of the next ones only a `key` lets it."""
BY_KEY = ("sorted", "min", "max")
IN_ORDER = ("list", "tuple", "iter", "enumerate", "zip", "map", "filter", "next")
IN_ORDER_METHODS = ("pop", "join", "extend", "fromkeys")

COMPREHENSIONS = ("<genexpr>", "<listcomp>", "<setcomp>", "<dictcomp>")
"""Code that is part of the function around it, from the middle of its source."""

_SET_OPCODES = frozenset(dis.opmap[name] for name in ("BUILD_SET", "SET_ADD", "SET_UPDATE"))


_COLLECTORS: list[object] = []


@contextmanager
def executed_code(is_library: Callable[[str], bool]) -> Generator[dict[CodeType, dict[str, Any]]]:
    """Collect the code of functions that run inside the block.

    Those of files of libraries are left out. The values are their global variables. Nothing is collected under a debugger.
    """
    codes: dict[CodeType, dict[str, Any]] = {}

    def note(frame: FrameType, _event: str, _argument: Any) -> None:
        code = frame.f_code
        is_module = "__name__" in frame.f_globals  # other variables of `exec` may hold tensors, which autograd would then copy
        if code not in codes and is_module and not is_library(code.co_filename):
            codes[code] = frame.f_globals

    if sys.gettrace() is not None:
        yield codes
        return
    _leave_to_python(note.__code__)
    sys.settrace(note)
    _COLLECTORS.append(note)
    try:
        yield codes
    finally:
        _COLLECTORS.remove(note)
        sys.settrace(None)


@contextmanager
def code_left_out() -> Generator[None]:
    """Collect no code inside the block: that of kernels takes long."""
    collector = sys.gettrace()
    if collector not in _COLLECTORS:
        yield
        return
    sys.settrace(None)
    try:
        yield
    finally:
        sys.settrace(collector)


def _leave_to_python(code: CodeType) -> None:
    """Let torch.compile run a function, and what it calls, as they are.

    It would compile a trace function like any other that runs inside a compiled one.
    """
    skip = _frames._FrameAction.SKIP
    _frames.set_code_exec_strategy(code, _frames._FrameExecStrategy(skip, skip))


def lines_in_set_order(codes: Mapping[CodeType, dict[str, Any]]) -> tuple[str, ...]:
    """Return `file.py:12` of each line that uses the order of a set."""
    found: dict[str, None] = {}
    for code, variables in codes.items():
        if code.co_name not in COMPREHENSIONS and _may_hold_set(code, variables):
            found |= {f"{Path(code.co_filename).name}:{line}": None for line in _lines(code, variables)}
    return tuple(found)


def set_order_notes(lines: Iterable[str]) -> tuple[str, ...]:
    """Return a note on lines that use the order of a set; none without such lines."""
    where = " and ".join(lines)
    return (f"launches may follow the order of a set at {where}, another one in each process: sort it",) if where else ()


def _may_hold_set(code: CodeType, variables: Mapping[str, Any]) -> bool:
    """Return whether a function makes or names a set, without reading its source."""
    opcodes = set(code.co_code[::2])
    makes = not opcodes.isdisjoint(_SET_OPCODES) or any(isinstance(value, frozenset) for value in code.co_consts)
    return makes or any(name in ("set", "frozenset") or _is_unordered(variables.get(name)) for name in code.co_names)


def _is_unordered(value: Any) -> bool:
    if not isinstance(value, (set, frozenset)):
        return False
    return not all(isinstance(item, SAME_ORDER) for item in cast("set[Any]", value))


def _lines(code: CodeType, variables: Mapping[str, Any]) -> list[int]:
    try:
        tree: ast.AST = ast.parse(textwrap.dedent(inspect.getsource(code)))
    except (OSError, SyntaxError):
        return []
    if code.co_name == "<lambda>":  # its source is the whole statement
        tree = ast.Tuple([node for node in ast.walk(tree) if isinstance(node, ast.Lambda)], ast.Load())
    sets = _Sets(tree, {name: variables[name] for name in code.co_names if name in variables})
    return [code.co_firstlineno + node.lineno - 1 for node in sets.used_in_order()]


class _Sets:
    """The expressions of a function that are sets in an unknown order."""

    def __init__(self, tree: ast.AST, variables: Mapping[str, Any]) -> None:
        """Take the source of a function and its global variables."""
        self._nodes = list(ast.walk(tree))
        self._names = {name for name, value in variables.items() if _is_unordered(value)}
        assigned: dict[str, list[ast.expr | None]] = {}
        for node in self._nodes:
            if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
                assigned.setdefault(node.targets[0].id, []).append(node.value)
            elif isinstance(node, ast.arg):
                assigned.setdefault(node.arg, []).append(None)
        self._texts = {
            name: value for name, value in variables.items() if isinstance(value, str) and len(assigned.get(name, ())) < 2
        }
        for name, values in assigned.items():
            self._names.discard(name)
            if all(value is not None and self._is_set(value) for value in values):
                self._names.add(name)

    def used_in_order(self) -> list[ast.expr]:
        """Return the expressions whose order the function uses."""
        return [node for node in self._consumed() if self._is_set(node)]

    def _is_set(self, node: ast.expr) -> bool:
        match node:
            case ast.Name(id=name):
                return name in self._names
            case ast.Set(elts=items):
                return not all(map(_keeps_order, items)) and not self._is_one_text(items)
            case ast.SetComp():
                return True
            case ast.Call(func=ast.Name(id="set" | "frozenset"), args=[value]):
                return not _keeps_order(value)
            case ast.Call(func=ast.Attribute(value=owner, attr=method)):
                return method in METHODS and self._is_set(owner)
            case ast.BinOp(left=left, op=operator, right=right):
                return isinstance(operator, OPERATORS) and (self._is_set(left) or self._is_set(right))
            case _:
                return False

    def _is_one_text(self, items: list[ast.expr]) -> bool:
        """Return whether all items are the same text, from constants and global variables."""
        texts: set[Any] = set()
        for item in items:
            match item:
                case ast.Constant(value=str() as text):
                    texts.add(text)
                case ast.Name(id=name) if name in self._texts:
                    texts.add(self._texts[name])
                case _:
                    return False
        return len(texts) == 1

    def _consumed(self) -> Iterable[ast.expr]:
        """Yield what is iterated where the order may matter."""
        free = {id(argument) for node in self._nodes if (argument := _free_argument(node))}
        for node in self._nodes:
            match node:
                case ast.For(body=body, orelse=rest) if all(map(_only_refuses, (*body, *rest))):
                    pass
                case ast.For(iter=value) | ast.Starred(value=value) | ast.Assign(targets=[ast.Tuple()], value=value):
                    yield value
                case ast.ListComp(generators=parts) | ast.GeneratorExp(generators=parts) | ast.DictComp(generators=parts):
                    yield from (part.iter for part in parts if id(node) not in free)
                case ast.Call(func=ast.Name(id=name), args=values) if name in IN_ORDER and id(node) not in free:
                    yield from values
                case ast.Call(func=ast.Name(id=name), args=values, keywords=[_, *_]) if name in BY_KEY:
                    yield from values
                case ast.Call(func=ast.Attribute(value=owner, attr=method), args=values) if method in IN_ORDER_METHODS:
                    yield from (owner, *values)
                case _:
                    pass


def _only_refuses(statement: ast.stmt) -> bool:
    """Return whether a statement raises or does nothing, as a check of each item."""
    match statement:
        case ast.If(body=body, orelse=rest):
            return all(map(_only_refuses, (*body, *rest)))
        case _:
            return isinstance(statement, (ast.Assert, ast.Raise, ast.Pass, ast.Continue))


def _free_argument(node: ast.AST) -> ast.expr | None:
    """Return the argument of a function whose result no order of it changes."""
    match node:
        case ast.Call(func=ast.Name(id=name), args=[value], keywords=keywords):
            return value if name in ANY_ORDER or (name in BY_KEY and not keywords) else None
        case _:
            return None


def _keeps_order(node: ast.expr) -> bool:
    """Return whether items, or what a set is made of, are numbers in any process."""
    match node:
        case ast.Constant(value=value):
            return isinstance(value, SAME_ORDER)
        case ast.UnaryOp(operand=value):
            return _keeps_order(value)
        case ast.Tuple(elts=items) | ast.List(elts=items) | ast.Set(elts=items):
            return all(map(_keeps_order, items))
        case ast.Call(func=ast.Name(id="range" | "int" | "len")):
            return True
        case _:
            return False
