"""Compare a derivation with a snapshot in a test.

A snapshot is formulas with their values at two points.

    traffic.snapshot(
        reads="2*cols*rows",
        writes="2*cols*rows",
        at={"rows=4096, cols=2048": (16_777_216, 16_777_216)},
        made_with="triton 3.7.1, cuda:90, ir 0123456789ab",
    )

One without arguments is missing and never equal to anything.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from ioaware.errors import UsageError
from ioaware.gate.budgets import NAMES, check_budgets
from ioaware.gate.constant_sizes import DeriveAt, bytes_at, compared_elsewhere, constants_of, is_elsewhere
from ioaware.gate.derived_snapshot import Recorded
from ioaware.gate.formulas.formula_names import read_pair
from ioaware.gate.formulas.formula_order import Comparison, Point, at_text, compare, value_at
from ioaware.gate.kernel_facts import FACTS, MACHINE_CODE, SECTORS, judge_fact, sector_bytes_at
from ioaware.gate.row import Header
from ioaware.gate.verdict import Verdict, worst

if TYPE_CHECKING:
    from ioaware.derivation.derived import Derived

OPERATORS = ("torch_reads", "torch_writes")
"""Bytes of torch's own operators, which have no IR."""
KINDS = ("reads", "writes", "atomics", *OPERATORS)
AND = " and "
HEADER = re.compile(r"triton ([^,\s]{1,40}), ((?:cuda|hip):[A-Za-z0-9]{1,20}), ir ([0-9a-z]{4,64})")
CONFIGURATIONS = re.compile(r"[0-9]{1,6}, [0-9a-f]{12}")
POINT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=([0-9]{1,18})")
REMEDY = "Let pytest write it: --traffic=accept."


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The arguments of `traffic.snapshot`, checked."""

    texts: Mapping[str, str]
    values: tuple[tuple[Point, tuple[int, ...]], ...] = ()
    facts: Mapping[str, int] = field(default_factory=dict[str, int])
    other_sectors: tuple[int, ...] = ()
    """Bytes of sectors at the points after the first."""
    header: Header | None = None
    where: tuple[str, ...] | None = None
    """The conditions of the formulas; None where a person has not written any."""
    configurations: str = ""
    """The fingerprint of what all configurations of autotuned kernels move."""
    budgets: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def missing(self) -> bool:
        """Return whether there is nothing to compare with yet."""
        return not self.texts

    @property
    def needs_machine_code(self) -> bool:
        """Return whether a fact or a budget holds what only machine code tells."""
        return "max_spills" in self.budgets or any(name in self.facts for name in MACHINE_CODE)

    @property
    def holds_configurations(self) -> bool:
        """Return whether it holds what other configurations than the first move."""
        return "most_bytes" in self.facts or bool(self.configurations)


def snapshot_of(**given: Any) -> Snapshot:
    """Return a snapshot of its arguments.

    Raises `UsageError` for one that is unknown, missing or of another type.
    """
    budgets = {name: given.pop(name) for name in NAMES if name in given}
    check_budgets(budgets)
    facts = {name: given.pop(name) for name in FACTS if name in given}
    sectors = _split_sectors(facts)
    for name, value in facts.items():
        if type(value) is not int or value < 0:
            raise UsageError(f"{name} of a snapshot is a whole number, not {value!r}", REMEDY)
    if not given:
        return Snapshot({}, facts=facts, budgets=budgets)
    texts = {kind: given.pop(kind) for kind in KINDS if kind in given}
    at, made_with, where, tuned = (given.pop(name, None) for name in ("at", "made_with", "where", "configurations"))
    if given:
        raise UsageError(f"a snapshot has no argument {', '.join(sorted(given))}", REMEDY)
    for kind in ("reads", "writes"):
        if kind not in texts:
            raise UsageError(f"the snapshot has no {kind}", REMEDY)
    for kind, text in texts.items():
        if type(text) is not str or not text.strip():
            raise UsageError(f"{kind} of a snapshot is a formula in text, not {text!r}", REMEDY)
    header, values = _header(made_with), _values(at, len(texts))
    if sectors and len(sectors) != len(values) - 1:
        raise UsageError(f"the snapshot has {len(sectors) + 1} numbers of sectors and {len(values)} points", REMEDY)
    if tuned is not None and not (isinstance(tuned, str) and CONFIGURATIONS.fullmatch(tuned)):
        raise UsageError(f"{tuned!r} is no fingerprint of configurations", REMEDY)
    return Snapshot(texts, values, facts, sectors, header, _conditions(where, header), tuned or "", budgets)


def _split_sectors(facts: dict[str, Any]) -> tuple[int, ...]:
    """Leave the first point's sectors among the facts; return the others."""
    given: object = facts.get("sector_bytes")
    if not isinstance(given, tuple) or not given:
        return ()
    numbers = cast("tuple[Any, ...]", given)
    if any(type(value) is not int or value < 0 for value in numbers):
        raise UsageError(f"sector_bytes of a snapshot are whole numbers, not {given!r}", REMEDY)
    facts["sector_bytes"] = numbers[0]
    return numbers[1:]


