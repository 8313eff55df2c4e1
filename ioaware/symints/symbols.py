"""Integer parameters as symbols while host code runs, and what the host code did with them: what it pinned, what it assumed.

torch carries symbolic integers through shapes and strides (`SymInt`); deciding a comparison, or asking for the plain integer,
is a guard. Here guards are only recorded: torch's own solver specialises symbols for good, and takes 20 ms a guard to do it.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import sympy
import torch
from sympy import Expr, Symbol
from torch._guards import SLoc
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv

from ioaware._monkeypatch import Patches
from ioaware.analysis.formulas.functions import positive_symbols
from ioaware.analysis.ir.algebra.sympy_bridge import certain
from ioaware.errors import UsageError
from ioaware.symints.guard_evaluation import UnknownFunctionError, compute
from ioaware.symints.guards import Condition
from ioaware.symints.powers_of_two import BitLength, recognised
from ioaware.symints.to_sympy import OpaqueExpressionError, plain
from ioaware.symints.without_dynamo import Named, bare_shapes
from ioaware.targets.loading import is_library

SMALLEST = 2
"""Symbols stand for integers from here on: 0 and 1 are cases of their own to torch (broadcasting, contiguity). A parameter that
is 1 is run as 2, and what comes out for 1 is held against a run with plain integers."""

TRIED_SIZES = 24
SYMINT_FILES = (
    __file__,
    "capture/data_reads.py",
    "torch/__init__.py",
    "fx/experimental/sym_node.py",
    "symbolic_shapes.py",
    "recording.py",
)
"""Where the code of `SymInt` and of reading data is: what lies between host code that asks something and the answer."""

INTEGRAL = frozenset(
    {
        *("Symbol", "Add", "Mul", "Max", "Min", "FloorDiv", "CleanDiv", "CeilDiv", "PythonMod", "Mod", "ModularIndexing"),
        *("Equality", "Unequality", "StrictLessThan", "LessThan", "StrictGreaterThan", "GreaterThan", "And", "Or", "Not"),
        *("LShift", "RShift", "BitwiseFn_bitwise_and", "BitwiseFn_bitwise_or", "BitwiseFn_bitwise_xor"),
        *("BitLength", "NextPowerOfTwo", "BooleanTrue", "BooleanFalse"),
    }
)
"""Functions of integers that are integers or truths."""

_sympy: Any = sympy


@dataclass(frozen=True, slots=True)
class Decision:
    """A place where host code needed the value of a symbolic expression: a branch, a plain integer, a constexpr."""

    takes: Condition | str
    """What the formulas take for granted because of it, in words where it is no condition."""
    reason: str
    """`branch at file.py:12`, `taken as a number at file.py:12`, `constexpr HEAD_DIM`."""
    names: frozenset[str]
    """The parameters that the expression depends on."""
    equals: tuple[str, str] | None
    """Two parameters that turned out to be the same number, where that is what was asked."""
    pins: bool
    """Whether only the given values lead here again: `int(n)`, the true branch of `n == 64`, a constexpr that is one."""
    condition: Condition | None = None
    """The same for other values; None for what is read of data, which no value of a parameter tells."""

    @property
    def note(self) -> str:
        """What it takes for granted, as a sentence: written when somebody asks, which takes sympy a while."""
        return self.takes if isinstance(self.takes, str) else f"assumes {self.takes} ({self.reason})"


NOTHING: Mapping[str, str] = {}


class ReadsDataError(UsageError):
    """The host function needs to know what is in a tensor."""


class Symbols:
    """The parameters that are symbolic in one run, and every decision that the run took on them."""

    def __init__(self, values: Mapping[str, int], same: Mapping[str, str] = NOTHING) -> None:
        """`same` are parameters that are to be the symbol of another one."""
        with bare_shapes():
            self.shapes: Any = _Shapes(self)
        self.ints: dict[str, Any] = {}
        """What host code is given, by parameter."""
        self.decisions: dict[tuple[Any, str], Decision] = {}
        self.constants: list[Condition] = []
        """What constexprs came to be, in the order that they were asked for."""
        self.unsaid: dict[Any, Condition] = {}
        """Conditions that nobody needs to be told: of torch's own, and those that can fail at 1 alone."""
        self._values = values
        self.given = {name: max(value, SMALLEST) for name, value in values.items()}
        """The values that decisions are taken at."""
        self._named: dict[Any, Symbol] = {}
        self._hints: dict[Any, Any] = {}
        self._outcomes: dict[Any, Any] = {}
        for name, hint in self.given.items():
            source = Named(name)
            with bare_shapes():
                symbol: Any = self.shapes.create_symbol(
                    hint, source, DimDynamic.DYNAMIC, None, positive=True, do_not_specialize_zero_one=True
                )
            self.ints[name] = self.shapes.create_symintnode(symbol, hint=hint, source=source)
            (self._named[symbol],) = positive_symbols(name)
            self._hints[symbol] = sympy.Integer(hint)
        self._names_of = tuple(self._named.items())
        self.ints |= {name: self.ints[other] for name, other in same.items()}

    def elsewhere(self, name: str) -> bool:
        """Whether decisions are taken at another value of this parameter than the one it has."""
        return self.given[name] != self._values[name]

    def expression(self, value: Any) -> Expr:
        """An integer, plain or symbolic, in the user's names; one that no formula can hold is decided, and so pinned."""
        if not isinstance(value, torch.SymInt):
            return sympy.Integer(int(value))
        try:
            return _plainly(_of(value), self._names_of)
        except OpaqueExpressionError:
            return sympy.Integer(int(value))

    def value(self, value: Any) -> Any:
        """A symbolic number as a plain one, at the values that decisions are taken at, without it being a decision."""
        if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
            return _python(self._outcome(_of(value)))
        return value

    def constant(self, value: Any, use: str) -> Any:
        """A plain value for the compiler: `use` says for what. A parameter is pinned by it, an expression of some is noted."""
        if not isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
            return value
        expr, plain_value = _of(value), self.value(value)
        if expr in self._named:
            note = f"{use} is {plain_value} at {self._named[expr]} = {plain_value}, and the formulas are for that"
            self.decisions[expr, use] = Decision(note, use, self._names(expr), None, pins=True)
            return plain_value
        named = recognised(_renamed(expr, self._names_of))
        if isinstance(value, torch.SymBool):
            holds = named if plain_value else sympy.Not(named)
        else:
            holds = _sympy.Eq(named, plain_value, evaluate=False)
        condition = Condition(holds, use)
        self.constants.append(condition)
        self.decisions[expr, use] = Decision(condition, use, self._names(expr), None, False, condition)
        return plain_value

    def assume(self, note: str) -> None:
        """Something else that the formulas take for granted."""
        self.decisions.setdefault((None, note), Decision(note, note, frozenset(), None, pins=False))

    def decide(self, expr: Any) -> Any:
        """The value of an expression that host code insists on: recorded, unless it is the same for all values."""
        outcome = self._outcome(expr)
        if outcome.free_symbols:
            raise ReadsDataError(
                f"the host function reads a tensor's data at {asking()[0]}, and a derivation has no data",
                "Trace it, or give what it reads as a parameter.",
            )
        if not expr.free_symbols:
            return outcome
        is_branch = outcome in (sympy.true, sympy.false)
        holds: Any = sympy.Not(expr) if outcome == sympy.false else expr
        if is_branch and holds in self.unsaid:
            return outcome
        where, inside_torch = asking()
        sides = self._sides(holds)
        if is_branch and (_always(holds) or (inside_torch and not sides and _ordinary(holds))):
            self.unsaid[holds] = Condition(_renamed(holds, self._names_of), "")
            return outcome
        reason = f"{'branch' if is_branch else 'taken as a number'} at {where}"
        if (expr, reason) not in self.decisions:
            equals = (sides[0], sides[1]) if len(sides) == 2 else None
            condition = Condition(recognised(_renamed(holds, self._names_of)), reason)
            pins = not is_branch or len(sides) == 1
            told = condition if is_branch else None
            self.decisions[expr, reason] = Decision(condition, reason, self._names(expr), equals, pins, told)
        return outcome

    def _outcome(self, expr: Any) -> Any:
        """At the given values; torch asks the same questions again and again."""
        if expr not in self._outcomes:
            self._outcomes[expr] = _at(expr, self._hints)
        return self._outcomes[expr]

    def _sides(self, holds: Any) -> list[str]:
        """Of an equality the sides that are parameters, in the order that these were given."""
        sides = [str(self._named[side]) for side in holds.args if side in self._named] if holds.func is sympy.Eq else []
        return sorted(sides, key=list(self.given).index)

    def _names(self, expr: Any) -> frozenset[str]:
        return frozenset(str(self._named[symbol]) for symbol in expr.free_symbols if symbol in self._named)


