"""Derive one third-party target and compare with its trace.

The sizes are the given ones and, with the same formulas, others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LONGEST_FORMULA = 150
LEADING_TERM_S = 10.0
EQUAL = "equal"
DATA = "depends on data"
SCALES = ((3, 5, 1), (1, 2, 0), (3, 4, 0), (4, 5, -1), (9, 10, 1), (1, 1, -1), (1, 1, 1), (5, 4, 1), (2, 1, 0))
"""Another size is size * a / b + c.

Smaller ones come first, since a trace takes its time.
"""


@dataclass(frozen=True, slots=True)
class Row:
    """One kernel of one target.

    Without a kernel, the target was refused: `reason` says why.
    """

    target: str
    kernel: str = ""
    reads: str = ""
    writes: str = ""
    conditions: str = ""
    exact: bool = False
    traced: str = ""
    """equal, or how derived and traced differ, or why there is no trace."""
    elsewhere: str = ""
    """The same at other sizes, with these formulas; empty where no parameter is free."""
    sizes: str = ""
    reason: str = ""

    @property
    def equal(self) -> bool:
        """Whether the trace counts the same bytes, at both sizes where there are two."""
        return self.traced == EQUAL and self.elsewhere in (EQUAL, "")


def examined(spec: str) -> list[Row]:
    """Derives and traces one target, in this process."""
    import ioaware
    from ioaware.errors import IoawareError

    name = Path(spec).name
    try:
        derived = ioaware.derive(spec, check=True)
    except IoawareError as error:
        return [Row(name, reason=line(str(error)))]
    pairs = [(launch, kernel) for launch, kernel in zip(derived.launches, derived.kernels, strict=True) if kernel]
    here = _against_trace(spec, derived, {})
    sizes, there = _elsewhere(spec, derived)
    rows: dict[str, Row] = {}
    for at, (launch, kernel) in enumerate(pairs):
        row = Row(
            name,
            launch.kernel,
            table_formula(kernel.read_bytes),
            table_formula(kernel.write_bytes),
            " and ".join(launch.conditions),
            launch.exact,
            here[at],
            there[at] if there else "",
            sizes,
            "" if launch.exact else line(launch.notes[0] if launch.notes else ""),
        )
        known = rows.get(launch.kernel)
        if known is None or (known.equal and not row.equal):  # of several launches the one that differs
            rows[launch.kernel] = row
    return list(rows.values())


def table_formula(count: Any) -> str:
    """Return a formula that fits a table, with names for repeated parts.

    For a longer one its leading term, or its length.
    """
    from ioaware.analysis.formulas.common_subexpressions import name_subexpressions
    from ioaware.analysis.formulas.leading_term import leading_term
    from ioaware.analysis.formulas.printing import show
    from ioaware.display.time_limit import within

    text = show(count.expr)
    if len(text) <= LONGEST_FORMULA:
        return f"`{text}`"
    short = name_subexpressions(count.expr)
    where = ", ".join(f"`{name} = {show(value)}`" for name, value in short.names)
    if where and len(show(short.expr)) + len(where) <= LONGEST_FORMULA:
        return f"`{show(short.expr)}` with {where}"
    leading = within(LEADING_TERM_S, lambda: leading_term(count.expr))
    if leading is not None and len(show(leading)) <= LONGEST_FORMULA:
        return f"~ `{show(leading)}` ({len(text)} characters in full)"
    return f"a {'closed form' if count.closed else 'sum'} of {len(text)} characters"


def _against_trace(spec: str, derived: Any, values: Mapping[str, int]) -> list[str]:
    """Return for each launch whether the trace here counts what its formulas say.

    Both are at these values.
    """
    import ioaware
    from ioaware.errors import IoawareError

    kernels = [kernel for kernel in derived.kernels if kernel is not None]
    names = [launch.kernel for launch in derived.launches if launch.origin == "triton"]
    try:
        found = ioaware.trace(spec, **{**derived.params, **values})
    except IoawareError as error:
        return [f"no trace: {line(str(error))}"] * len(names)
    traced = [launch for launch in found.launches if launch.origin == "triton"]
    if [launch.kernel for launch in traced] != names:
        return [f"the trace launches {', '.join(launch.kernel for launch in traced)}"] * len(names)
    point = {**derived.symbols, **values}
    outcome = [compared(kernel, launch, point) for kernel, launch in zip(kernels, traced, strict=True)]
    if DATA not in outcome:
        return outcome
    there = ioaware.derive(spec, **{**derived.params, **values}) if values else derived
    launches = [launch for launch in there.launches if launch.origin == "triton"]
    return [
        at_own_data(launch, seen) if said == DATA and launch.exact else said
        for said, launch, seen in zip(outcome, launches, traced, strict=True)
    ]


def at_own_data(launch: Any, traced: Any) -> str:
    """Return what a trace says of the bytes that are exact for the target's own data."""
    counts = [
        (name, getattr(launch.requested, f"{name}_bytes"), getattr(traced.requested, f"{name}_bytes"))
        for name in ("read", "write", "atomic")
    ]
    return "; ".join(f"{name} {one} against {other}" for name, one, other in counts if one != other) or EQUAL


