"""Find assignments whose value a kernel never uses.

The compiler drops them, and with them their loads. Liveness is the textbook's backward analysis over the source, in which each
branch may be taken. An assignment counts as used unless all that it calls is known to have no effect.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence

Names = frozenset[str]

PURE = frozenset(
    (
        *("load", "to", "cast", "where", "zeros", "full", "arange", "trans", "reshape", "view", "expand_dims", "broadcast_to"),
        *("exp", "exp2", "log", "log2", "sqrt", "rsqrt", "sigmoid", "abs", "cos", "sin", "fma", "floor", "ceil", "cdiv", "dot"),
        *("sum", "max", "min", "maximum", "minimum", "program_id", "num_programs", "make_block_ptr", "advance"),
    )
)
"""Functions of Triton's language, and methods of its tensors, that write nothing."""
EFFECTS = (ast.NamedExpr, ast.Await, ast.Yield, ast.YieldFrom, ast.Lambda)
UNCOUNTED = "ioaware uncounted"


def without_dead_loads(function: ast.FunctionDef) -> None:
    """Put each assignment whose value is never used into a block of `UNCOUNTED`."""
    dead = _Liveness().dead(function.body)
    if dead:
        _Wrapper(dead).visit(function)


class _Wrapper(ast.NodeTransformer):
    def __init__(self, dead: set[ast.stmt]) -> None:
        self._dead = dead

    def visit(self, node: ast.AST) -> ast.AST:
        if not isinstance(node, ast.stmt) or node not in self._dead:
            return self.generic_visit(node)
        context = ast.Call(ast.Name(UNCOUNTED, ast.Load()), [], [])
        return ast.fix_missing_locations(ast.copy_location(ast.With([ast.withitem(context)], [node]), node))


class _Liveness:
    """Names that are read later, before each statement.

    `_ends` are those after the loop around a statement, and at its next iteration. In a loop an unused assignment counts as a
    read too: the compiler keeps a sum that only its own next iteration reads.
    """

    def __init__(self) -> None:
        self._dead: dict[ast.stmt, bool] = {}
        self._ends: list[tuple[Names, Names]] = []

    def dead(self, body: Sequence[ast.stmt]) -> set[ast.stmt]:
        """Return the assignments with loads whose value is never used."""
        self._block(body, frozenset())
        return {statement for statement, is_dead in self._dead.items() if is_dead and _has_load(statement)}

    def _block(self, body: Sequence[ast.stmt], after: Names) -> Names:
        for statement in reversed(body):
            after = self._before(statement, after)
        return after

    def _before(self, statement: ast.stmt, after: Names) -> Names:
        if isinstance(statement, ast.If):
            return _reads(statement.test) | self._block(statement.body, after) | self._block(statement.orelse, after)
        if isinstance(statement, ast.For):
            stored = _stored(statement.target)
            head = self._loop(statement.body, self._block(statement.orelse, after), lambda inner: inner - stored)
            return _reads(statement.iter) | head
        if isinstance(statement, ast.While):
            test = _reads(statement.test)
            return self._loop(statement.body, self._block(statement.orelse, after), lambda inner: inner | test) | test
        if isinstance(statement, ast.Return):
            return _reads(statement)
        if isinstance(statement, (ast.Break, ast.Continue)) and self._ends:
            return self._ends[-1][isinstance(statement, ast.Continue)]
        return self._simple(statement, after)

    def _loop(self, body: Sequence[ast.stmt], after: Names, entered: Callable[[Names], Names]) -> Names:
        """Return the names that are read from the head of a loop on."""
        head = after
        while True:
            self._ends.append((after, head))
            more = head | entered(self._block(body, head))
            self._ends.pop()
            if more == head:
                return head
            head = more

    def _simple(self, statement: ast.stmt, after: Names) -> Names:
        name = _assigned_name(statement)
        if name is None:
            stored = _stored(*statement.targets) if isinstance(statement, ast.Assign) else frozenset[str]()
            return (after - stored) | _reads(statement)
        self._dead[statement] = name not in after
        if self._dead[statement] and not self._ends:
            return after
        return (after - {name}) | _reads(statement)


def _assigned_name(statement: ast.stmt) -> str | None:
    """Return the one name that an assignment without effects sets."""
    targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
    if not isinstance(statement, (ast.Assign, ast.AugAssign, ast.AnnAssign)) or statement.value is None or len(targets) != 1:
        return None
    return targets[0].id if isinstance(targets[0], ast.Name) and _is_pure(statement.value) else None


def _is_pure(value: ast.expr) -> bool:
    """Return whether every call of an expression is known to have no effect."""
    if any(isinstance(node, EFFECTS) for node in ast.walk(value)):
        return False
    return all(isinstance(c.func, ast.Attribute) and c.func.attr in PURE and not _is_volatile(c) for c in _calls(value))


def _is_volatile(call: ast.Call) -> bool:
    return any(keyword.arg in (None, "volatile") for keyword in call.keywords)


def _has_load(statement: ast.stmt) -> bool:
    return any(isinstance(call.func, ast.Attribute) and call.func.attr == "load" for call in _calls(statement))


def _calls(node: ast.AST) -> Iterator[ast.Call]:
    return (each for each in ast.walk(node) if isinstance(each, ast.Call))


def _stored(*targets: ast.expr) -> Names:
    """Return the names that targets set, without the base of `a[i]` or `a.b`."""
    found = [node for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)]
    return frozenset(node.id for node in found if isinstance(node.ctx, ast.Store))


def _reads(node: ast.AST) -> Names:
    """Return the names that a node reads; `a += b` reads both."""
    found = [each for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load)]
    updated = [each.target for each in ast.walk(node) if isinstance(each, ast.AugAssign) and isinstance(each.target, ast.Name)]
    return frozenset(each.id for each in (*found, *updated))


__all__ = ["UNCOUNTED", "without_dead_loads"]
