"""Derive what a call moves with each configuration of its autotuned kernels.

Formulas are of an autotuner's first configuration, and on a GPU any may be the fastest.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from ioaware.gate.derived_snapshot import Recorded, recorded, with_other_constants
from ioaware.gate.formulas.formula_order import Point
from ioaware.gate.tuning.configurations import DeriveWith, configurations_of, named

if TYPE_CHECKING:
    from ioaware.derivation.derived import Derived

DeriveAll = Callable[[Mapping[str, Any], Point], "Derived"]
"""Derives the call with given values of configurations, at given sizes."""
DIGITS = 12
"""Hexadecimal digits of a fingerprint."""


@dataclass(frozen=True, slots=True)
class AllConfigurations:
    """The bytes of a call with each configuration, in short.

    `fingerprint` changes with the bytes or sectors of any of them, at either point of its snapshot. `unknown` names one whose
    bytes are unknown; the others are then None and empty.
    """

    most_bytes: int | None
    fingerprint: str
    unknown: str = ""


def all_configurations(derived: Derived, derive: DeriveAll, chosen: Mapping[str, Any] = {}) -> AllConfigurations:
    """Return the most bytes of any configurations, and a fingerprint of all.

    Each autotuned kernel takes the one that moves most. Those that the autotuner prunes or that do not compile move nothing.
    """
    base = requested_bytes(derived)
    most: dict[str, int] = {}
    lines: list[str] = []
    if base is None:
        return AllConfigurations(None, "", "the first configuration")
    for kernel, name, values, other in each_configuration(derived, lambda values: derive(values, {}), chosen):
        if other is None:
            lines.append(f"{name}: does not run")
            continue
        moved = requested_bytes(other)
        if moved is None:
            return AllConfigurations(None, "", name)
        most[kernel] = max(most.get(kernel, base), moved)
        lines.append(f"{name}: {_numbers(with_other_constants(recorded(other), other, partial(derive, values)))}")
    digest = hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()[:DIGITS]
    fingerprint = f"{len(lines)}, {digest}" if lines else ""
    return AllConfigurations(base + sum(moved - base for moved in most.values()), fingerprint)


def each_configuration(
    derived: Derived, derive_with: DeriveWith, chosen: Mapping[str, Any] = {}
) -> Iterator[tuple[str, str, Mapping[str, Any], Derived | None]]:
    """Yield each configuration: its kernel, its name, its values and its derivation.

    The other kernels keep their first. None stands for a derivation that the GPU cannot run.
    """
    from ioaware.fakegpu.autotuning import NoConfigurationError

    for values in configurations_of(derived, chosen):
        kernel = next(iter(values), ":").rpartition(":")[0]
        name = f"{kernel} with {named(values)}"
        try:
            yield kernel, name, values, derive_with(values)
        except NoConfigurationError:
            yield kernel, name, values, None


def requested_bytes(derived: Derived) -> int | None:
    """Return the bytes that the kernels request; None where they are not exact."""
    return derived.requested.total_bytes if derived.requested and derived.exact else None


def _numbers(now: Recorded) -> str:
    """Return the bytes of each kind and the sectors, at each point."""
    points = [(sorted(point.items()), dict(zip(now.texts, values, strict=True))) for point, values in now.values]
    return repr((points, now.facts["sector_bytes"], now.other_sectors, now.facts["tma_loads"]))
