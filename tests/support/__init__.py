"""Shared by several tests: fakes of the hardware, kernels with known counts, references."""

from pathlib import Path

SUPPORT = Path(__file__).parent
TARGETS = SUPPORT / "targets"
ROOT = SUPPORT.parents[1]