@contextmanager
def quick_quotients() -> Generator[None]:
    """While it lasts, what torch divides is multiplied out and no more: it asks sympy to simplify both sides of a quotient
    once their common factor is gone, which takes up to half a second and loads sympy's physics."""
    with Patches() as patches:
        patches.set(sympy, "simplify", _sympy.expand)
        yield


def bit_length(value: Any) -> Any:
    """`SymInt.bit_length` without pinning, which torch's own does; the powers of two of kernels' blocks come from it."""
    expr = BitLength(_of(value))
    return value.node.shape_env.create_symintnode(expr, hint=None)


class _Shapes(ShapeEnv):
    """torch's keeper of symbolic shapes, whose decisions are taken by `Symbols`."""

    def __init__(self, symbols: Symbols) -> None:
        for method in vars(ShapeEnv).values():  # torch remembers what each keeper was asked, and so every keeper
            getattr(method, "cache_clear", int)()
        super().__init__(duck_shape=False, specialize_zero_one=False)
        self._decider = symbols

    def _get_stack_summary(self, is_debug: bool = False, framework_loc: str | None = None) -> tuple[SLoc, str]:
        """torch's note of where a symbol or guard comes from, which nobody reads here and for which it loads torch.export."""
        del is_debug
        return SLoc(framework_loc, None), ""

    def evaluate_expr(self, orig_expr: Any, *args: Any, **kwargs: Any) -> Any:
        """torch's one way to a decision; the rest of its arguments are about code that it will not generate here."""
        del args, kwargs
        return self._decider.decide(orig_expr)


