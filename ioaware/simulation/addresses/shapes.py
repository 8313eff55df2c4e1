"""Find the executions of an access whose tiles are the same but for their place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ioaware.simulation.addresses.address_blocks import Numbers, Rectangle

NO_SHAPE = -1


@dataclass(frozen=True, slots=True)
class Shapes:
    """Distinct shapes of tiles, and the shape of each tile.

    `shift` is the bytes of each tile after the first one of its shape. The shape of an empty tile is `NO_SHAPE`.
    """

    parts: tuple[tuple[Rectangle, ...], ...]
    shape: Numbers
    shift: Numbers


def distinct_shapes(tiles: Sequence[tuple[Rectangle, ...]]) -> Shapes:
    """Return the shapes of tiles, each as its first tile.

    Why: an address that wraps around (`rows % M`) gives each program a tile of its own, and all but a few differ in place only.
    """
    numbers: dict[tuple[Rectangle, ...], int] = {}
    parts: list[tuple[Rectangle, ...]] = []
    shape, shift = np.full(len(tiles), NO_SHAPE, dtype=np.int64), np.zeros(len(tiles), dtype=np.int64)
    for at, tile in enumerate(tiles):
        if not tile:
            continue
        start = tile[0].offset
        number = numbers.setdefault(tuple(replace(part, offset=part.offset - start) for part in tile), len(parts))
        if number == len(parts):
            parts.append(tile)
        shape[at], shift[at] = number, start - parts[number][0].offset
    return Shapes(tuple(parts), shape, shift)
