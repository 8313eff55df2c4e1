"""GPU models: memory levels with capacities and bandwidths, SMs, peak FLOP/s per dtype."""

from __future__ import annotations

from ioaware.machine.detect import detect_machine
from ioaware.machine.model import Level, Machine, Peak
from ioaware.machine.presets import DEFAULT_MACHINE, PRESETS, find_machine

__all__ = ["DEFAULT_MACHINE", "PRESETS", "Level", "Machine", "Peak", "detect_machine", "find_machine"]
