"""Create symbolic integer parameters for host code (`torch.SymInt`).

Every guard that a run evaluates on them is recorded.

torch carries symbolic integers through shapes and strides. A comparison, or a conversion to a plain integer, is a guard. Guards
are only recorded here: torch's own solver would specialise the symbols permanently.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import Any

import sympy
import torch
from sympy import Expr, Symbol
from torch._guards import SLoc
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv

from ioaware._monkeypatch import Patches
from ioaware.analysis.formulas.functions import positive_symbols
from ioaware.symints.decision import Decision
from ioaware.symints.guard_range import SMALLEST, holds_always, holds_for_large_sizes, value_at
from ioaware.symints.guards import Condition, as_remainder
from ioaware.symints.host_line import WRITERS, reads_data_error, user_line
from ioaware.symints.powers_of_two import recognise_powers_of_two, variable_powers
from ioaware.symints.to_sympy import OpaqueExpressionError, plain
from ioaware.symints.without_dynamo import NamedSource, light_shape_env

AS_TEXT = "is text at"
"""What a note says of sizes that host code writes as text, after their names."""

_sympy: Any = sympy


NOTHING: Mapping[str, str] = {}


class Symbols:
    """The symbolic parameters of one run, and every guard on them."""

    def __init__(self, values: Mapping[str, int], same: Mapping[str, str] = NOTHING) -> None:
        """Create a symbol for each value.

        `same` maps merged parameters to the one that gives the symbol.
        """
        with light_shape_env():
            self.shapes: Any = _ShapeEnv(self)
        self.ints: dict[str, Any] = {}
        """The arguments for host code, by parameter."""
        self.decisions: dict[tuple[Any, str], Decision] = {}
        self.constants: list[Condition] = []
        """Conditions of constexprs, in the order of their use."""
        self.implicit: dict[Any, Condition] = {}
        """Conditions that are not shown: torch's own, and those that can fail at 1 alone."""
        self.limits: list[Condition] = []
        """Conditions of the GPU: grids that it can launch.

        They hold for all but extreme sizes, and are not shown.
        """
        self.keys: set[str] = set()
        """Parameters that host code used as the key of a cache or table."""
        self._values = values
        self.given = {name: max(value, SMALLEST) for name, value in values.items()}
        """The values at which guards are evaluated."""
        self._named: dict[Any, Symbol] = {}
        self._hints: dict[Any, Any] = {}
        self._outcomes: dict[Any, Any] = {}
        for name, hint in self.given.items():
            source = NamedSource(name)
            with light_shape_env():
                symbol: Any = self.shapes.create_symbol(
                    hint, source, DimDynamic.DYNAMIC, None, positive=True, do_not_specialize_zero_one=True
                )
            self.ints[name] = self.shapes.create_symintnode(symbol, hint=hint, source=source)
            (self._named[symbol],) = positive_symbols(name)
            self._hints[symbol] = sympy.Integer(hint)
        self._names_of = tuple(self._named.items())
        self.ints |= {name: self.ints[other] for name, other in same.items()}

    def runs_at_substitute(self, name: str) -> bool:
        """Return whether guards see another value of this parameter than its own.

        They see 2 for 1.
        """
        return self.given[name] != self._values[name]

    def expression(self, value: Any) -> Expr:
        """Return an integer as a formula in the user's names.

        A power of two in it, as of a block size, is taken at its value, which becomes a condition. Another integer without a
        formula is guarded, so its parameters are pinned.
        """
        if not isinstance(value, torch.SymInt):
            return sympy.Integer(int(value))
        with suppress(OpaqueExpressionError):
            return _plainly(expression_of(value), self._names_of)
        with suppress(OpaqueExpressionError):
            return _plainly(self._at_powers_of_two(expression_of(value)), self._names_of)
        return sympy.Integer(int(value))

    def _at_powers_of_two(self, expr: Any) -> Any:
        """Insert the values of powers of two, and record them as conditions."""
        powers = variable_powers(expr)
        if not powers or not expr.free_symbols <= self._named.keys():
            return expr
        values = {power: self._outcome(power) for power in powers}
        found = expr.xreplace(values)
        _plainly(found, self._names_of)  # raises where no formula is left
        reason = f"taken as a number at {user_line()[0]}"
        for power, value in values.items():
            condition = Condition(
                _sympy.Eq(recognise_powers_of_two(_renamed(power, self._names_of)), value, evaluate=False), reason
            )
            self.decisions[power, reason] = Decision(condition, reason, self._names(power), None, False, condition)
        return found

    def value(self, value: Any) -> Any:
        """Return a symbolic number as a plain one, without recording a guard."""
        if not isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
            return value
        outcome = self._outcome(expression_of(value))
        if outcome.free_symbols:
            raise reads_data_error()
        return _python(outcome)

    def is_data(self, value: Any) -> bool:
        """Return whether a number was read from a tensor without data."""
        is_symbolic = isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool))
        return is_symbolic and not expression_of(value).free_symbols <= self._named.keys()

    def constant(self, value: Any, use: str) -> Any:
        """Return a constexpr as a plain value, and record the guard.

        `use` names the constexpr.

        A bare parameter is pinned; an expression of parameters becomes a condition.
        """
        if not isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
            return value
        expr, plain_value = expression_of(value), self.value(value)
        if expr in self._named:
            note = f"{use} is {plain_value} at {self._named[expr]} = {plain_value}, and the formulas are for that"
            self.decisions[expr, use] = Decision(note, use, self._names(expr), None, pins=True)
            return plain_value
        named = recognise_powers_of_two(_renamed(expr, self._names_of))
        if isinstance(value, torch.SymBool):
            holds = named if plain_value else sympy.Not(named)
        else:
            holds = _sympy.Eq(named, plain_value, evaluate=False)
        condition = Condition(holds, use)
        self.constants.append(condition)
        self.decisions[expr, use] = Decision(condition, use, self._names(expr), None, False, condition)
        return plain_value

    def limit(self, value: Any, most: int, use: str) -> None:
        """Record that an integer must not exceed `most`.

        The formulas are not evaluated where it does.
        """
        if isinstance(value, torch.SymInt) and expression_of(value).free_symbols <= self._named.keys():
            holds = _sympy.Le(_renamed(expression_of(value), self._names_of), most, evaluate=False)
            self.limits.append(Condition(holds, use))

    def assume(self, note: str) -> None:
        """Record another assumption of the formulas, as text."""
        self.decisions.setdefault((None, note), Decision(note, note, frozenset(), None, pins=False))

    def key(self, expr: Any) -> int:
        """Return the hash of an expression that host code uses as a key.

        Equal only for equal expressions of this run.

        Raises `TypeError` inside torch, which expects that symbolic integers have no hash.
        """
        where, inside_torch = user_line()
        if inside_torch:
            raise TypeError("unhashable type: non-nested SymInt")
        self._check_by_running(expr, f"is the key of a cache or table at {where}")
        return hash((id(self), expr))

    def text(self, expr: Any, form: str) -> str:
        """Return the text of an expression at the given values, its symbols to torch.

        It may be the key of a cache or table. Raises `ReadsDataError` where the value is data.
        """
        where, inside_torch = user_line(WRITERS)
        if inside_torch:
            return format(str(expr), form)
        outcome = self._outcome(expr)
        if outcome.free_symbols:
            raise reads_data_error()
        if expr.free_symbols:
            self._check_by_running(expr, f"{AS_TEXT} {where}")
        return format(_python(outcome), form)

    def _check_by_running(self, expr: Any, use: str) -> None:
        names = self._names(expr)
        self.keys |= names
        self.assume(f"{', '.join(sorted(names))} {use}: other values are checked by running")

    def decide(self, expr: Any) -> Any:
        """Return the value of an expression that host code guards on.

        The guard is recorded unless it holds for all values. Raises `ReadsDataError` where the value is data.
        """
        outcome = self._outcome(expr)
        if outcome.free_symbols:
            raise reads_data_error()
        if not expr.free_symbols:
            return outcome
        is_branch = outcome in (sympy.true, sympy.false)
        holds: Any = as_remainder(sympy.Not(expr) if outcome == sympy.false else expr)
        if is_branch and holds in self.implicit:
            return outcome
        where, inside_torch = user_line()
        sides = self._sides(holds)
        if is_branch and (holds_always(holds) or (inside_torch and not sides and holds_for_large_sizes(holds))):
            self.implicit[holds] = Condition(_renamed(holds, self._names_of), "")
            return outcome
        reason = f"{'branch' if is_branch else 'taken as a number'} at {where}"
        if (expr, reason) not in self.decisions:
            equals = (sides[0], sides[1]) if len(sides) == 2 else None
            condition = Condition(recognise_powers_of_two(_renamed(holds, self._names_of)), reason)
            pins = not is_branch or len(sides) == 1
            portable = condition if is_branch else None
            self.decisions[expr, reason] = Decision(condition, reason, self._names(expr), equals, pins, portable)
        return outcome

    def _outcome(self, expr: Any) -> Any:
        """Evaluate at the given values; cached, since torch repeats its guards."""
        if expr not in self._outcomes:
            self._outcomes[expr] = value_at(expr, self._hints)
        return self._outcomes[expr]

    def _sides(self, holds: Any) -> list[str]:
        """Return the sides of an equality that are parameters, in parameter order."""
        sides = [str(self._named[side]) for side in holds.args if side in self._named] if holds.func is sympy.Eq else []
        return sorted(sides, key=list(self.given).index)

    def _names(self, expr: Any) -> frozenset[str]:
        return frozenset(str(self._named[symbol]) for symbol in expr.free_symbols if symbol in self._named)


