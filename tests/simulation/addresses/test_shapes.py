"""Tiles that differ in their place only have one shape."""

from __future__ import annotations

from ioaware.simulation.addresses.address_blocks import Rectangle
from ioaware.simulation.addresses.shapes import NO_SHAPE, distinct_shapes


def test_tiles_at_other_places_have_one_shape() -> None:
    tile, row = (Rectangle(64, 4, 32, 128), Rectangle(1024, 1, 8, 8)), (Rectangle(0, 1, 32, 32),)
    moved = tuple(Rectangle(part.offset - 64, part.rows, part.run, part.pitch) for part in tile)
    apart = (tile[0], Rectangle(1025, 1, 8, 8))
    found = distinct_shapes([tile, row, (), moved, apart, row])
    assert found.parts == (tile, row, apart)
    assert found.shape.tolist() == [0, 1, NO_SHAPE, 0, 2, 1]
    assert found.shift.tolist() == [0, 0, 0, -64, 0, 0]