def compared(kernel: Any, traced: Any, point: Mapping[str, int]) -> str:
    """Return what a trace says of the formulas at a point.

    Bytes, sectors (where both know them), operands of atomics and FLOPs are compared.
    """
    counts = [
        ("read", kernel.read_bytes, traced.requested.read_bytes),
        ("write", kernel.write_bytes, traced.requested.write_bytes),
        ("atomic", kernel.atomic_bytes, traced.requested.atomic_bytes),
        ("FLOPs", kernel.flops, traced.flops),
    ]
    if any(count.symbols - point.keys() for _, count, _ in counts):
        return DATA
    sectors = [("read sectors", kernel.read_sector_bytes), ("write sectors", kernel.write_sector_bytes)]
    for (name, count), seen in zip(
        sectors, (traced.requested.read_sector_bytes, traced.requested.write_sector_bytes), strict=True
    ):
        if count is not None and seen is not None and kernel.sectors_exact and not count.symbols - point.keys():
            counts.append((name, count, seen))
    values = [(name, int(count.evaluate(point)), seen) for name, count, seen in counts]
    return "; ".join(f"{name} {one} against {other}" for name, one, other in values if one != other) or EQUAL


def _elsewhere(spec: str, derived: Any) -> tuple[str, list[str]]:
    """Return the first other sizes where the formulas hold and a trace is possible.

    All parameters are moved, else one.
    """
    outcome: list[str] = []
    sizes = ""
    for values in _other_sizes(derived):
        outcome = _against_trace(spec, derived, values)
        sizes = ", ".join(f"{name}={value}" for name, value in values.items())
        if not any(one.startswith("no trace") for one in outcome):
            break
    return sizes, outcome


def _other_sizes(derived: Any) -> Iterator[dict[str, int]]:
    """Points at which `evaluate` does not refuse."""
    from ioaware.errors import UsageError

    given = dict(derived.symbols)
    moved = [_moved(given, scale) for scale in SCALES]
    single = [{name: values[name]} for values in moved for name in given]
    for values in (*moved, *single):
        changed = {name: value for name, value in values.items() if value != given[name]}
        if not changed:
            continue
        try:
            derived.validity.check({**given, **changed})
        except UsageError:
            continue
        yield changed


def _moved(given: Mapping[str, int], scale: Sequence[int]) -> dict[str, int]:
    times, over, plus = scale
    return {name: max(1, value * times // over + plus) for name, value in given.items()}


def line(text: str) -> str:
    """The first line, checkouts' paths cut down to file names."""
    words = text.strip().partition("\n")[0].split(" ")
    return " ".join(word.rpartition("/")[2] if word.startswith("/") else word for word in words)
