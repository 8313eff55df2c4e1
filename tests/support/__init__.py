"""Fakes, kernels and references for several tests.

Fakes are of the hardware, and the kernels have known counts.
"""

from pathlib import Path

SUPPORT = Path(__file__).parent
TARGETS = SUPPORT / "targets"
ROOT = SUPPORT.parents[1]
