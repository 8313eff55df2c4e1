"""Say when a simulation knows the bytes between HBM and the L2.

Where data decide much of them, it knows their range alone.
"""

from __future__ import annotations

import re

from ioaware.report.table_cells import bytes_shown
from ioaware.result import Launch, Traffic
from ioaware.simulation.simulation_result import LaunchSimulation, Range, Simulated

FAR_APART = 100
"""Factor between the ends of a simulated range from which it says no number."""
DATA_DECIDE = 1.1
"""The same factor of launches whose accesses depend on data.

Their number leaves those accesses out.
"""
RANGE = re.compile("HBM (reads|writes) are uncertain: ")
"""How a simulation's note of a range begins."""


def bounds_alone(low: int, high: int | None, *, data_dependent: bool = False) -> bool:
    """Return whether a simulated range says no number, because data decide it."""
    return high is None or high > (DATA_DECIDE if data_dependent else FAR_APART) * max(low, 1)


def hbm_range(simulated: Simulated) -> tuple[int, int | None]:
    """Return the ends of the simulated range; the second is None where there is none.

    No more than every requested sector passes HBM, where all sectors are known.
    """
    return _range(simulated.read_range, simulated.write_range, simulated.requested, simulated.hbm)


def launch_range(launch: Launch, how: LaunchSimulation) -> tuple[int, int | None]:
    """Return the ends of a launch's simulated range, as `hbm_range` does."""
    return _range(how.read_range, how.write_range, launch.requested, launch.hbm)


def _range(read_range: Range, write_range: Range, requested: Traffic | None, hbm: Traffic | None) -> tuple[int, int | None]:
    (reads, most_reads), (writes, most_writes) = read_range, write_range
    low = reads + writes
    if most_reads is None or most_writes is None:
        return low, None
    high = most_reads + most_writes
    if requested and None not in (requested.read_sector_bytes, requested.write_sector_bytes):
        high = max(low, (hbm and hbm.total_bytes) or low, min(high, requested.moved_bytes or high))
    return low, high


def least_hbm(read_range: Range, write_range: Range) -> Traffic:
    """Return the low ends of simulated ranges, which pass whatever data decide."""
    return Traffic(read_range[0], write_range[0])


def range_text(low: int, high: int | None) -> str:
    """Return the ends of a range of bytes, without the second its first alone."""
    return f"at least {bytes_shown(low)}" if high is None else f"{bytes_shown(low)} to {bytes_shown(high)}"


def shown_notes(simulated: Simulated) -> tuple[str, ...]:
    """Return the simulation's notes, with `hbm_range` in place of wider ranges."""
    (_, reads), (_, writes), (low, high) = simulated.read_range, simulated.write_range, hbm_range(simulated)
    if high is None or reads is None or writes is None or high >= reads + writes:
        return tuple(simulated.notes)
    kept = (note for note in simulated.notes if not RANGE.match(note))
    return (*kept, f"HBM bytes are uncertain: {low:,} to {high:,}; no more than every requested sector passes")


def known_hbm(simulated: Simulated | None) -> Traffic | None:
    """Return the simulated traffic between HBM and the L2; None of bounds alone."""
    if simulated is None:
        return None
    by_data = any(how.data_dependent for how in simulated.simulations if how)
    return None if bounds_alone(*hbm_range(simulated), data_dependent=by_data) else simulated.hbm
