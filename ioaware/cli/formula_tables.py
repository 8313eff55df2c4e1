"""Print a derived result, per launch and in total.

It has the formula, its leading term and its value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, cast

from rich.console import RenderableType
from rich.text import Text

from ioaware.analysis.formulas.common_subexpressions import name_subexpressions
from ioaware.analysis.formulas.divisibility_cases import cases
from ioaware.analysis.formulas.iverson import with_brackets
from ioaware.analysis.formulas.leading_term import leading
from ioaware.analysis.formulas.printing import show
from ioaware.cli.render import Row, assignments, facts
from ioaware.cli.terminal_text import exact, printable
from ioaware.display.notebook import FOLDERS
from ioaware.display.time_limit import within
from ioaware.display.units import bytes_text, significant, times_text
from ioaware.result import Launch, Traffic

if TYPE_CHECKING:
    from sympy import Expr

    from ioaware.analysis.ir import Count, Limit
    from ioaware.derivation.derived import Derived
    from ioaware.derivation.launch_formulas import Formulas
    from ioaware.symints.guards import Condition

MAX_NOTES = MAX_CONDITIONS = 6
READABLE = 300
"""Longest formula, in characters, that is printed without `-v`."""
NEAR = 8
"""Factor by which a size may grow before conditions are printed.

They are the conditions of 32-bit integers.
"""
SHOWING_SECONDS = 3
"""Seconds that writing one formula, and finding its leading term, may take.

