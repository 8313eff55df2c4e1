"""Print advice: the ranked choices, and those that do not fit.

Print also what the first choice costs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from rich.console import RenderableType
from rich.text import Text

from ioaware.cli.render import Row, assignments, table
from ioaware.cli.terminal_text import printable
from ioaware.display.units import UNKNOWN, bytes_text, percent_text, time_text

if TYPE_CHECKING:
    from ioaware.advice.advice_result import Advice, Choice

COLUMNS = ("hbm reads", "hbm writes", "requested", "at least", "bound by", "registers", "shared", "an SM")
MAX_RANKED, MAX_REJECTED = 12, 8
"""Rows shown; --json has all."""


def advice_text(result: Advice) -> Iterator[RenderableType]:
    """Yield title, ranked choices, the cost of the best, rejected choices, notes."""
    yield Text(printable(f"advise {result.target}  {assignments(result.params)}  on {result.machine}\n"))
    shown = [*enumerate(result.ranked[:MAX_RANKED], 1)]
    shown += [(rank, one) for rank, one in enumerate(result.ranked, 1) if one.current and rank > MAX_RANKED]
    now: Mapping[str, object] = result.current.change if result.current else {}
    names = _differing([{**now, **one.change} for _, one in shown])
    columns = (
        "",
        *_headers(names),
        "hbm reads",
        "hbm writes",
        "requested",
        "at least",
        "bound by",
        "registers",
        "shared",
        "an SM",
    )
    yield table(columns, (_choice(rank, one, now, names) for rank, one in shown), left=1 + len(names))
    if len(result.ranked) > len(shown):
        yield Text(f"{len(result.ranked) - len(shown)} more; --json has all")
    yield Text("")
    yield Text(printable(_verdict(result)))
    if result.rejected:
        yield Text(f"\n{len(result.rejected)} that do not fit")
        rows = ((_spelt(one.change), one.reason) for one in result.rejected[:MAX_REJECTED])
        yield table(("choice", "why"), rows, left=2)
        if len(result.rejected) > MAX_REJECTED:
            yield Text(f"{len(result.rejected) - MAX_REJECTED} more; --json has all")
    for note in result.notes:
        yield Text(printable(f"\nnote: {note}"))


def _differing(changes: Sequence[Mapping[str, object]]) -> list[str]:
    """Return the names whose values differ between choices, in order.

    All names where none differs, unless they are of several kernels.
    """
    names = list(dict.fromkeys(name for change in changes for name in change))
    differing = [name for name in names if len({str(change.get(name)) for change in changes}) > 1]
    return differing or (names if len({name.rpartition(":")[0] for name in names}) == 1 else [])


def _headers(names: Sequence[str]) -> list[str]:
    """Return the names without their kernel, where all are of one kernel."""
    one_kernel = len({name.rpartition(":")[0] for name in names}) == 1
    return [name.rpartition(":")[2] for name in names] if one_kernel else list(names)


def _choice(rank: int, one: Choice, now: Mapping[str, object], names: Sequence[str]) -> Row:
    """Return a choice's row; what it leaves open stays as it is now."""
    return (
        f"{rank}{' now' if one.current else ''}",
        *(_value(one.change.get(name, now.get(name))) for name in names),
        bytes_text(one.hbm.read_bytes),
        bytes_text(one.hbm.write_bytes),
        bytes_text(one.requested_bytes),
        time_text(one.bound.time_ns) if one.bound.time_ns else UNKNOWN,
        one.bound.binds or UNKNOWN,
        UNKNOWN if one.registers is None else str(one.registers),
        bytes_text(one.shared_bytes),
        str(one.programs_per_sm),
    )


def _value(value: object) -> str:
    return UNKNOWN if value is None else str(value)


def _verdict(result: Advice) -> str:
    """Return what the best choice saves against the current one, and what it costs."""
    best, now = result.best, result.current
    if best.current:
        return (
            f"Keep what it does now: no choice {'that was tried ' if result.untried else ''}is predicted to move fewer bytes."
        )
    if now is None:
        return f"Best: {_spelt(best.change)}. What it does now does not fit."
    changed = {name: value for name, value in best.change.items() if now.change.get(name) != value} or best.change
    parts = [f"hbm bytes {_against(best.hbm_bytes, now.hbm_bytes)}"]
    parts.append(f"requested bytes {_against(best.requested_bytes, now.requested_bytes)}")
    costs = [
        f"{name} {before} -> {after}"
        for name, before, after in (
            ("registers", now.registers, best.registers),
            ("shared memory", bytes_text(now.shared_bytes), bytes_text(best.shared_bytes)),
            ("programs an SM", now.programs_per_sm, best.programs_per_sm),
        )
        if before != after
    ]
    return f"Best: {_spelt(changed)}: {', '.join(parts)}. It costs: {', '.join(costs) or 'nothing more on chip'}."


def _against(after: int, before: int) -> str:
    if not before or after == before:
        return "the same"
    share = (after - before) / before
    return f"{'+' if share > 0 else '-'}{percent_text(abs(share))}"


def _spelt(change: Mapping[str, object]) -> str:
    return " ".join(f"{name}={value}" for name, value in change.items()) or UNKNOWN
