"""Write the message of a failing gate.

It shows both formulas, the growth, its source line, and how to accept it; of a budget, the lines that move the most bytes.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ioaware.display.units import times_text
from ioaware.gate import budgets
from ioaware.gate.constant_sizes import DeriveAt, constants_of, is_elsewhere
from ioaware.gate.derived_snapshot import Recorded, recorded
from ioaware.gate.formulas.formula_order import Comparison, at_text
from ioaware.gate.repository.ledger import LEDGER
from ioaware.gate.repository.line_ages import line_ages, newest
from ioaware.gate.snapshot import Judgement, Snapshot
from ioaware.gate.verdict import Verdict

if TYPE_CHECKING:
    from ioaware.derivation.derived import Derived

MAX_LINES = 3
HEADLINES = {
    Verdict.SAME: "nothing changed",
    Verdict.BETTER: "fewer bytes than the snapshot: accept it",
    Verdict.WORSE: "more bytes than the snapshot",
    Verdict.GROWTH: "the same bytes here, another growth",
    Verdict.UNSURE: "no more bytes at any size tried, not proven at others",
    Verdict.INCOMPARABLE: "cannot be compared with the snapshot",
}
EQUAL_BYTES = {
    Verdict.WORSE: "the same bytes, and a fact of the kernels is worse than the snapshot's",
    Verdict.BETTER: "the same bytes, and a fact of the kernels is better than the snapshot's: accept it",
}


def failure_text(
    snapshot: Snapshot, now: Recorded, found: Judgement, derived: Derived, command: str, derive_at: DeriveAt
) -> str:
    """Return the message of a test whose snapshot does not hold.

    `command` accepts what is now. `derive_at` derives the call at other sizes.
    """
    return "\n".join(_lines(snapshot, now, found, derived, command, derive_at))


def _lines(
    snapshot: Snapshot, now: Recorded, found: Judgement, derived: Derived, command: str, derive_at: DeriveAt
) -> Iterator[str]:
    if snapshot.missing:
        yield f"MISSING: {derived.target} has no snapshot yet"
        if found.verdict is not Verdict.INCOMPARABLE:
            yield f"  why         {found.reason}"
    else:
        equal = all(one.verdict is Verdict.SAME for one in found.comparisons.values())
        headlines = HEADLINES | EQUAL_BYTES if equal else HEADLINES
        yield f"{found.verdict}: {derived.target}: {headlines[found.verdict]}"
        yield f"  why         {found.reason}"
    for kind in dict.fromkeys((*snapshot.texts, *now.texts)):
        yield from _formula(kind, snapshot, now, found.comparisons.get(kind))
    yield from _sources(snapshot, now, found, derived, derive_at)
    yield from _operators(found, derived)
    yield from _floor(derived)
    if snapshot.header and snapshot.header != now.header:
        yield f"  made with   {snapshot.header}"
        yield f"  now         {now.header}"
    if derived.exact:
        yield f"  {'write it' if snapshot.missing else 'accept'} with {command}"
    else:
        yield f"  no snapshot can hold these bytes: make the kernel exempt in {LEDGER}, with the reason"


def budget_text(over: Sequence[budgets.Judgement], derived: Derived) -> str:
    """Return the message of a test that exceeds budgets.

    It says which and why, and shows the lines that move the most bytes.
    """
    return "\n".join(_budget_lines(over, derived))


def _budget_lines(over: Sequence[budgets.Judgement], derived: Derived) -> Iterator[str]:
    for one in over:
        yield f"{one.verdict}: {derived.target} is not within {one.budget}"
        yield f"  why         {one.reason}"
    in_bytes = [one.budget for one in over if one.budget not in budgets.COUNTS]
    kinds = dict.fromkeys(kind for name in in_bytes for kind in budgets.BYTES.get(name, budgets.BYTES["max_bytes"]))
    if derived.exact and kinds:
        texts = recorded(derived).texts
        yield from (f"  {kind:<11} {texts[kind]}" for kind in kinds if kind in texts)
        yield from _listed(_moving(derived, kinds), "largest")
        yield from _floor(derived)
    yield "  A budget is not raised by --traffic=accept; change it in the test."


def _formula(kind: str, snapshot: Snapshot, now: Recorded, compared: Comparison | None) -> Iterator[str]:
    old, new = snapshot.texts.get(kind), now.texts.get(kind, "0")
    if old is None or (compared and compared.verdict is Verdict.SAME):
        yield f"  {kind:<11} {new}"
        return
    yield f"  {kind:<11} {old}"
    yield f"  {'now':<11} {new}"
    for point, before, after in compared.values if compared else ():
        if before is not None and after is not None:
            share = f", {100 * (after - before) / before:+.1f} %" if before else ""
            yield f"              {at_text(point)}: {before:,} -> {after:,} ({after - before:+,}{share})"
    if compared and compared.witness:
        point, before, after = compared.witness
        yield f"              {at_text(point)}: {before:,} -> {after:,} ({after - before:+,})"


def _sources(snapshot: Snapshot, now: Recorded, found: Judgement, derived: Derived, derive_at: DeriveAt) -> Iterator[str]:
    """Yield the lines that explain what changed.

    They are those whose bytes are the difference, or else the largest ones. A snapshot has totals, so that of several
    lines with these bytes any may be the new one: what was written last comes first. What changed where a constant is
    another is explained there.
    """
    changed = [kind for kind, one in found.comparisons.items() if one.verdict is not Verdict.SAME]
    if snapshot.missing or not changed:
        return
    constants = constants_of(derived)
    there = [one.witness[0] for one in found.comparisons.values() if one.witness and is_elsewhere(one.witness[0], constants)]
    if there:
        only = {kind: replace(one, values=()) for kind, one in found.comparisons.items()}
        derived, found = derive_at(there[0]), replace(found, comparisons=only)
    moving = _moving(derived, changed)
    exact = [] if there else _fitting(moving, snapshot, now, changed)
    exact = exact or _fitting_by_value(moving, found, changed, derived)
    likely = _with_newest(exact, moving) if exact else moving
    yield from _listed(likely, "largest" if not exact else "one of" if len(likely) > 1 else "from")


def _with_newest(fitting: list[Any], moving: list[Any]) -> list[Any]:
    """Return the lines that fit, and those that were written last, which come first.

    Why: an older line may move as many bytes as a newer one does more.
    """
    places = {id(one): (str(one[0].path), int(one[1].number)) for one in moving}
    last = newest(places.values(), line_ages(places.values()))
    new = [one for one in moving if places[id(one)] in last]
    return [*new, *(one for one in fitting if places[id(one)] not in last)]


def _operators(found: Judgement, derived: Derived) -> Iterator[str]:
    """Yield torch's own operators, the largest first.

    None where their total has not changed.
    """
    if all(one.verdict is Verdict.SAME for kind, one in found.comparisons.items() if kind.startswith("torch_")):
        return
    operators = [launch for launch in derived.launches if launch.origin == "torch"]
    moving = [(one.requested.total_bytes or 0, one.kernel) for one in operators if one.requested]
    label = "torch"
    for moved, name in sorted(moving, key=lambda one: (-one[0], one[1]))[:MAX_LINES]:
        yield f"  {label:<11} {name}: {moved:,} B"
        label = ""


def _moving(derived: Derived, kinds: Collection[str]) -> list[Any]:
    """Return the source lines that move bytes of these kinds, with their accesses.

    The most bytes come first.
    """
    from ioaware.derivation.line_report import KINDS, explain, value

    lines = [
        (section, line, [access for access in line.accesses if KINDS[access.kind] in kinds])
        for kernel in explain(derived)
        for section in kernel.sections
        for line in section.lines
    ]
    moving = [(section, line, accesses) for section, line, accesses in lines if accesses]
    return sorted(moving, key=lambda one: -sum(value(access.bytes, derived.values) or 0 for access in one[2]))


def _listed(lines: Sequence[Any], label: str) -> Iterator[str]:
    """Yield the first lines, with the bytes of each access by its kind."""
    from ioaware.derivation.line_report import KINDS

    for section, line, accesses in lines[:MAX_LINES]:
        kinds = dict.fromkeys(KINDS[access.kind] for access in accesses)
        each = {kind: ", ".join(str(access.bytes) for access in accesses if KINDS[access.kind] == kind) for kind in kinds}
        yield f"  {label:<11} {_shown(section.path)}:{line.number}: {line.text.strip()}"
        yield f"              {'; '.join(f'{kind} {bytes_of} bytes' for kind, bytes_of in each.items())}"
        label = ""


def _fitting(moving: list[Any], snapshot: Snapshot, now: Recorded, changed: list[str]) -> list[Any]:
    """Return the lines with an access whose formula is the difference of the totals."""
    from ioaware.gate.formulas.formula_names import read_pair
    from ioaware.gate.formulas.formula_order import proven_equal

    names = {name for point, _ in now.values for name in point}
    grown: list[Any] = []
    for kind in changed:
        pair = read_pair(snapshot.texts.get(kind, "0"), now.texts.get(kind, "0"), names)
        if not isinstance(pair, str):
            grown.append(pair[1] - pair[0])
    return [one for one in moving if any(proven_equal(access.bytes.expr, more) for access in one[2] for more in grown)]


def _fitting_by_value(moving: list[Any], found: Judgement, changed: list[str], derived: Derived) -> list[Any]:
    """Return the lines whose bytes are the difference at every size compared.

    Why: a formula with conditions may be equal to the difference without a proof.
    """
    from ioaware.derivation.line_report import value

    grown: list[list[tuple[Mapping[str, int], int]]] = []
    for kind in changed:
        compared = found.comparisons[kind]
        known = [*compared.values, *([compared.witness] if compared.witness else [])]
        grown.append([(point, new - old) for point, old, new in known if old is not None and new is not None])

    def fits(access: Any) -> bool:
        return any(
            all(value(access.bytes, {**derived.values, **point}) == more for point, more in points)
            for points in grown
            if any(more for _, more in points)
        )

    return [one for one in moving if any(map(fits, one[2]))]


def _shown(path: str) -> str:
    """Return a path below the working directory as it is seen from there."""
    return os.path.relpath(path) if Path(path).is_relative_to(Path.cwd()) else path


def _floor(derived: Derived) -> Iterator[str]:
    floor = derived.compulsory.total_bytes if derived.compulsory else None
    moved = derived.requested.total_bytes if derived.requested else None
    if floor and moved is not None:
        yield f"  compulsory  {floor:,} B; requested {moved:,} B is {times_text(moved / floor)} this"
