"""Compare two versions of a target side by side.

The rows are bytes by their formulas, sectors, and the resources of its kernels.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ioaware.gate.formulas.formula_names import admission, read_pair
from ioaware.gate.formulas.formula_order import Comparison, Point, at_text, compare
from ioaware.gate.row import FIELDS, OPERATORS, RESOURCES, Row
from ioaware.gate.verdict import Verdict, worst

SCHEMA = 1
MORE_IS_WORSE = {"local_bytes": True, "tma_loads": False, "tma_stores": False}
"""Resources that are gated: what a gate refuses to gain, or to lose.

The others are shown.
"""

MOST_BYTES = "most bytes"
"""Name of the line of all configurations of an autotuner."""
INT32 = " <= 2147483647"
"""The end of a condition that an integer of 32 bits sets."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of a difference.

    It holds a fact, its old and new value, formulas where it has them, and the verdict.
    """

    name: str
    old: int | None
    new: int | None
    verdict: Verdict
    reason: str
    old_formula: str | None = None
    new_formula: str | None = None
    gated: bool = True

    def to_dict(self) -> dict[str, Any]:
        """Return the stable JSON form, without unknown keys."""
        known = {name: getattr(self, name) for name in ("name", "old", "new", "old_formula", "new_formula")}
        known |= {"verdict": str(self.verdict), "reason": self.reason, "gated": self.gated}
        return {name: value for name, value in known.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Difference:
    """The verdict on a new version, its reason, and every line."""

    verdict: Verdict
    reason: str
    rows: tuple[Entry, ...]
    old: Row
    new: Row

    def to_dict(self) -> dict[str, Any]:
        """Return the stable JSON form."""
        sides = {
            name: {"target": row.target, "header": str(row.header)} for name, row in (("old", self.old), ("new", self.new))
        }
        return {
            "schema": SCHEMA,
            "verdict": str(self.verdict),
            "reason": self.reason,
            **sides,
            "rows": [entry.to_dict() for entry in self.rows],
        }


def difference(old: Row, new: Row, *, cross_toolchain: bool = False) -> Difference:
    """Return how `new` differs from `old`, two versions of one target.

    Both stand at the same parameters.

    Rows of two toolchains are INCOMPARABLE; with `cross_toolchain` they are SAME where they are proven equal.
    """
    entries = tuple(_entries(old, new))
    verdict, reason = _verdict(old, new, entries, cross_toolchain=cross_toolchain)
    return Difference(verdict, reason, entries, old, new)


def _verdict(old: Row, new: Row, entries: tuple[Entry, ...], *, cross_toolchain: bool) -> tuple[Verdict, str]:
    if differing := [name for name in sorted({*old.sizes, *new.sizes}) if old.sizes.get(name) != new.sizes.get(name)]:
        name = differing[0]
        return Verdict.INCOMPARABLE, f"{name} is {old.sizes.get(name)} and {new.sizes.get(name)}: give both the same with -p"
    if not (old.exact and new.exact):
        side = "both sides are" if not old.exact and not new.exact else "the old is" if not old.exact else "the new is"
        return Verdict.INCOMPARABLE, f"{side} not exact"
    gated = [entry for entry in entries if entry.gated]
    verdict = worst(entry.verdict for entry in gated)
    if old.header.toolchain != new.header.toolchain and not (cross_toolchain and verdict is Verdict.SAME):
        equal = "; nothing that is gated differs" if verdict is Verdict.SAME else ""
        return Verdict.INCOMPARABLE, f"the toolchain moved: {_moved(old, new)}{equal}"
    of_kernels = worst(entry.verdict for entry in gated if entry.name in (*FIELDS, *RESOURCES.values()))
    if old.header == new.header and of_kernels is not Verdict.SAME:
        return Verdict.INCOMPARABLE, "the same IR, arguments and grids: ioaware derives them differently now"
    if verdict.passes and (narrower := _narrower(old, new)):
        return Verdict.UNSURE, f"the new formulas hold only where {narrower}"
    if verdict is Verdict.SAME:
        return verdict, "nothing that is gated differs"
    return verdict, next((f"{entry.name}: {entry.reason}" for entry in gated if entry.verdict is verdict), "")


def _narrower(old: Row, new: Row) -> str:
    """Return the conditions that the old formulas do not have.

    Those on the largest integers of a GPU are left out.
    """
    return " and ".join(one for one in new.conditions if one not in old.conditions and not one.endswith(INT32))


def _moved(old: Row, new: Row) -> str:
    pairs = (("Triton", old.header.triton, new.header.triton), ("GPU", old.header.gpu, new.header.gpu))
    return ", ".join(f"{name} {before} -> {after}" for name, before, after in pairs if before != after)


def _entries(old: Row, new: Row) -> Iterator[Entry]:
    names = old.sizes | new.sizes
    conditions = dict.fromkeys((*old.conditions, *new.conditions))
    operators = [kind for kind in OPERATORS if (old.bytes[kind], new.bytes[kind]) != (0, 0)]
    for kind in (*FIELDS, *operators):
        before, after = old.bytes[kind], new.bytes[kind]
        formulas = old.formulas.get(kind), new.formulas.get(kind)
        if formulas[0] is not None and formulas[1] is not None:
            found = compare_texts(formulas[0], formulas[1], names, [old.sizes], conditions)
            yield Entry(kind, before, after, found.verdict, found.reason, *formulas)
        else:
            verdict, reason = _of_numbers(before, after, more_is_worse=True)
            yield Entry(kind, before, after, verdict, reason, gated=kind == "atomics" or (before, after) != (None, None))
    if old.by_configuration != {} or new.by_configuration != {}:
        yield _of_configurations(old, new)
        yield from _of_each_configuration(old, new)
    for name in RESOURCES:
        if name in MORE_IS_WORSE:
            verdict, reason = _of_numbers(old.resources[name], new.resources[name], more_is_worse=MORE_IS_WORSE[name])
            known = old.resources[name] is not None or new.resources[name] is not None
            yield Entry(RESOURCES[name], old.resources[name], new.resources[name], verdict, reason, gated=known)
        else:
            verdict, reason = _of_numbers(old.resources[name], new.resources[name], more_is_worse=True)
            yield Entry(RESOURCES[name], old.resources[name], new.resources[name], verdict, reason, gated=False)


def _of_configurations(old: Row, new: Row) -> Entry:
    """Return the line of the most bytes of any configuration of an autotuner."""
    before, after = old.range_of_bytes, new.range_of_bytes
    if before is None or after is None:
        row = old if before is None else new
        reason = "a saved derivation holds one configuration of its autotuner: compare the targets themselves"
        if row.by_configuration is not None:
            reason = "not known for all configurations: choose one with --config"
        return Entry(MOST_BYTES, before and before[1], after and after[1], Verdict.UNSURE, reason)
    verdict, reason = _of_numbers(before[1], after[1], more_is_worse=True)
    return Entry(MOST_BYTES, before[1], after[1], verdict, reason)


def _of_each_configuration(old: Row, new: Row) -> Iterator[Entry]:
    """Yield what differs with one configuration.

    One that the old side lacks is UNSURE where another of the old side moves less: an autotuner may leave that for it.
    """
    before, after = old.by_configuration or {}, new.by_configuration or {}
    for name in after:
        if name in before:
            entries = _entries(before[name], after[name])
            changed = (one for one in entries if one.gated and one.verdict is not Verdict.SAME)
            yield from (replace(one, name=f"{one.name}, {name}") for one in changed)
            continue
        fewest, moved = old.range_of_bytes, after[name].total_bytes
        if fewest and (moved is None or moved > fewest[0]):
            reason = f"a new configuration, and one of the old side moves {fewest[0]:,} B"
            yield Entry(f"bytes, {name}", None, moved, Verdict.UNSURE, reason)


def compare_texts(
    old: str, new: str, names: Mapping[str, Any], points: Sequence[Point], conditions: Iterable[str] = ()
) -> Comparison:
    """Compare two formulas as text, which hold under conditions.

    One that cannot be read is INCOMPARABLE.

    The same text twice is the same formula.
    """
    pair = read_pair(old, new, names)
    if isinstance(pair, str):
        if old == new:
            return Comparison(Verdict.SAME, "the same formula")
        return Comparison(Verdict.INCOMPARABLE, pair)
    return compare(*pair, points, admission(conditions, names))


def _of_numbers(old: int | None, new: int | None, *, more_is_worse: bool) -> tuple[Verdict, str]:
    """Return the verdict on two numbers at one point.

    An unknown one is never SAME as a known one.
    """
    if old is None or new is None:
        return Verdict.INCOMPARABLE, "unknown" if old is None and new is None else "unknown on one side"
    if old == new:
        return Verdict.SAME, "equal"
    worse = (new > old) == more_is_worse
    return (Verdict.WORSE if worse else Verdict.BETTER), f"{new - old:+,}"


def point_text(row: Row) -> str:
    """Return the sizes of a row as text."""
    return at_text(row.sizes)
