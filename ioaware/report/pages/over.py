"""Evaluate the formulas of a derived result along a range of one parameter."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from time import process_time
from typing import TYPE_CHECKING

from ioaware.analysis.formulas.evaluate import OutsideFormulaError
from ioaware.analysis.formulas.leading_term import leading
from ioaware.analysis.ir import Count
from ioaware.display.time_limit import within
from ioaware.errors import UsageError
from ioaware.report.pages.known_hbm import known_hbm
from ioaware.result import Traffic
from ioaware.targets.target import compulsory_bytes

if TYPE_CHECKING:
    from ioaware.derivation.derived import Derived
    from ioaware.simulation.simulation_result import Simulated

SUFFIXES: Mapping[str, int] = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30}
RANGE = re.compile(r"\s*([^\W\d]\w*)\s*=\s*(\d+)([kmg]?)i?\s*\.\.\s*(\d+)([kmg]?)i?\s*", re.IGNORECASE)
AROUND = 16
"""Without a range, a parameter goes from its value over 16 to 16 times its value."""
MAX_CURVES, MAX_SPECIALISED = 4, 2
LEADING_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Span:
    """A range of a parameter, both ends included."""

    name: str
    low: int
    high: int

    def __str__(self) -> str:
        return f"{self.name}={self.low}..{self.high}"

    def points(self, also: Iterable[int] = (), *, halves: bool = True) -> list[int]:
        """Return the values at which a range is evaluated.

        They are its powers of two, a value half-way between each two with `halves`, the ends and `also`.
        """
        powers = [1 << power for power in range(64) if self.low <= 1 << power <= self.high]
        between = [(low + high) // 2 for low, high in pairwise(powers)] if halves else []
        return sorted({self.low, self.high, *powers, *between, *(value for value in also if self.low <= value <= self.high)})


@dataclass(frozen=True, slots=True)
class Moved:
    """Bytes at one value of the parameter; None where the formulas are unknown."""

    value: int
    requested_bytes: int
    sector_bytes: int | None
    compulsory: Traffic | None
    leading_bytes: int | None
    bound_bytes: int | None = None
    flops: int | None = None

    @property
    def compulsory_bytes(self) -> int | None:
        """Every distinct byte of inputs and outputs once."""
        return self.compulsory.total_bytes if self.compulsory else None


@dataclass(frozen=True, slots=True)
class Passed:
    """Simulated HBM bytes at one value of the parameter."""

    value: int
    hbm_bytes: int


@dataclass(frozen=True, slots=True)
class Curve:
    """Bytes along a parameter.

    `left_out` are values at which the formulas do not hold, with the first reason.
    """

    span: Span
    points: tuple[Moved, ...]
    left_out: tuple[int, ...] = ()
    why: str = ""
    simulated: tuple[Passed, ...] = ()
    not_simulated: int = 0
    """Powers of two of the range that are not simulated."""
    pieces: int = 1
    """Derivations that the points come from, each of the kernel compiled there."""


def parse_span(text: str) -> Span:
    """Return the range of `seq_len=1k..64k`; k, m and g are powers of 1,024.

    Raises `UsageError`.
    """
    found = RANGE.fullmatch(text)
    if found is None:
        raise UsageError(f"--over {text!r} is no range", "Write NAME=FROM..TO, as in --over seq_len=1k..64k.")
    low, high = (int(found[at]) * SUFFIXES[found[at + 1].lower()] for at in (2, 4))
    if not 1 <= low < high < 2**63:
        raise UsageError(f"--over {text!r} is no range", "The second number is the larger; both are at least 1.")
    return Span(found[1], low, high)


def spans_of(derived: Derived, given: Sequence[Span]) -> list[Span]:
    """Return the given ranges, or one around each of the first parameters.

    They are those of the formulas. Without any such parameter they are around the first specialised ones. Raises `UsageError`.
    """
    symbols, fixed = derived.symbols or {}, specialised(derived)
    for span in given:
        if span.name not in symbols and span.name not in fixed:
            raise UsageError(
                f"{derived.target} has no parameter {span.name} of integers",
                f"Such are here: {', '.join((*symbols, *fixed)) or 'none'}.",
            )
    changing = [span for span in _around(symbols) if _depends(derived, span.name)][:MAX_CURVES]
    return list(given) or changing or _around(fixed)[:MAX_SPECIALISED]


def _around(values: Mapping[str, int]) -> list[Span]:
    return [Span(name, max(1, value // AROUND), value * AROUND) for name, value in values.items() if value > 1]


def specialised(derived: Derived) -> dict[str, int]:
    """Return the integer parameters that are numbers in the formulas."""
    symbols = derived.symbols or {}
    return {name: value for name, value in derived.params.items() if type(value) is int and name not in symbols}


def value_of(derived: Derived, name: str) -> int:
    """Return the value of a parameter with which a target was derived."""
    return (derived.symbols or {}).get(name) or specialised(derived).get(name, 0)


def _depends(derived: Derived, name: str) -> bool:
    formulas = derived.formulas
    return formulas is not None and name in (formulas.read_bytes + formulas.write_bytes).symbols


def curve(derived: Derived, span: Span, also: Iterable[int] = (), bound: Callable[[int], int | None] = lambda _: None) -> Curve:
    """Return the bytes of a derived result along a range.

    The other parameters are as given. `bound` returns the lower bound at a value, where a theorem gives one.
    """
    own = value_of(derived, span.name)
    values = span.points([*also, own], halves=span.name in (derived.symbols or {}))
    term = _leading(derived)
    points: list[Moved] = []
    left_out: list[int] = []
    why = ""
    for value in values:
        try:
            points.append(moved_at(derived, span.name, value, term, bound(value)))
        except (UsageError, OutsideFormulaError) as error:
            left_out.append(value)
            why = why or str(error).splitlines()[0]
    return Curve(span, tuple(points), tuple(left_out), why)


def moved_at(derived: Derived, name: str, value: int, term: Count | None, bound: int | None) -> Moved:
    """Return the bytes at one value of a parameter.

    Raises `UsageError` and `OutsideFormulaError` where the formulas do not hold.
    """
    fixed = specialised(derived).get(name, value)
    if fixed != value:
        raise UsageError(
            f"{derived.target} is another kernel there than at {name} = {fixed:,}", f"Derive it at {name} = {value}."
        )
    counts = derived.evaluate(**({name: value} if name in (derived.symbols or {}) else {}))
    point = {**derived.values, name: value}
    sectors = sector_bytes_at(derived, point)
    return Moved(
        value,
        sum(int(counts[part]) for part in ("read_bytes", "write_bytes", "atomic_bytes")),  # pyright: ignore[reportArgumentType]
        None if sectors is None else sectors + int(counts["atomic_bytes"]),  # pyright: ignore[reportArgumentType]
        compulsory_bytes(derived.target, {**derived.params, name: value}),
        value_at(term, point),
        bound,
        int(counts["flops"]) or None,  # pyright: ignore[reportArgumentType]
    )


def simulated_along(one: Curve, simulate: Callable[[int], Simulated], seconds: float, progress: Callable[[str], None]) -> Curve:
    """Return the curve with the simulated HBM bytes at the powers of two of its range.

    Smaller values come first. It ends when so many seconds of CPU time are used, or at a value that cannot be simulated.
    """
    values = [point.value for point in one.points if point.value.bit_count() == 1]
    found: list[Passed] = []
    end = process_time() + seconds
    for value in values:
        progress(f"simulating {one.span.name}={value}")
        passed = within(max(end - process_time(), 0.001), lambda value=value: _passed(value, simulate))
        if passed is None:
            break
        found.append(passed)
    return replace(one, simulated=tuple(found), not_simulated=len(values) - len(found))


def _passed(value: int, simulate: Callable[[int], Simulated]) -> Passed | None:
    try:
        done = simulate(value)
    except UsageError:
        return None
    hbm = known_hbm(done)
    moved = hbm.total_bytes if hbm else None
    return None if moved is None else Passed(value, moved)


def sector_bytes_at(derived: Derived, point: Mapping[str, int]) -> int | None:
    """Return the sector bytes of reads and writes at a point.

    None where they are unknown.
    """
    if derived.exact_here_only:
        own = derived.requested
        sectors = (own.read_sector_bytes, own.write_sector_bytes) if own and point == derived.values else (None, None)
        return None if None in sectors else sum(filter(None, sectors))
    formulas = derived.formulas
    sides = [] if formulas is None else [formulas.read_sector_bytes, formulas.write_sector_bytes]
    known = [value_at(side, point) for side in sides]
    return sum(one for one in known if one is not None) if known and None not in known else None


def value_at(count: Count | None, point: Mapping[str, int]) -> int | None:
    """Return a count at a point; None where it is unknown there or not an integer."""
    if count is None or count.symbols - point.keys():
        return None
    try:
        return int(count.evaluate(point))  # pyright: ignore[reportArgumentType]
    except ValueError:
        return None


def total_of(derived: Derived) -> Count | None:
    """Return the bytes that the work requests as one formula."""
    formulas = derived.formulas
    return formulas and formulas.read_bytes + formulas.write_bytes + formulas.atomic_bytes


def _leading(derived: Derived) -> Count | None:
    whole = total_of(derived)
    found = whole and within(LEADING_SECONDS, lambda: leading(whole.expr).term)
    return None if found is None or whole is None or found == whole.expr else Count(found)
