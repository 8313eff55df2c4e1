"""A derived result as text: per launch and in total the formula, its leading term, its value, and what that means."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import RenderableType
from rich.text import Text

from ioaware.analysis.formula import show
from ioaware.analysis.growth import leading_term
from ioaware.cli.render import Row, assignments, facts
from ioaware.cli.text import exact, printable
from ioaware.report.units import bytes_text, significant, times_text
from ioaware.traffic import Launch, Traffic

if TYPE_CHECKING:
    from sympy import Expr

    from ioaware.analysis.ir import Count
    from ioaware.instruments.conditions import Condition
    from ioaware.instruments.derive import Derived, Formulas

READABLE = 300
"""Characters of a formula that are shown unasked."""

Show = Callable[["Expr"], str]


def latex(expr: Expr) -> str:
    """A formula for a paper, parameters upright."""
    from sympy import Function
    from sympy.core.function import AppliedUndef
    from sympy.printing.latex import latex as typeset

    names = {symbol: rf"\mathrm{{{str(symbol).replace('_', chr(92) + '_')}}}" for symbol in expr.free_symbols}  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType, reportUnknownArgumentType]
    functions = {
        call.func: Function(rf"\mathrm{{{str(call.func).replace('_', chr(92) + '_')}}}") for call in expr.atoms(AppliedUndef)
    }
    found: Any = expr
    for known, named in functions.items():
        found = found.replace(known, named)
    return str(typeset(found, symbol_names=names))  # pyright: ignore[reportUnknownArgumentType]


def brief(expr: Expr, write: Show = show, *, verbose: bool = False) -> str:
    """The formula, or when it is longer than anyone reads, what it is made of; `verbose` always gives it whole."""
    text = write(expr)
    if verbose or len(text) <= READABLE:
        return text
    names = ", ".join(sorted(str(symbol) for symbol in expr.free_symbols))  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType, reportUnknownArgumentType]
    return f"a formula of {names or 'no parameter'} in {len(text)} characters (-v shows it)"


def condition_text(condition: Condition, write: Show = show) -> str:
    """What a formula is for, as text or, with `latex` to write it, for a paper."""
    expr = condition.expr
    return str(condition) if write is show or expr is None else write(expr)


def derived_text(result: Derived, *, as_latex: bool = False, verbose: bool = False) -> Iterator[RenderableType]:
    """The whole result: each launch with its formulas, the totals where there are several, the remarks."""
    from ioaware.instruments.derive import formulas_of

    typeset: Show = latex if as_latex else show

    def write(expr: Expr) -> str:
        return brief(expr, typeset, verbose=verbose)

    yield Text(printable(f"derive {result.target}  {assignments(result.params)}"))
    parts = zip(result.launches, result.kernels, result.holds, strict=True)
    kernels = [(launch, kernel, holds) for launch, kernel, holds in parts if kernel]
    for launch, kernel, holds in kernels:
        yield Text(printable(f"\n{launch.kernel}  grid {' x '.join(map(str, launch.grid))}"))
        rows = _rows(formulas_of(kernel), launch.requested, launch.flops, write)
        yield facts([*rows, *_held(holds, typeset)])
        yield facts(_chip(launch))
    held = result.validity.conditions if result.validity else ()
    yield from _total(result, write, [*_held(held, typeset)] if len(kernels) > 1 else None)
    yield Text("")
    yield from remarks(result)


def remarks(result: Derived) -> Iterator[RenderableType]:
    """What the numbers rest on, each once; what is assumed of torch's operators the totals say."""
    notes = [f"{launch.kernel}: {note}" for launch in result.launches if launch.origin == "triton" for note in launch.notes]
    for note in dict.fromkeys((*result.notes, *notes)):
        yield Text(printable(f"note: {note}"))


def _held(conditions: Sequence[Condition], write: Show) -> Iterator[Row]:
    """What the formulas above it are for."""
    if conditions:
        yield "for", "", " and ".join(condition_text(condition, write) for condition in conditions)


def _total(result: Derived, write: Show, held: Sequence[Row] | None) -> Iterator[RenderableType]:
    """All kernels together where there are several (`held` is not None), what torch's own operators move beside them, and
    the floor."""
    rows: list[Row] = []
    if held is not None and result.formulas:
        rows += [*_rows(result.formulas, result.requested, result.flops, write), *held]
    if result.assumed:
        rows += [
            ("assumed (torch) reads", _bytes(result.assumed.read_bytes), f"= {result.assumed.read_formula}"),
            ("assumed (torch) writes", _bytes(result.assumed.write_bytes), f"= {result.assumed.write_formula}"),
        ]
    floor = result.compulsory.total_bytes if result.compulsory else None
    moved = result.requested.total_bytes if result.requested else None
    if floor:
        rows.append(("compulsory", _bytes(floor), f"requested is {times_text(moved / floor)} this" if moved else ""))
    rows.append(("exact", "yes" if result.exact else "NO", "" if result.exact else "the notes say what depends on data"))
    yield Text("\ntotal")
    yield facts(rows)


def _rows(formulas: Formulas, traffic: Traffic | None, flops: int | None, write: Show) -> Iterator[Row]:
    """Value and formula of each kind of traffic that there is, and below it the leading term where it says more."""
    counted: Sequence[tuple[str, Count | None, int | None]] = (
        ("reads", formulas.read_bytes, traffic and traffic.read_bytes),
        ("writes", formulas.write_bytes, traffic and traffic.write_bytes),
        ("atomics", formulas.atomic_bytes, traffic and traffic.atomic_bytes),
        ("read sectors", formulas.read_sector_bytes, traffic and traffic.read_sector_bytes),
        ("write sectors", formulas.write_sector_bytes, traffic and traffic.write_sector_bytes),
    )
    for name, count, value in counted:
        if count is None or (name not in ("reads", "writes") and count.expr == 0):
            continue
        yield name, _bytes(value), f"= {write(count.expr)}"
        yield from _leading(count.expr, write)
    if formulas.flops.expr != 0:
        yield "FLOPs", "unknown" if flops is None else exact(flops, ""), f"= {write(formulas.flops.expr)}"
        moved = traffic and traffic.total_bytes
        if flops and moved:
            yield "intensity", significant(flops / moved), "FLOP per requested byte"


def _leading(expr: Expr, write: Show) -> Iterator[Row]:
    leading = leading_term(expr)
    if leading is not None and leading != expr:
        yield "", "", f"~ {write(leading)}"


def _chip(launch: Launch) -> Iterator[Row]:
    if launch.shared_bytes is not None:
        yield "shared memory", exact(launch.shared_bytes), "a program"
    if launch.registers is not None:
        yield "registers", exact(launch.registers, ""), "a thread"
    for name, count in (launch.counters or {}).items():
        if count:
            yield "will be counted", exact(count, ""), name


def _bytes(value: int | None) -> str:
    return "unknown" if value is None else f"{exact(value)} ({bytes_text(value)})" if value >= 1024 else exact(value)