@lru_cache(maxsize=4096)
def _renamed(expr: Any, names: tuple[tuple[Any, Symbol], ...]) -> Any:
    """In the user's names. Symbols of other runs are the same."""
    return expr.xreplace(dict(names))


@lru_cache(maxsize=4096)
def _plainly(expr: Any, names: tuple[tuple[Any, Symbol], ...]) -> Expr:
    """In the user's names and sympy's functions. Raises `OpaqueExpressionError`."""
    return plain(expr, dict(names))


def _of(value: Any) -> Any:
    """The sympy expression behind a symbolic number."""
    return value.node.expr


def _python(value: Any) -> Any:
    """A sympy number as Python's."""
    if value in (sympy.true, sympy.false):
        return bool(value)
    return int(value) if value.is_integer else float(value)


@lru_cache(maxsize=4096)
def _always(expr: Any) -> bool | None:
    """What a condition says for every value of its symbols from `SMALLEST` on; None where that depends.

    A size at which it does not hold ends the question before sympy is asked, whose answers take up to a second."""
    if not all(_holds_at(expr, point) for point in _TRIED_FIRST):
        return None
    with suppress(OpaqueExpressionError):
        expr = plain(expr, {symbol: symbol for symbol in expr.free_symbols})
    with suppress(UsageError):
        if certain(expr, SMALLEST):
            return True
    lifted = {symbol: _sympy.Dummy(integer=True, positive=True) + (SMALLEST - 1) for symbol in expr.free_symbols}
    known: Any = expr.xreplace(lifted)
    if known.is_Relational:
        left, right = known.args
        known = known.func(_sympy.expand(left - right), 0)
    return bool(known) if known in (sympy.true, sympy.false) else None


_TRIED_FIRST = ((2, 3), (5, 64), (64, 2), (100, 33), (1000, 4096), (4095, 17), (2**40, 2**33 + 1))
"""Sizes in turn for the symbols of a condition, up to some that no counter of 32 bits holds."""


def _holds_at(condition: Any, sizes: tuple[int, ...]) -> bool:
    """Whether it holds with these sizes, or has no quick answer."""
    names = sorted(str(symbol) for symbol in condition.free_symbols)
    try:
        return bool(compute(condition, {name: sizes[at % len(sizes)] for at, name in enumerate(names)}))
    except (UnknownFunctionError, ArithmeticError, TypeError, ValueError):
        return True


@lru_cache(maxsize=4096)
def _ordinary(condition: Any) -> bool:
    """Whether a condition that torch itself asks for says no more than that sizes are large, or what is true of all of them:
    a size that is not 0 or 1, or an inequality that holds at values all over the range of sizes."""
    if condition.func is sympy.Ne:
        return any(side in (0, 1) for side in condition.args)
    if condition.func not in (sympy.Lt, sympy.Le, sympy.Gt, sympy.Ge):
        return False
    draw = random.Random(0)  # noqa: S311 - sizes to try, the same ones each time
    symbols = sorted(condition.free_symbols, key=str)
    points = ({symbol: sympy.Integer(int(2 ** draw.uniform(6, 40))) for symbol in symbols} for _ in range(TRIED_SIZES))
    return all(_at(condition, point) == sympy.true for point in points)


def _at(expr: Any, point: Mapping[Any, Any]) -> Any:
    """The expression with numbers for its symbols, as sympy would have it: of integers Python finds it much faster."""
    if _integral(expr) and expr.free_symbols <= point.keys():
        with suppress(ArithmeticError, ValueError):
            return _sympy.sympify(compute(expr, {str(symbol): int(size) for symbol, size in point.items()}))
    return expr.xreplace(point)


@lru_cache(maxsize=4096)
def _integral(expr: Any) -> bool:
    """Whether all that is in it is an integer or a truth."""
    return all(map(_is_integral, sympy.preorder_traversal(expr)))


def _is_integral(node: Any) -> bool:
    name = type(node).__name__
    return name in INTEGRAL or node.is_Integer is True or (name == "PowByNatural" and node.args[1].is_nonnegative is True)


def asking() -> tuple[str, bool]:
    """`file.py:12`, the deepest line of the user's own code that is running, and whether it was torch that asked below it."""
    frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    inside_torch = False
    while frame is not None:
        path = frame.f_code.co_filename
        if not is_library(path):
            return f"{Path(path).name}:{frame.f_lineno}", inside_torch
        inside_torch |= not path.endswith(SYMINT_FILES)
        frame = frame.f_back
    return "an unknown line", inside_torch
