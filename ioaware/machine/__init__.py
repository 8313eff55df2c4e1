"""Model GPUs.

A model holds memory levels with capacities and bandwidths, SMs, and peak FLOP/s per dtype.
"""

from __future__ import annotations

from ioaware.machine.detect import detect_machine
from ioaware.machine.machine_file import find_machine_or_file
from ioaware.machine.model import L2Model, Level, Link, Machine, Peak
from ioaware.machine.presets import DEFAULT_MACHINE, PRESETS, find_machine

__all__ = [
    "DEFAULT_MACHINE",
    "PRESETS",
    "L2Model",
    "Level",
    "Link",
    "Machine",
    "Peak",
    "detect_machine",
    "find_machine",
    "find_machine_or_file",
]
