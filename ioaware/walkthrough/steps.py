"""Represent the steps of a run.

A step is the moves between two changes of a loop index, with what is on chip afterwards.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ioaware.tracing.observer import Access
from ioaware.walkthrough.hbm_tensors import HbmTensor, Tile

Values = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Move:
    """A tile that one access moves.

    It is read from HBM, written to HBM, or updated there by atomics.
    """

    kind: Access
    tile: Tile
    cells: tuple[tuple[int, int, float], ...] = ()
    """Row, column and new value of each element written, where values are kept."""


@dataclass(slots=True)
class Step:
    """Consecutive moves of one program with the same loop indices.

    Bytes are those of its moves.
    """

    launch: int
    program: tuple[int, int, int]
    loops: tuple[tuple[str, int], ...]
    moves: list[Move] = field(default_factory=list[Move])
    on_chip: Mapping[str, Values] = field(default_factory=dict[str, Values])
    """Floating-point variables at the end of the step, without padding.

    They are given where values are kept.
    """
    assigned: frozenset[str] = frozenset()
    """Those of them that were assigned during the step."""

    def moved(self, kind: Access) -> int:
        """Return the bytes of one kind."""
        return sum(move.tile.bytes for move in self.moves if move.kind == kind)

    @property
    def bytes(self) -> int:
        """Bytes of all moves."""
        return sum(move.tile.bytes for move in self.moves)

    @property
    def loop_text(self) -> str:
        """The loop indices, as `j=0, i=1`; empty outside of loops."""
        return ", ".join(f"{name}={value}" for name, value in self.loops)


@dataclass(frozen=True, slots=True)
class WalkedLaunch:
    """A launch: its kernel, grid, and the tensors it was given.

    The tensors have their values before the launch where they are kept.
    """

    kernel: str
    grid: tuple[int, ...]
    tensors: tuple[HbmTensor, ...]
    contents: tuple[Values, ...] = ()