def _values(at: object, count: int) -> tuple[tuple[Point, tuple[int, ...]], ...]:
    if at is None:
        return ()
    if not isinstance(at, dict) or not at:
        raise UsageError(f"`at` of a snapshot is a table of points, not {at!r}", REMEDY)
    found: list[tuple[Point, tuple[int, ...]]] = []
    for text, values in cast("dict[object, object]", at).items():
        if not isinstance(values, tuple) or len(cast("tuple[object, ...]", values)) != count:
            raise UsageError(f"the snapshot has {values!r} at {text!r}, and {count} formulas", REMEDY)
        numbers = cast("tuple[Any, ...]", values)
        if any(type(value) is not int or value < 0 for value in numbers):
            raise UsageError(f"the snapshot has {values!r} at {text!r}, which are not whole numbers", REMEDY)
        found.append((_point(text), numbers))
    return tuple(found)


def _point(text: object) -> Point:
    parts = [POINT.fullmatch(part.strip()) for part in text.split(",")] if isinstance(text, str) else [None]
    found = {part[1]: int(part[2]) for part in parts if part}
    if len(found) < len(parts):
        raise UsageError(f"{text!r} is no point of a snapshot", REMEDY)
    return found


def _header(text: object) -> Header | None:
    if text is None:
        return None
    match = HEADER.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise UsageError(f"{text!r} does not say what made a snapshot", REMEDY)
    return Header(match[1], match[2], match[3])


def _conditions(text: object, header: Header | None) -> tuple[str, ...] | None:
    """Return the conditions of a snapshot.

    One that pytest wrote has all; of one that a person wrote they may be unknown.
    """
    if text is None:
        return () if header else None
    if not isinstance(text, str) or not text.strip():
        raise UsageError(f"`where` of a snapshot is conditions in text, not {text!r}", REMEDY)
    return tuple(part.strip() for part in text.split(AND))


@dataclass(frozen=True, slots=True)
class Judgement:
    """The verdict on a derivation against a snapshot, and each formula's comparison."""

    verdict: Verdict
    reason: str
    comparisons: Mapping[str, Comparison] = field(default_factory=dict[str, Comparison])


