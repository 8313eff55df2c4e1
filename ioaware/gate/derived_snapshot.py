"""Build what a snapshot records of a derivation.

It holds formulas, their values at two points, facts of the kernels, and what made them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ioaware.gate.constant_sizes import DeriveAt, other_point
from ioaware.gate.derived_work import admission_of, conditions_of, formulas_of, operator_formulas_of
from ioaware.gate.formulas.formula_order import Point, value_at
from ioaware.gate.kernel_facts import facts_of, sector_bytes_at
from ioaware.gate.row import Header, joined_hash
from ioaware.gate.tuning.configurations import configurations_of

if TYPE_CHECKING:
    from ioaware.derivation.derived import Derived
    from ioaware.gate.tuning.configuration_bytes import AllConfigurations


UNKNOWN = "unknown"
"""Text of bytes that have no formula."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """A derivation as a snapshot has it.

    `texts` are the formulas, `values` the bytes of each at each point, `where` the conditions under which the formulas
    hold. `choices` counts the configurations of autotuned kernels that may move other bytes, and `configurations` is the
    fingerprint of what all of them move. `unknown` names one whose bytes are unknown. `other_sectors` are the bytes of sectors
    at the points after the first, whose are a fact.
    """

    texts: Mapping[str, str]
    values: tuple[tuple[Point, tuple[int | None, ...]], ...]
    facts: Mapping[str, int | None]
    header: Header
    where: tuple[str, ...] = ()
    choices: int = 0
    other_sectors: tuple[int | None, ...] = ()
    configurations: str = ""
    unknown: str = ""

    def with_configurations(self, found: AllConfigurations) -> Recorded:
        """Return the record with what all configurations move."""
        facts = {**self.facts, "most_bytes": found.most_bytes}
        return replace(self, facts=facts, configurations=found.fingerprint, unknown=found.unknown)


def recorded(derived: Derived) -> Recorded:
    """Return what a snapshot of this derivation records.

    Atomics, and bytes of torch's own operators, are part of it where there are any.
    """
    from ioaware.analysis.formulas.printing import show

    formulas = formulas_of(derived)
    if formulas.get("atomics") == 0:
        del formulas["atomics"]
    formulas |= operator_formulas_of(derived)
    texts = {kind: UNKNOWN if expr is None else show(expr) for kind, expr in formulas.items()}
    values = tuple((point, tuple(_value(expr, point) for expr in formulas.values())) for point in points_of(derived))
    choices = len(configurations_of(derived))
    sectors = tuple(sector_bytes_at(derived, point) for point, _ in values[1:])
    return Recorded(texts, values, facts_of(derived), header_of(derived), conditions_of(derived), choices, sectors)


def with_other_constants(now: Recorded, derived: Derived, derive_at: DeriveAt) -> Recorded:
    """Return the record with a second point that has other constants.

    Formulas say nothing of such a point, so that growth by those sizes would not be seen.
    """
    second = other_point(derived, derive_at, list(now.texts))
    if not second:
        return now
    return replace(now, values=(now.values[0], second), other_sectors=(facts_of(derive_at(second[0]))["sector_bytes"],))


def _value(expr: Any, point: Point) -> int | None:
    return None if expr is None else value_at(expr, point)


def points_of(derived: Derived) -> tuple[Point, ...]:
    """Return the given sizes and other ones at which the formulas hold.

    The others are ragged where the formulas hold for ragged sizes.
    """
    first = {name: value for name, value in derived.params.items() if type(value) is int}
    return next(((first, second) for second in _others(derived, first)), (first,))


def _others(derived: Derived, first: Mapping[str, int]) -> Iterator[Point]:
    """Yield other sizes at which the formulas hold, each of another kind."""
    from ioaware.errors import UsageError

    symbols = derived.symbols or {}
    admits = admission_of(derived)
    for factor, more in ((1.5, 7), (2, 0), (1, 16), (0.5, 1)):
        changed = {name: int(value * factor) + more if name in symbols else value for name, value in first.items()}
        if changed == first or not admits(changed):
            continue
        try:
            if derived.validity:
                derived.validity.check({name: changed[name] for name in symbols if name in changed})
        except (UsageError, KeyError):
            continue
        yield changed


def header_of(derived: Derived) -> Header:
    """Return what made a derivation.

    That is Triton, the GPU compiled for, and the IR of its launches.
    """
    environment = derived.environment or {}
    hashes = [launch.ir_hash or "unknown" for launch in derived.launches if launch.origin == "triton"]
    return Header(str(environment.get("triton")), str(environment.get("compiled_for")), joined_hash(hashes or ["none"]))
