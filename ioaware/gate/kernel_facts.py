"""Name facts of compiled kernels that a snapshot may hold beside bytes.

They are sectors, TMA loads, spills, registers and shared memory, and the most bytes of any configuration of an autotuner.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ioaware.gate.verdict import Verdict

if TYPE_CHECKING:
    from ioaware.derivation.derived import Derived
    from ioaware.result import Launch


@dataclass(frozen=True, slots=True)
class Fact:
    """One fact: the launches' field, how launches combine, and the worse direction.

    It states how launches are put together, and whether more is worse.
    """

    label: str
    field: str
    summed: bool = False
    more_is_worse: bool = True


SECTORS = "bytes of 32-byte sectors at"
FACTS: Mapping[str, Fact] = {
    "sector_bytes": Fact(f"{SECTORS} the first point", "sector_bytes", summed=True),
    "most_bytes": Fact("most bytes of any autotuned configuration at the first point", ""),
    "tma_loads": Fact("TMA loads", "tma_loads", summed=True, more_is_worse=False),
    "spill_bytes": Fact("bytes that a thread spills", "local_bytes"),
    "registers": Fact("registers of a thread", "registers"),
    "shared_bytes": Fact("bytes of shared memory", "shared_bytes"),
}
ALWAYS = ("sector_bytes", "most_bytes", "tma_loads")
"""Facts that each new snapshot holds, where they are known and there are any.

Why: the same bytes may touch more sectors, as where a tile is read by columns, and sectors are what the memory moves.
Formulas are of an autotuner's first configuration, and on a GPU any may be the fastest.
"""
MACHINE_CODE = ("spill_bytes", "registers", "shared_bytes")
"""Facts that need machine code, which takes longer than the formulas.

They are derived for snapshots that hold one.
"""


def facts_of(derived: Derived) -> dict[str, int | None]:
    """Return each fact of the Triton launches: a sum or their largest.

    None where one launch's is unknown.
    """
    launches = [launch for launch in derived.launches if launch.origin == "triton"]
    found: dict[str, int | None] = {}
    for name, fact in FACTS.items():
        if not fact.field:
            found[name] = None  # see `configurations.most_bytes`
            continue
        values = [_value(launch, fact.field) for launch in launches]
        known = [value for value in values if value is not None]
        total = sum(known) if fact.summed else max(known, default=None)
        found[name] = total if len(known) == len(values) else None
    return found


def _value(launch: Launch, field: str) -> int | None:
    if field != "sector_bytes":
        return getattr(launch, field)
    moved = launch.requested
    if moved is None or moved.read_sector_bytes is None or moved.write_sector_bytes is None:
        return None
    return moved.read_sector_bytes + moved.write_sector_bytes


def sector_bytes_at(derived: Derived, point: Mapping[str, int]) -> int | None:
    """Return the bytes of 32-byte sectors at sizes for which the formulas hold.

    None where they are unknown.
    """
    from ioaware.derivation.launch_formulas import value_at

    if derived.formulas is None or derived.exact_here_only:
        return None
    values = {**derived.values, **point}
    read, written = (value_at(one, values) for one in (derived.formulas.read_sector_bytes, derived.formulas.write_sector_bytes))
    return None if read is None or written is None else read + written


def judge_fact(name: str, old: int, new: int | None, label: str = "") -> tuple[Verdict, str]:
    """Return the verdict on a fact against a snapshot's, and the reason.

    An unknown one is never SAME. `label` replaces the fact's own.
    """
    fact = FACTS[name]
    reason = f"{label or fact.label}: {old:,} -> {'unknown' if new is None else f'{new:,}'}"
    if new is None:
        return Verdict.INCOMPARABLE, reason
    if new == old:
        return Verdict.SAME, reason
    return (Verdict.WORSE if (new > old) == fact.more_is_worse else Verdict.BETTER), reason