def judge_snapshot(
    snapshot: Snapshot, now: Recorded, derived: Derived, derive_at: DeriveAt, *, cross_toolchain: bool = False
) -> Judgement:
    """Return the verdict on a derivation.

    Only SAME means that the snapshot still holds. `derive_at` derives the call at other sizes, for points at which a constant
    of its kernels is another.

    A snapshot of another toolchain is INCOMPARABLE; with `cross_toolchain` it is SAME where the formulas are proven equal.
    """
    from ioaware.gate.derived_work import admission_of

    if not derived.exact:
        of_launches = (note for one in derived.launches for note in one.notes if one.origin == "triton" and not one.exact)
        notes = [*of_launches, *derived.notes]
        why = notes[0] if notes else "see `ioaware derive`"
        return Judgement(Verdict.INCOMPARABLE, f"the bytes are not exact, and a snapshot holds exact ones: {why}")
    if snapshot.missing:
        changed = _changed(_facts(snapshot, now))
        verdict = worst(one for one, _ in changed) if changed else Verdict.INCOMPARABLE
        unknown = [f"the bytes of {now.unknown} are not exact"] if now.unknown else []
        return Judgement(verdict, "; ".join(["the snapshot is missing", *(reason for _, reason in changed), *unknown]))
    names = {name for point, _ in now.values for name in point} | {str(name) for name in derived.symbols or ()}
    admits = admission_of(derived)
    constants = constants_of(derived)
    here = [one for one in snapshot.values if not is_elsewhere(one[0], constants)]
    elsewhere = [one for one in snapshot.values if is_elsewhere(one[0], constants)]
    points = [point for point, _ in here] or [point for point, _ in now.values]
    if why := _outside([*points, *(point for point, _ in elsewhere)], names, admits, constants):
        return Judgement(Verdict.INCOMPARABLE, why)
    comparisons: dict[str, Comparison] = {}
    for kind in dict.fromkeys((*snapshot.texts, *now.texts)):
        old, new = snapshot.texts.get(kind, "0"), now.texts.get(kind, "0")
        pair = read_pair(old, new, names)
        if isinstance(pair, str):
            same = old == new
            comparisons[kind] = Comparison(Verdict.SAME if same else Verdict.INCOMPARABLE, "the same formula" if same else pair)
            continue
        if why := _damage(snapshot, here, kind, pair[0]):
            return Judgement(Verdict.INCOMPARABLE, why)
        comparisons[kind] = compare(*pair, points, admits)
    of_kernels = worst(one.verdict for kind, one in comparisons.items() if kind not in OPERATORS)
    for point, values in elsewhere:
        found = bytes_at(derive_at, point)
        if isinstance(found, str):
            return Judgement(Verdict.INCOMPARABLE, f"cannot be derived at {at_text(point)}: {found}", comparisons)
        old = dict(zip(snapshot.texts, values, strict=True))
        for kind in comparisons:
            comparisons[kind] = compared_elsewhere(comparisons[kind], point, old.get(kind, 0), found.get(kind, 0))
    changed = _changed(_facts(snapshot, now))
    if all(one is not Verdict.WORSE for one, _ in changed):
        changed += _changed(_other_sectors(snapshot, derived, derive_at))
    return _judged(
        snapshot, now, comparisons, changed, same_kernels=of_kernels is Verdict.SAME, cross_toolchain=cross_toolchain
    )


def _outside(points: list[Point], names: set[str], admits: Any, constants: Mapping[str, int]) -> str:
    for point in points:
        if set(point) != names:
            return f"the snapshot's sizes are {', '.join(sorted(point))}, the test's {', '.join(sorted(names)) or 'none'}"
        if not is_elsewhere(point, constants) and not admits(point):
            where = ", ".join(f"{name}={value}" for name, value in point.items())
            return f"the formulas hold under other conditions now, and not at {where}"
    return ""


def _damage(snapshot: Snapshot, here: Sequence[tuple[Point, tuple[int, ...]]], kind: str, formula: Any) -> str:
    """Return why a snapshot contradicts itself: its values are those of its formulas."""
    place = list(snapshot.texts).index(kind) if kind in snapshot.texts else None
    for point, values in here:
        by_formula = value_at(formula, point)
        if place is not None and by_formula != values[place]:
            return f"the snapshot contradicts itself: its {kind} are {values[place]:,}, and {by_formula} by its formula"
    return ""