The leading term is found within the same time.
"""
TELLING = 60
"""Longest formula, in characters, that is printed without a leading term."""

Known = tuple[str, "Expr"]
"""Name already printed, and its formula."""
Show = Callable[["Expr"], str]


class Lines(Protocol):
    """Print a formula in lines, a known one by its name."""

    def __call__(self, expr: Expr, known: Known | None = None) -> list[str]: ...


def latex(expr: Expr) -> str:
    """Return a formula in LaTeX, parameters upright."""
    from sympy import Function
    from sympy.core.function import AppliedUndef
    from sympy.printing.latex import latex as typeset

    expr = with_brackets(expr)
    names = {symbol: rf"\mathrm{{{str(symbol).replace('_', chr(92) + '_')}}}" for symbol in expr.free_symbols}  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType, reportUnknownArgumentType]
    functions = {
        call.func: Function(rf"\mathrm{{{str(call.func).replace('_', chr(92) + '_')}}}") for call in expr.atoms(AppliedUndef)
    }
    found: Any = expr
    for function, upright in functions.items():
        found = found.replace(function, upright)
    return str(typeset(found, symbol_names=names, mul_symbol="dot"))  # pyright: ignore[reportUnknownArgumentType]


def formula_lines(
    expr: Expr,
    write: Show = show,
    *,
    verbose: bool = False,
    known: Known | None = None,
    values: Mapping[str, int] | None = None,
) -> list[str]:
    """Return the formula in lines: where lengths are whole sectors, and otherwise.

    A word marks the case that applies at `values`. Names of common subexpressions are explained below. A formula equal to
    the `known` one is replaced by that one's name.
    """
    found = cases(expr)
    whole, names = found.whole, ()
    if write is show and not verbose:
        short = name_subexpressions(whole)
        if len(write(short.expr)) + sum(len(write(value)) for _, value in short.names) <= READABLE:
            whole, names = short.expr, short.names
    same = known is not None and found.is_there(known[1])
    lines = [f"= {known[0] if known and same else brief(whole, write, verbose=verbose)}"]
    if names and not same:
        lines.append(f"  with {', '.join(f'{name} = {write(value)}' for name, value in names)}")
    if found.where is not None:
        lines[0] += f"  where {write(found.where)}"
        if found.otherwise is not None:
            here = ", as here," if values is not None and found.multiples and not found.holds(values) else ""
            lines.append(f"  otherwise{here} {brief(found.otherwise, write, verbose=verbose, limit=2 * TELLING)}")
    return lines


def brief(expr: Expr, write: Show = show, *, verbose: bool = False, limit: int = READABLE) -> str:
    """Return the formula, or above `limit` characters its parameters and length.

    `verbose` always returns it whole.
    """
    text = write(expr)
    if verbose or len(text) <= limit:
        return text
    names = ", ".join(sorted(str(symbol) for symbol in expr.free_symbols))  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType, reportUnknownArgumentType]
    return f"a formula of {names or 'no parameter'} in {len(text)} characters (-v shows it)"


def condition_text(condition: Condition, write: Show = show) -> str:
    """Return a condition as text, or with `latex` as LaTeX."""
    expr = condition.expr
    return str(condition) if write is show or expr is None else write(expr)


def derived_text(result: Derived, *, as_latex: bool = False, verbose: bool = False) -> Iterator[RenderableType]:
    """Yield the whole result: launches, totals and notes.

    Each launch has its formulas, and the totals are of several launches.
    """
    from ioaware.derivation.launch_formulas import formulas_of

    typeset: Show = latex if as_latex else show

    def write(expr: Expr, known: Known | None = None) -> list[str]:
        return formula_lines(expr, typeset, verbose=verbose, known=known, values=result.values)

    yield Text(printable(f"derive {result.target}  {assignments(result.params)}"))
    parts = zip(result.launches, result.kernels, result.holds, strict=True)
    kernels = [(launch, kernel, holds) for launch, kernel, holds in parts if kernel]
    for launch, kernel, holds in kernels:
        yield Text(printable(f"\n{launch.kernel}  grid {' x '.join(map(str, launch.grid))}"))
        rows = _rows(formulas_of(kernel), launch.requested, launch.flops, write)
        limits = [str(limit) for limit in kernel.limits if verbose or _is_near(limit, result.values)]
        yield facts([*rows, *_conditions_row(holds, typeset, limits, verbose=verbose)])
        yield facts([*_parameters(launch), *_chip(launch)])
    held = result.validity.conditions if result.validity else ()
    yield from _total(result, write, [*_conditions_row(held, typeset, verbose=verbose)] if len(kernels) > 1 else None)
    yield Text("")
    yield from remarks(result, verbose=verbose)


def remarks(result: Derived, *, verbose: bool = False, floor: bool = True) -> Iterator[RenderableType]:
    """Yield the notes, each once.

    Without `verbose` only the first few of each kernel, without folders of paths. `floor` includes the notes on compulsory
    bytes.
    """
    notes = [note for note in result.notes if floor or not note.startswith("compulsory")]
    assumed = [note for note in notes if note.startswith("assumes")]
    left_out = set(assumed[MAX_NOTES:]) if not verbose else set[str]()
    for note in notes:
        if note not in left_out:
            yield Text(printable(f"note: {note}"))
    if left_out:
        yield Text(f"note: assumes {len(left_out)} more conditions (-v shows them)")
    kernels: dict[str, dict[str, None]] = {}
    for launch in result.launches:
        if launch.origin == "triton":
            kernels.setdefault(launch.kernel, {}).update(dict.fromkeys(launch.notes))
    for kernel, notes in kernels.items():
        shown = tuple(notes) if verbose else tuple(dict.fromkeys(FOLDERS.sub("", note) for note in notes))
        for note in shown if verbose else shown[:MAX_NOTES]:
            yield Text(printable(f"note: {kernel}: {note}"))
        if not verbose and len(shown) > MAX_NOTES:
            yield Text(printable(f"note: {kernel}: {len(shown) - MAX_NOTES} more of these (-v shows them)"))


def _conditions_row(
    conditions: Sequence[Condition], write: Show, limits: Sequence[str] = (), *, verbose: bool
) -> Iterator[Row]:
    """Yield the conditions under which the formulas above hold, each once.

    Without `verbose` only the first few.
    """
    texts = list(dict.fromkeys((*(condition_text(condition, write) for condition in conditions), *limits)))
    shown = texts if verbose or len(texts) <= MAX_CONDITIONS else texts[:MAX_CONDITIONS]
    if texts:
        more = [f"{len(texts) - len(shown)} more conditions (-v shows them)"] if len(shown) < len(texts) else []
        yield "for", "", " and ".join((*shown, *more))


def _is_near(limit: Limit, values: Mapping[str, int]) -> bool:
    """Return whether sizes a few times as large would break a limit.

    Other limits are shown with -v.
    """
    return limit.value.symbols <= values.keys() and int(cast(int, limit.value.evaluate(values))) > limit.most // NEAR


def _total(result: Derived, write: Lines, held: Sequence[Row] | None) -> Iterator[RenderableType]:
    """Yield the totals of several kernels, torch's operators, and compulsory bytes.

    There are several kernels where `held` is not None, and the operators are torch's own.
    """
    rows: list[Row] = []
    if held is not None and result.formulas:
        rows += [*_rows(result.formulas, result.requested, result.flops, write), *_known_sectors(result, write), *held]
    if result.assumed:
        rows += [
            ("assumed (torch) reads", _bytes(result.assumed.read_bytes), f"= {result.assumed.read_formula}"),
            ("assumed (torch) writes", _bytes(result.assumed.write_bytes), f"= {result.assumed.write_formula}"),
        ]
    floor = result.compulsory.total_bytes if result.compulsory else None
    moved = result.requested.total_bytes if result.requested else None
    if floor:
        rows.append(("compulsory", _bytes(floor), f"requested is {times_text(moved / floor)} this" if moved else ""))
    rows.append(("exact", "yes" if result.exact else "NO", "" if result.exact else _inexact(result)))
    yield Text("\ntotal")
    yield facts(rows)


def _known_sectors(result: Derived, write: Lines) -> Iterator[Row]:
    """Yield the sectors of those launches that have them, where the total is unknown."""
    kernels = [kernel for kernel in result.kernels if kernel]
    for name, attribute in (("read sectors", "read_sector_bytes"), ("write sectors", "write_sector_bytes")):
        counts = [(kernel.kernel, cast("Count | None", getattr(kernel, attribute))) for kernel in kernels]
        known = [count for _, count in counts if count is not None]
        without = list(dict.fromkeys(kernel for kernel, count in counts if count is None))
        if not without or not known or getattr(result.requested, attribute) is not None:
            continue
        whole = sum(known[1:], known[0])
        value = int(cast(int, whole.evaluate(result.values))) if whole.symbols <= result.values.keys() else None
        yield from _formula(name, _bytes(value), whole, write)
        yield "", "", f"  (without {', '.join(without)}, whose {name} are not known)"


def _inexact(result: Derived) -> str:
    """Return where data-dependent numbers are explained, and how to set one."""
    if not any(launch.origin == "triton" for launch in result.launches):
        return "see the notes"
    open_ = [name for name in result.unknowns if name not in result.values]
    return "see the notes for what depends on data" + (f"; -p '{open_[0]}=...' gives it a value" if open_ else "")


def _rows(formulas: Formulas, traffic: Traffic | None, flops: int | None, write: Lines) -> Iterator[Row]:
    """Yield value and formula of each kind of traffic.

    The leading term stands where it adds something.
    """
    counted: Sequence[tuple[str, Count | None, int | None]] = (
        ("reads", formulas.read_bytes, traffic and traffic.read_bytes),
        ("writes", formulas.write_bytes, traffic and traffic.write_bytes),
        ("atomics", formulas.atomic_bytes, traffic and traffic.atomic_bytes),
        ("read sectors", formulas.read_sector_bytes, traffic and traffic.read_sector_bytes),
        ("write sectors", formulas.write_sector_bytes, traffic and traffic.write_sector_bytes),
    )
    known = {"read sectors": ("reads", formulas.read_bytes.expr), "write sectors": ("writes", formulas.write_bytes.expr)}
    for name, count, value in counted:
        if count is None and value is not None:
            yield name, _bytes(value), "for the data of the target, without a formula"
        if count is None or (name not in ("reads", "writes") and count.expr == 0):
            continue
        yield from _formula(name, _bytes(value), count, write, known.get(name))
    if formulas.flops.expr != 0:
        yield from _formula("FLOPs", "unknown" if flops is None else exact(flops, ""), formulas.flops, write)
        moved = traffic and traffic.total_bytes
        if flops and moved:
            yield "intensity", significant(flops / moved), "FLOP per requested byte"


def _formula(name: str, value: str, count: Count, write: Lines, known: Known | None = None) -> Iterator[Row]:
    """Yield the value with its formula, then the leading term.

    A long formula has the reason why it has none instead. An upper bound has `<=` and no leading term.
    """
    expr = count.expr
    if count.at_most:
        lines = within(SHOWING_SECONDS, lambda: write(expr)) or ["= a long formula (--json has it)"]
        yield from ((name, value, f"<{lines[0]}"), *(("", "", line) for line in lines[1:]))
        return
    lines = within(SHOWING_SECONDS, lambda: write(expr, known))
    first, *more = lines or [f"= a formula that takes longer than {SHOWING_SECONDS} s to write (--json has it)"]
    yield name, value, first
    for line in more:
        yield "", "", line
    if lines is None or (known and first.startswith(f"= {known[0]}")):
        return
    lines = within(SHOWING_SECONDS, lambda: list(_leading_lines(expr, write, is_long=len(first) > TELLING)))
    if lines is None:
        lines = [f"  (no leading term: it takes longer than {SHOWING_SECONDS} s to find)"]
    for line in lines:
        yield "", "", line


def _leading_lines(expr: Expr, write: Lines, *, is_long: bool) -> Iterator[str]:
    """Yield the leading term where it adds something, or why a long formula has none."""
    found = leading(expr)
    if found.term is not None and _depends_on_data(found.term) and len(show(found.term)) > len(show(expr)):
        yield "  (no leading term: it is longer than the formula)"
    elif found.term is not None and found.term != cases(expr).whole:
        first, *more = write(found.term)
        yield "~" + first.removeprefix("=")
        yield from more
    elif found.term is None and is_long:
        yield f"  (no leading term: {found.why})"


def _depends_on_data(expr: Expr) -> bool:
    """Return whether an unknown, whose name has a source line, is in a formula."""
    symbols: Any = expr.free_symbols
    return any("@" in str(symbol) for symbol in symbols)


def _parameters(launch: Launch) -> Iterator[Row]:
    """Yield the arguments that are parameters of a module."""
    for number, (argument, name) in enumerate((launch.parameters or {}).items()):
        yield "parameters" if number == 0 else "", argument, f"is {name}"


def _chip(launch: Launch) -> Iterator[Row]:
    if launch.shared_bytes is not None:
        yield "shared memory", exact(launch.shared_bytes), "a program"
    if launch.registers is not None:
        yield "registers", exact(launch.registers, ""), "a thread"
    if launch.local_bytes:
        yield "local memory", exact(launch.local_bytes), "a thread: spilled registers"
    for name, count in (launch.counters or {}).items():
        if count:
            yield "will be counted", exact(count, ""), name


def _bytes(value: int | None) -> str:
    return "unknown" if value is None else f"{exact(value)} ({bytes_text(value)})" if value >= 1024 else exact(value)