@contextmanager
def cheap_simplify() -> Generator[None]:
    """Replace `sympy.simplify` by `expand` inside the block.

    Why: torch simplifies both sides of a quotient, which takes up to half a second and imports sympy.physics.
    """
    with Patches() as patches:
        patches.set(sympy, "simplify", _sympy.expand)
        yield


class _ShapeEnv(ShapeEnv):
    """`ShapeEnv` with guards evaluated by `Symbols`."""

    def __init__(self, symbols: Symbols) -> None:
        for method in vars(ShapeEnv).values():  # its lru_caches would keep every ShapeEnv alive
            getattr(method, "cache_clear", int)()
        super().__init__(duck_shape=False, specialize_zero_one=False)
        self.decider = symbols

    def _get_stack_summary(self, is_debug: bool = False, framework_loc: str | None = None) -> tuple[SLoc, str]:
        """Return an empty location.

        torch's own imports torch.export, and the result is not read here.
        """
        del is_debug
        return SLoc(framework_loc, None), ""

    def evaluate_expr(self, orig_expr: Any, *args: Any, **kwargs: Any) -> Any:
        """Evaluate a guard.

        The other arguments concern code generation, which does not happen here.
        """
        del args, kwargs
        return self.decider.decide(orig_expr)


@lru_cache(maxsize=4096)
def _renamed(expr: Any, names: tuple[tuple[Any, Symbol], ...]) -> Any:
    """Rename to the user's names; symbols are equal across runs."""
    return expr.xreplace(dict(names))


@lru_cache(maxsize=4096)
def _plainly(expr: Any, names: tuple[tuple[Any, Symbol], ...]) -> Expr:
    """Translate to the user's names and sympy's functions.

    Raises `OpaqueExpressionError`.
    """
    return plain(expr, dict(names))


def expression_of(value: Any) -> Any:
    """Return the sympy expression of a symbolic number."""
    return value.node.expr


def _python(value: Any) -> Any:
    """Return a sympy number as a Python number."""
    if value in (sympy.true, sympy.false):
        return bool(value)
    return int(value) if value.is_integer else float(value)