def _judged(
    snapshot: Snapshot,
    now: Recorded,
    comparisons: dict[str, Comparison],
    changed: Sequence[tuple[Verdict, str]],
    *,
    same_kernels: bool,
    cross_toolchain: bool,
) -> Judgement:
    verdict = worst(one.verdict for one in comparisons.values())
    kind = next(kind for kind, one in comparisons.items() if one.verdict is verdict)
    reason = f"{kind}: {comparisons[kind].reason}"
    equal_bytes = verdict is Verdict.SAME
    if narrower := _narrower(snapshot, now):
        reason = "; ".join([*([] if equal_bytes else [reason]), f"the formulas now hold only where {narrower}"])
        verdict = worst([verdict, Verdict.UNSURE])
    if tuned := _of_configurations(snapshot, now):
        reason = "; ".join([*([] if verdict is Verdict.SAME else [reason]), tuned])
        verdict = worst([verdict, Verdict.UNSURE])
    if changed:
        reason = "; ".join([*([] if equal_bytes else [reason]), *(why for _, why in changed)])
        verdict = worst([verdict, *(one for one, _ in changed)])
    same = verdict is Verdict.SAME
    if snapshot.header and snapshot.header.toolchain != now.header.toolchain and not (cross_toolchain and same):
        moved = f"the toolchain moved: {snapshot.header} -> {now.header}"
        equal = "; the formulas are proven equal (--traffic-cross-toolchain lets that pass)" if same else ""
        return Judgement(Verdict.INCOMPARABLE, moved + equal, comparisons)
    if snapshot.header == now.header and not same_kernels:
        return Judgement(Verdict.INCOMPARABLE, "the same IR: ioaware derives it differently now", comparisons)
    return Judgement(verdict, reason, comparisons)


def _narrower(snapshot: Snapshot, now: Recorded) -> str:
    """Return the conditions that the snapshot lacks.

    At sizes that break one, other bytes may move.
    """
    if snapshot.where is None:
        return ""
    return AND.join(one for one in _split(now.where) if one not in snapshot.where)


def _of_configurations(snapshot: Snapshot, now: Recorded) -> str:
    """Return what the snapshot does not hold of autotuned configurations.

    One that a person wrote may hold the most bytes of all alone.
    """
    if now.unknown:
        return f"the bytes of {now.unknown} are not exact"
    if now.choices and "most_bytes" not in snapshot.facts:
        return f"the formulas are those of one of {now.choices} configurations, and the snapshot has no most_bytes of all"
    held = snapshot.configurations
    if held == now.configurations or not (held or snapshot.header):
        return ""
    return f"other configurations, or other bytes or sectors in some: {held or 'not held'} -> {now.configurations or 'none'}"


def _split(conditions: tuple[str, ...]) -> list[str]:
    return AND.join(conditions).split(AND) if conditions else []


def _facts(snapshot: Snapshot, now: Recorded) -> list[tuple[Verdict, str]]:
    return [judge_fact(name, old, now.facts[name]) for name, old in snapshot.facts.items()]


def _other_sectors(snapshot: Snapshot, derived: Derived, derive_at: DeriveAt) -> Iterator[tuple[Verdict, str]]:
    """Judge the sectors at the points after the first: more are another growth."""
    constants = constants_of(derived)
    for (point, _), old in zip(snapshot.values[1:], snapshot.other_sectors, strict=False):
        there = derive_at(point) if is_elsewhere(point, constants) else derived
        verdict, reason = judge_fact("sector_bytes", old, sector_bytes_at(there, point), f"{SECTORS} {at_text(point)}")
        yield Verdict.GROWTH if verdict is Verdict.WORSE else verdict, reason


def _changed(judged: Iterable[tuple[Verdict, str]]) -> list[tuple[Verdict, str]]:
    return [one for one in judged if one[0] is not Verdict.SAME]
