"""Find loads that touch sectors again after a wait, from machine code.

A thread may move adjacent elements by several instructions, each of which touches their sector. The compiler orders them by
registers. One that needs a register of an earlier load waits until that load is done. Meanwhile other programs may have taken
the place of the line in the L1, and it is requested again. Lines that were touched twice before the wait stay: such touches are
left out.

Source: `h200-waits.json` in `ioaware/recorded/l1`, where up to three quarters of the lines touched once are requested again,
and hardly any of those touched three or seven times.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ioaware.compilation.instructions.disassembly import REGISTER_BYTES, Instruction, thread_bytes
from ioaware.machine.model import SECTOR_BYTES

REGISTER = re.compile(r"\bR(\d+)\b")
ADDRESS = re.compile(r"\[R(\d+)\.64(?:\+(-?0x[0-9a-f]+))?\]")
LOAD = "LDG"
WITHOUT_RESULT = ("ST", "RED", "BRA", "BAR", "EXIT")
"""What operations that write no register begin with."""
Sector = tuple[str, int, int, int]
"""Sector of a load.

It is the load's place in the source, its register with the address, how often that was written, and the sector behind it.
"""


@dataclass(frozen=True, slots=True)
class AfterWaits:
    """Share of the sectors of a load whose second touch comes after a wait.

    `in_flight_bytes` are those of each thread that loads bring during it.
    """

    share: float = 0.0
    in_flight_bytes: float = 0.0


NO_WAITS = AfterWaits()


class _Touch(NamedTuple):
    """Touch of a sector after so many waits.

    Loads of the sectors `in_flight` were not done when the last one began.
    """

    waits: int
    in_flight: frozenset[Sector]


def touches_after_waits(code: Sequence[Instruction]) -> dict[str, AfterWaits]:
    """Return what loads of each source line touch for the second time after a wait.

    The register with their address tells sectors apart.
    """
    touches: dict[Sector, list[_Touch]] = defaultdict(list)
    sizes: dict[Sector, int] = defaultdict(int)
    due: dict[int, tuple[int, Sector]] = {}
    written: dict[int, int] = defaultdict(int)
    waits, in_flight = 0, frozenset[Sector]()
    for one in code:
        registers = [int(number) for number in REGISTER.findall(one.operands)]
        needed = [due[register][0] for register in registers if register in due]
        if needed:
            waits, in_flight = waits + 1, frozenset(sector for _, sector in due.values())
            due = {register: load for register, load in due.items() if load[0] > max(needed)}
        address = ADDRESS.search(one.operands) if one.operation.partition(".")[0] == LOAD else None
        results = _results(one, registers)
        if address:
            register, offset = int(address[1]), int(address[2] or "0", 16)
            sector = (one.place, register, written[register], offset // SECTOR_BYTES)
            touches[sector].append(_Touch(waits, in_flight))
            sizes[sector] += thread_bytes(one.operation)
            due |= dict.fromkeys(results, (one.at, sector))
        for register in results:
            written[register] += 1
    return _by_place(touches, sizes)


def _results(one: Instruction, registers: Sequence[int]) -> range:
    """Return the registers that an instruction writes, by its first operand."""
    if not registers or one.operation.startswith(WITHOUT_RESULT):
        return range(0)
    wide = 2 if "WIDE" in one.operation.split(".") else -(-thread_bytes(one.operation) // REGISTER_BYTES)
    return range(registers[0], registers[0] + wide)


def _by_place(touches: Mapping[Sector, Sequence[_Touch]], sizes: Mapping[Sector, int]) -> dict[str, AfterWaits]:
    later: dict[str, list[int]] = defaultdict(list)
    sectors: Counter[str] = Counter()
    for sector, each in touches.items():
        sectors[sector[0]] += 1
        if len(each) > 1 and each[1].waits > each[0].waits:
            later[sector[0]].append(sum(sizes[one] for one in each[1].in_flight))
    return {place: AfterWaits(len(found) / sectors[place], sum(found) / len(found)) for place, found in later.items()}
