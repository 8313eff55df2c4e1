"""Find assignments whose value a kernel never uses.

The compiler drops them, and with them their loads. Liveness is the textbook's backward analysis over the source, in which each
branch may be taken that the compiler does not decide. An assignment counts as used unless all its calls are known to have no
effect.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import lru_cache
from typing import Any

from ioaware.tracing.address_space import OutsideStorageError
from ioaware.tracing.byte_counter import HeldLoads
from ioaware.tracing.source.loop_index import LoopRange

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
TEST, LOOP, LOADS = "ioaware test", "ioaware loop", "ioaware loads"
"""Names of `Usage.test`, `Usage.loop` and `Usage.loads` in a rewritten function."""


class Marks:
    """A function whose tests, `for` loops and assignments with loads have numbers."""

    def __init__(self, function: ast.FunctionDef) -> None:
        self.function = function
        nodes = list(ast.walk(function))
        self.branches = {node: at for at, node in enumerate(_branches(nodes))}
        self.loops = {node: at for at, node in enumerate(_loops(nodes))}
        self.assignments = {node: at for at, node in enumerate(_assignments(nodes))}

    @staticmethod
    def mark(function: ast.FunctionDef, unchanged: ast.FunctionDef) -> Marks:
        """Report each test, loop and assignment of a function to its `Usage`.

        The function is changed, and `unchanged` is another tree of the same source.
        """
        own = Marks(function)
        for branch, at in own.branches.items():
            branch.test = _call(TEST, at, branch.test)
        for loop, at in own.loops.items():
            loop.iter = _call(LOOP, at, loop.iter)
        _Wrapper(own.assignments).visit(function)
        return Marks(unchanged)


class Usage:
    """What the programs of a launch load in each assignment of a function.

    A branch that the compiler decides, since its condition is a Python value, is taken or not for good.
    """

    def __init__(self, marks: Marks) -> None:
        self._marks = marks
        self._outcomes: dict[int, set[bool | None]] = {}
        self._trips: dict[int, set[int | None]] = {}
        self._held: dict[int, HeldLoads] = {}

    def test(self, at: int, condition: Any) -> Any:
        """Note the outcome of a test; None where a program decides it."""
        is_python = type(condition) in (bool, int, float, str, type(None))  # a loop index is of a subclass of int
        self._outcomes.setdefault(at, set()).add(bool(condition) if is_python else None)
        return condition

    def loop(self, at: int, iterated: Any) -> Any:
        """Note the number of iterations; None where the compiler does not know it."""
        self._trips.setdefault(at, set()).add(iterated.constant_trips if isinstance(iterated, LoopRange) else None)
        return iterated

    def loads(self, at: int) -> AbstractContextManager[None]:
        """Return a context that holds the loads of an assignment back."""
        return self._held.setdefault(at, HeldLoads()).hold()

    @property
    def failure(self) -> OutsideStorageError | None:
        """The first load outside its storage, if the program may go on to use its value."""
        return next((held.failure for held in self._held.values() if held.failure), None)

    def settle(self) -> None:
        """Count the loads that were held, but those of values that are never used.

        Raises `OutsideStorageError` for one that was outside its storage.
        """
        if self._held:
            dead = _Liveness(self._taken, self._constant_trips).dead(self._marks.function.body)
            unused = {self._marks.assignments[statement] for statement in dead if statement in self._marks.assignments}
            for at, held in self._held.items():
                if at not in unused:
                    held.count()
        self._held, self._outcomes, self._trips = {}, {}, {}

    def _taken(self, branch: ast.If) -> bool | None:
        """Return the outcome of a branch that the compiler decides, None for any other."""
        outcomes = self._outcomes.get(self._marks.branches[branch], set())
        return next(iter(outcomes)) if len(outcomes) == 1 else None

    def _constant_trips(self, loop: ast.For) -> int | None:
        """Return the number of iterations, None where the compiler does not know it."""
        trips = self._trips.get(self._marks.loops[loop], set())
        return next(iter(trips)) if len(trips) == 1 else None


class _Wrapper(ast.NodeTransformer):
    def __init__(self, numbers: Mapping[ast.stmt, int]) -> None:
        self._numbers = numbers

    def visit(self, node: ast.AST) -> ast.AST:
        if not isinstance(node, ast.stmt) or node not in self._numbers:
            return self.generic_visit(node)
        context = ast.withitem(_call(LOADS, self._numbers[node]))
        return ast.fix_missing_locations(ast.copy_location(ast.With([context], [node]), node))


def _call(helper: str, at: int, *arguments: ast.expr) -> ast.Call:
    return ast.Call(ast.Name(helper, ast.Load()), [ast.Constant(at), *arguments], [])


def _branches(nodes: Sequence[ast.AST]) -> Iterator[ast.If]:
    return (node for node in nodes if isinstance(node, ast.If))


def _loops(nodes: Sequence[ast.AST]) -> Iterator[ast.For]:
    return (node for node in nodes if isinstance(node, ast.For))


def _assignments(nodes: Sequence[ast.AST]) -> Iterator[ast.stmt]:
    """Yield the assignments of loads whose value may turn out to be unused."""
    statements = (node for node in nodes if isinstance(node, ast.stmt) and _assigned_name(node))
    return (statement for statement in statements if _has_load(statement))


class _Liveness:
    """Names that are read later, before each statement.

    `_ends` are those after the loop around a statement, and at its next iteration. In a loop an unused assignment counts as a
    read too: the compiler keeps a sum that only its own next iteration reads. A loop of at most one iteration, as the compiler
    knows, is no loop.
    """

    def __init__(self, taken: Callable[[ast.If], bool | None], constant_trips: Callable[[ast.For], int | None]) -> None:
        self._taken = taken
        self._constant_trips = constant_trips
        self._depth = 0
        self._dead: dict[ast.stmt, bool] = {}
        self._ends: list[tuple[Names, Names]] = []

    def dead(self, body: Sequence[ast.stmt]) -> set[ast.stmt]:
        """Return the assignments whose value is never used."""
        self._block(body, frozenset())
        return {statement for statement, is_dead in self._dead.items() if is_dead}

    def _block(self, body: Sequence[ast.stmt], after: Names) -> Names:
        for statement in reversed(body):
            after = self._before(statement, after)
        return after

    def _before(self, statement: ast.stmt, after: Names) -> Names:
        if isinstance(statement, ast.If):
            taken = self._taken(statement)
            if taken is not None:
                return self._block(statement.body if taken else statement.orelse, after)
            return _reads(statement.test) | self._block(statement.body, after) | self._block(statement.orelse, after)
        if isinstance(statement, ast.For):
            return self._for(statement, self._block(statement.orelse, after))
        if isinstance(statement, ast.While):
            test = _reads(statement.test)
            return self._loop(statement.body, self._block(statement.orelse, after), lambda inner: inner | test) | test
        if isinstance(statement, ast.Return):
            return _reads(statement)
        if isinstance(statement, (ast.Break, ast.Continue)) and self._ends:
            return self._ends[-1][isinstance(statement, ast.Continue)]
        return self._simple(statement, after)

    def _for(self, loop: ast.For, after: Names) -> Names:
        stored, trips = _stored(loop.target), self._constant_trips(loop)
        if trips == 0:
            return after
        if trips == 1:
            self._ends.append((after, after))
            before = self._block(loop.body, after) - stored
            self._ends.pop()
            return before
        return _reads(loop.iter) | self._loop(loop.body, after, lambda inner: inner - stored)

    def _loop(self, body: Sequence[ast.stmt], after: Names, entered: Callable[[Names], Names]) -> Names:
        """Return the names that are read from the head of a loop on."""
        head = after
        self._depth += 1
        while True:
            self._ends.append((after, head))
            more = head | entered(self._block(body, head))
            self._ends.pop()
            if more == head:
                self._depth -= 1
                return head
            head = more

    def _simple(self, statement: ast.stmt, after: Names) -> Names:
        name = _assigned_name(statement)
        if name is None:
            stored = _stored(*statement.targets) if isinstance(statement, ast.Assign) else frozenset[str]()
            return (after - stored) | _reads(statement)
        self._dead[statement] = name not in after
        if self._dead[statement] and not self._depth:
            return after
        return (after - {name}) | _reads(statement)


@lru_cache(maxsize=8192)
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


@lru_cache(maxsize=8192)
def _reads(node: ast.AST) -> Names:
    """Return the names that a node reads; `a += b` reads both."""
    found = [each for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load)]
    updated = [each.target for each in ast.walk(node) if isinstance(each, ast.AugAssign) and isinstance(each.target, ast.Name)]
    return frozenset(each.id for each in (*found, *updated))


__all__ = ["LOADS", "LOOP", "TEST", "Marks", "Usage"]
