"""Sizes of the L1: its lines, and the largest access of its replay."""

from __future__ import annotations

from ioaware.machine.model import SECTOR_BYTES

MAX_CHUNK_SECTORS, LINE_SECTORS = 64, 4
LINE_BYTES = LINE_SECTORS * SECTOR_BYTES
