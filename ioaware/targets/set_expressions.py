"""Find the expressions of a function that are sets in an unknown order.

Those whose order is used are found too.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import CodeType, ModuleType
from typing import Any, cast

from ioaware.targets.loop_effects import commutes
from ioaware.targets.seen_sets import SAME_ORDER, SeenSets, function_of, is_unordered

OPERATORS = (ast.BitOr, ast.BitAnd, ast.BitXor, ast.Sub)
METHODS = ("union", "intersection", "difference", "symmetric_difference", "copy")
"""Operators and methods of sets that return sets."""
VIEWS = ("keys", "items")
"""Methods of dictionaries whose results have the operators of sets."""
ANY_ORDER = ("set", "frozenset", "any", "all", "len", "sum")
"""Functions whose result no order changes; of the next ones only a `key` lets it."""
BY_KEY = ("sorted", "min", "max")
IN_ORDER = ("list", "tuple", "iter", "enumerate", "zip", "map", "filter", "next")
IN_ORDER_METHODS = ("pop", "join", "extend", "fromkeys")


READ_ALONE = ("isinstance", "bool", "type", "print", "id", "hash", "repr", "super", "setattr", "deepcopy", "replace", "partial")
"""Functions without a result that follows the order of an argument."""
STORING_METHODS = (
    *("append", "insert", "get", "setdefault", "add", "discard", "remove", "count", "copy", "format"),
    *("debug", "info", "warning", "warn", "error"),
    *("update", "difference_update", "intersection_update", "symmetric_difference_update", *METHODS),
    *("issubset", "issuperset", "isdisjoint"),
)
"""Methods that do not use the order of an argument."""


@dataclass(frozen=True, slots=True)
class Known:
    """Names that stand for sets beyond the source of one function.

    They are attributes, functions that return a set, and variables that held one. Holders are tables and lists with sets.
    """

    attributes: frozenset[str] = frozenset()
    functions: frozenset[str] = frozenset()
    attribute_holders: frozenset[str] = frozenset()
    function_holders: frozenset[str] = frozenset()
    host_functions: frozenset[str] = frozenset()
    """Functions of host code, which are looked into themselves."""
    variables: frozenset[str] = frozenset()
    holders: frozenset[str] = frozenset()
    arguments: frozenset[str] = frozenset()
    """Arguments that are sets until the function assigns them something else."""

    def inside(self, seen: SeenSets, code: CodeType) -> Known:
        """Return what is known inside a function."""
        at_start, at_end = seen.arguments.get(function_of(code)), seen.variables.get(function_of(code))
        if at_start is None or at_end is None:
            return self
        variables = frozenset(at_end.sets)
        holders = frozenset(at_start.holders | at_end.holders)
        return replace(self, variables=variables, holders=holders, arguments=frozenset(at_start.sets) - variables)

    @property
    def has_variables(self) -> bool:
        """Whether the function held sets."""
        return bool(self.variables or self.holders or self.arguments)


def attributes_of(variables: Iterable[Any]) -> Iterator[str]:
    """Yield the attributes of classes and objects that are sets in an unknown order."""
    for value in variables:
        if not isinstance(value, ModuleType):
            owned: list[Mapping[str, Any]] = [getattr(owner, "__dict__", {}) for owner in (value, cast(Any, type(value)))]
            yield from (name for held in owned for name, item in held.items() if is_unordered(item))


class SetExpressions:
    """The expressions of a function that are sets in an unknown order."""

    def __init__(self, tree: ast.AST, variables: Mapping[str, Any], known: Known) -> None:
        """Take the source of a function and its global variables."""
        self._known = known
        self._nodes = list(ast.walk(tree))
        self._names = {name for name, value in variables.items() if is_unordered(value)}
        assigned: dict[str, list[ast.expr | None]] = {}
        for node in self._nodes:
            for name, value in _assignments(node):
                assigned.setdefault(name, []).append(value)
        self._filled = {name for node in self._nodes if (name := _filled_name(node))}
        self._texts = {
            name: value for name, value in variables.items() if isinstance(value, str) and len(assigned.get(name, ())) < 2
        }
        self._names |= known.variables
        self._last_line = {
            name: min(lines)
            for name in known.arguments
            if (lines := [end for node in self._nodes if (end := _end(node, name))])
        }
        """The line that assigns an argument something else, such as its sorted items."""
        for name, values in assigned.items():
            if name in known.variables:
                continue
            self._names.discard(name)
            if all(value is not None and self._is_set(value, name) for value in values):
                self._names.add(name)
        grown = (node for node in self._nodes if isinstance(node, ast.AugAssign) and isinstance(node.op, OPERATORS))
        self._names |= {node.target.id for node in grown if isinstance(node.target, ast.Name) and self._adds(node.value)}

    def attributes(self) -> Iterator[str]:
        """Yield the attributes that the function makes sets."""
        for node in self._nodes:
            match node:
                case ast.Assign(targets=[ast.Attribute(attr=name)], value=value) if self._is_set(value):
                    yield name
                case ast.AnnAssign(target=ast.Attribute(attr=name), value=ast.expr() as value) if self._is_set(value):
                    yield name
                case _:
                    pass

    def returns(self) -> bool:
        """Return whether the function returns a set."""
        return any(isinstance(node, ast.Return) and node.value and self._is_set(node.value) for node in self._nodes)

    def used_in_order(self) -> list[ast.expr]:
        """Return the expressions whose order the function uses."""
        return [node for node in self._consumed() if self._is_set(node)]

    def _is_set(self, node: ast.expr, name: str = "") -> bool:
        """Return whether an expression is a set in an unknown order.

        `name` is the variable that it is assigned to.
        """
        match node:
            case ast.Name(id=variable, lineno=line):
                until = self._last_line.get(variable, line)
                return variable in self._names or (variable in self._known.arguments and line <= until)
            case ast.Subscript(value=holder) if self._holds_sets(holder):
                return True
            case ast.Call(func=ast.Attribute(value=holder, attr="get" | "pop" | "setdefault")) if self._holds_sets(holder):
                return True
            case ast.Attribute(attr=attribute):
                return attribute in self._known.attributes
            case ast.Set(elts=items):
                return not all(map(_keeps_order, items)) and not self._is_one_text(items)
            case ast.SetComp():
                return True
            case ast.IfExp(body=one, orelse=other) | ast.BoolOp(values=[one, other]):
                return self._is_set(one, name) or self._is_set(other, name)
            case ast.NamedExpr(value=value):
                return self._is_set(value)
            case ast.Call(func=ast.Name(id="set"), args=[]):
                return name in self._filled
            case ast.Call(func=ast.Name(id="set" | "frozenset"), args=[value]):
                return not _keeps_order(value)
            case ast.Call(func=ast.Name(id=function)):
                return function in self._known.functions
            case ast.Call(func=ast.Attribute(value=owner, attr=method)):
                return (method in METHODS and self._is_set(owner)) or method in self._known.functions
            case ast.BinOp(left=left, op=operator, right=right):
                operands = (left, right)
                return isinstance(operator, OPERATORS) and any(self._is_set(each) or _is_keys(each) for each in operands)
            case _:
                return False

    def _holds_sets(self, node: ast.expr) -> bool:
        """Return whether an expression is a table, a list or a tuple with sets."""
        match node:
            case ast.Name(id=name):
                return name in self._known.holders
            case ast.Attribute(attr=name):
                return name in self._known.attribute_holders
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
                return name in self._known.function_holders
            case _:
                return False

    def _adds(self, node: ast.expr) -> bool:
        """Return whether a set that grows by an expression has items in an unknown order."""
        return self._is_set(node) or (isinstance(node, ast.Set) and not all(map(_keeps_order, node.elts)))

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
                case ast.For() if commutes(node, self._nodes):
                    pass
                case ast.For(iter=value) | ast.Starred(value=value) | ast.YieldFrom(value=value):
                    yield value
                case ast.Assign(targets=[ast.Tuple() | ast.List() | ast.Subscript(slice=ast.Slice())], value=value):
                    yield value
                case ast.AugAssign(op=ast.Add(), value=value):
                    yield value
                case ast.ListComp(generators=parts) | ast.GeneratorExp(generators=parts) | ast.DictComp(generators=parts):
                    yield from (part.iter for part in parts if id(node) not in free)
                case ast.Call(func=ast.Name(id=name), args=values) if name in IN_ORDER and id(node) not in free:
                    yield from values
                case ast.Call(func=ast.Name(id=name), args=values, keywords=[_, *_]) if name in BY_KEY:
                    yield from values
                case ast.Call(func=ast.Attribute(value=owner, attr=method), args=values) if method in IN_ORDER_METHODS:
                    yield from (owner, *values)
                case ast.Call(func=function, args=values) if not self._reads_in_any_order(function):
                    yield from values
                case _:
                    pass

    def _reads_in_any_order(self, function: ast.expr) -> bool:
        """Return whether a function does not use the order of its arguments.

        One of host code is looked into itself.
        """
        match function:
            case ast.Name(id=name):
                return name in (*ANY_ORDER, *BY_KEY, *READ_ALONE, *self._known.host_functions)
            case ast.Attribute(attr=name):
                return name in (*STORING_METHODS, *READ_ALONE, *self._known.host_functions)
            case _:
                return True


def _end(node: ast.AST, name: str) -> int:
    """Return the last line of a statement that assigns this name; 0 for other nodes."""
    if not isinstance(node, ast.stmt) or all(name != bound for bound, _ in _assignments(node)):
        return 0
    return node.end_lineno or node.lineno


def _assignments(node: ast.AST) -> Iterator[tuple[str, ast.expr | None]]:
    """Yield the names that a statement or an argument binds.

    The expression that is known stands beside each.
    """
    match node:
        case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)) if len(targets) == len(values):
            yield from ((one.id, value) for one, value in zip(targets, values, strict=True) if isinstance(one, ast.Name))
        case ast.Assign(targets=[ast.Name(id=name)], value=value):
            yield name, value
        case (
            ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
            | ast.NamedExpr(target=ast.Name(id=name), value=value)
        ):
            yield name, value
        case ast.arg(arg=name):
            yield name, None
        case _:
            pass


def _filled_name(node: ast.AST) -> str:
    """Return the name of a set that a call fills with other items than numbers.

    Empty for other nodes.
    """
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="add" | "update"), args=values):
            return "" if all(map(_keeps_order, values)) else name
        case _:
            return ""


def _is_keys(node: ast.expr) -> bool:
    """Return whether an expression is a view of a dictionary.

    Operators make it a set.
    """
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in VIEWS


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
