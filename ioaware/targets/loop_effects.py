"""Tell whether a loop has the same effect in any order of its items.

Such loops check items, count them, or look for one of them.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeGuard

PURE = (
    "isinstance",
    "issubclass",
    "len",
    "hasattr",
    "getattr",
    "callable",
    "str",
    "repr",
    "int",
    "bool",
    "any",
    "all",
    "range",
)
"""Functions without effects."""
PURE_METHODS = (
    "startswith",
    "endswith",
    "lower",
    "upper",
    "strip",
    "split",
    "get",
    "isdigit",
    "format",
    "dim",
    "numel",
    "size",
)
"""Methods without effects, of text, tables and tensors."""
ENDS = "ends"


@dataclass(frozen=True, slots=True)
class _Effect:
    """What a statement of a loop does.

    It refuses, sets a name, adds to it, or ends the loop.
    """

    kind: str
    name: str = ""
    value: str = ""


def commutes(loop: ast.For, function: Iterable[ast.AST]) -> bool:
    """Return whether a loop has the same effect in any order.

    `function` has all nodes of the function around it, where the last item must not be read. What `else` does happens once.
    """
    try:
        effects = frozenset(_effects(loop.body))
    except _OrderError:
        return False
    items = _bound(loop.target)
    changed = {effect.name for effect in effects if effect.name}
    if {effect.name for effect in effects if effect.kind == "fills"} - _sets(function):
        return False
    if items & _read_outside(loop, items, function) or changed & _read(loop.body):
        return False
    if ENDS in (effect.kind for effect in effects):
        return len(effects) == 1
    return len(changed) == len([effect for effect in effects if effect.name])


class _OrderError(Exception):
    """A statement has an effect that may depend on the order."""


def _effects(statements: Sequence[ast.stmt]) -> Iterator[_Effect]:
    """Yield what statements do; raise `_OrderError` where no rule is known.

    An end with the constants that are set before it is one effect.
    """
    *before, last = statements
    if isinstance(last, ast.Break | ast.Return) and all(map(_sets_constant, before)):
        if isinstance(last, ast.Return) and not isinstance(last.value, ast.Constant | None):
            raise _OrderError
        yield _Effect(ENDS, value=" ".join(map(ast.dump, statements)))
        return
    for statement in statements:
        match statement:
            case ast.Pass() | ast.Continue():
                pass
            case ast.Raise():
                yield _Effect("refuses")
            case ast.Assert(test=test) if _is_pure(test):
                yield _Effect("refuses")
            case ast.If(test=test, body=body, orelse=rest) if _is_pure(test):
                yield from _effects(body)
                yield from _effects(rest) if rest else ()
            case ast.For(iter=items, body=body, orelse=[]) if _is_pure(items):
                yield from _effects(body)
            case ast.AugAssign(target=ast.Name(id=name), op=ast.Add(), value=value) if _is_integer(value):
                yield _Effect("adds", name)
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="add"), args=[value])) if _is_pure(
                value
            ):
                yield _Effect("fills", name)
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant() as value):
                yield _Effect("sets", name, ast.dump(value))
            case _:
                raise _OrderError


def _sets(function: Iterable[ast.AST]) -> set[str]:
    """Return the names that are assigned an empty set."""
    found: set[str] = set()
    for node in function:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=ast.Name(id="set"), args=[])):
                found.add(name)
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.Call(func=ast.Name(id="set"), args=[])):
                found.add(name)
            case _:
                pass
    return found


def _sets_constant(statement: ast.stmt) -> bool:
    match statement:
        case ast.Assign(targets=[ast.Name()], value=ast.Constant()):
            return True
        case _:
            return False


def _is_pure(node: ast.expr) -> bool:
    """Return whether an expression has a value and no effect."""
    for part in ast.walk(node):
        match part:
            case ast.Call(func=ast.Name(id=name)) if name in PURE:
                pass
            case ast.Call(func=ast.Attribute(attr=name)) if name in PURE_METHODS:
                pass
            case ast.Call() | ast.NamedExpr() | ast.Await() | ast.Yield() | ast.YieldFrom():
                return False
            case _:
                pass
    return True


def _is_integer(node: ast.expr) -> bool:
    """Return whether the value is an integer whatever the item is."""
    match node:
        case ast.Constant(value=int()):
            return True
        case ast.Call(func=ast.Name(id="len" | "int"), args=[value]):
            return _is_pure(value)
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() | ast.Mult(), right=right):
            return _is_integer(left) and _is_integer(right)
        case _:
            return False


def _bound(target: ast.expr) -> set[str]:
    return {node.id for node in ast.walk(target) if isinstance(node, ast.Name)}


def _read(statements: Iterable[ast.stmt]) -> set[str]:
    """Return the names that statements read, but for the owner of an `add`."""
    nodes = [node for statement in statements for node in ast.walk(statement)]
    owners = {id(node.value) for node in nodes if isinstance(node, ast.Attribute) and node.attr == "add"}
    return {node.id for node in nodes if _is_read(node) and id(node) not in owners}


def _read_outside(loop: ast.For, names: set[str], function: Iterable[ast.AST]) -> set[str]:
    """Return the names that the function reads outside the loop.

    Other loops that bind some of `names` are left out.
    """
    nodes = list(function)
    others: list[ast.AST] = [node for node in nodes if any(names & _bound(target) for target in _targets(node))]
    inside = {id(part) for part in (*loop.body, *(other for other in others if other is not loop)) for part in ast.walk(part)}
    return {node.id for node in nodes if _is_read(node) and id(node) not in inside}


def _is_read(node: ast.AST) -> TypeGuard[ast.Name]:
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)


def _targets(node: ast.AST) -> list[ast.expr]:
    """Return what a loop or a comprehension binds."""
    match node:
        case ast.For(target=target):
            return [target]
        case ast.ListComp(generators=parts) | ast.SetComp(generators=parts) | ast.DictComp(generators=parts):
            return [part.target for part in parts]
        case ast.GeneratorExp(generators=parts):
            return [part.target for part in parts]
        case _:
            return []
