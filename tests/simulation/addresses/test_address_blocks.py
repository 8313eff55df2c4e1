"""Addresses as blocks: disjoint tiles have disjoint blocks.

Each byte has one block.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ioaware.simulation.addresses.address_blocks import Blocks, Rectangle, choose_blocks, joined, masks, rectangles
from ioaware.simulation.addresses.taken_lines import Taken, is_taken


def covering_blocks(blocks: Blocks, base: int, part: Rectangle) -> set[int]:
    _, lines, masks_ = blocks.lines(np.array([base]), part)
    return set(block_numbers(blocks, lines, masks_))


def block_numbers(blocks: Blocks, lines: np.ndarray, masks_: np.ndarray) -> list[int]:
    pairs = [(int(line) - blocks.first_line, int(mask)) for line, mask in zip(lines, masks_, strict=True)]
    return [line * blocks.blocks_per_line + bit for line, mask in pairs for bit in range(64) if mask >> bit & 1]


@given(st.integers(1, 40), st.integers(1, 30), st.integers(1, 4))
@settings(max_examples=100, deadline=None)
def test_tiles_of_a_row_of_bytes_share_no_block(tile: int, count: int, grain: int) -> None:
    blocks = Blocks(grain, 1, grain, 8)
    all_of = [covering_blocks(blocks, k * tile, Rectangle(0, 1, tile, tile)) for k in range(count)]
    assert sum(map(len, all_of)) == len(set[int]().union(*all_of))
    assert set[int]().union(*all_of) == set(range((2 * tile * count + grain) // (2 * grain)))


def test_tiles_of_a_matrix_are_whole_cells() -> None:
    """4 x 6 tiles of 8 rows of 32 bytes in rows of 192 bytes."""
    part = Rectangle(0, 8, 32, 192)
    blocks = choose_blocks([part], 32, 4096)
    assert (blocks.pitch, blocks.rows, blocks.columns) == (192, 8, 32)
    tiles = [covering_blocks(blocks, row * 8 * 192 + column * 32, part) for row in range(4) for column in range(6)]
    assert all(len(tile) == 1 for tile in tiles)
    assert len(set[int]().union(*tiles)) == 24
    assert covering_blocks(blocks, 0, Rectangle(0, 1, 192 * 8, 192 * 8)) == set(range(6))  # the same memory, row by row


@given(st.lists(st.integers(0, 60), max_size=40), st.sampled_from([1, 2, 4]))
@settings(max_examples=100, deadline=None)
def test_rectangles_cover_each_element_once(elements: list[int], width: int) -> None:
    addresses = np.array(elements, dtype=np.int64) * width
    bytes_: list[int] = []
    for part in rectangles(addresses, width):
        for row in range(part.rows):
            bytes_ += range(part.offset + row * part.pitch, part.offset + row * part.pitch + part.run)
    assert sorted(bytes_) == sorted({at * width + byte for at in elements for byte in range(width)})


@given(st.integers(0, 200), st.integers(0, 200), st.sampled_from([1, 3, 64]))
@settings(max_examples=100, deadline=None)
def test_units_have_the_blocks_of_a_range(low: int, length: int, blocks_per_line: int) -> None:
    blocks = Blocks(1, 1, 1, blocks_per_line, first_line=5)
    which, line, mask = blocks.lines_of_runs(np.array([low]), np.array([length]))
    assert block_numbers(blocks, line, mask) == list(range(low, low + length))
    assert not which.any()


LAYOUTS = (Blocks(96, 4, 24, 5, first_line=7), Blocks(64, 4, 16, 8, first_line=7), Blocks(24, 1, 24, 7), Blocks(32, 1, 32, 64))
PARTS = (Rectangle(8, 4, 24, 96), Rectangle(-40, 9, 16, 64), Rectangle(0, 1, 700, 700), Rectangle(0, 3, 48, 192))


@pytest.mark.parametrize("blocks", LAYOUTS)
@pytest.mark.parametrize("part", PARTS)
def test_the_blocks_of_a_rectangle_are_those_whose_middles_it_covers(blocks: Blocks, part: Rectangle) -> None:
    bases = np.arange(0, 3000, 7)
    which, lines, masks_ = blocks.lines(bases, part)
    for number, base in enumerate(bases.tolist()):
        mine = which == number
        assert sorted(block_numbers(blocks, lines[mine], masks_[mine])) == sorted(
            blocks_by_hand(blocks, base + part.offset, part)
        )


def blocks_by_hand(blocks: Blocks, start: int, part: Rectangle) -> list[int]:
    def near(value: int, step: int) -> int:
        return (2 * value + step) // (2 * step)

    if blocks.plain:
        rows = [(start + row * part.pitch, part.run) for row in range(part.rows)]
        rows = rows if part.run < part.pitch else [(start, part.bytes)]
        return [at for begin, size in rows for at in range(near(begin, blocks.columns), near(begin + size, blocks.columns))]
    across, (row, column), high, wide = blocks.pitch // blocks.columns, divmod(start, blocks.pitch), 1, part.bytes
    if part.rows > 1 and part.pitch % blocks.pitch == 0:
        high, wide = (part.rows - 1) * (part.pitch // blocks.pitch) + 1, part.run
    elif part.bytes > blocks.pitch:
        column, high, wide = 0, -(-part.bytes // blocks.pitch), blocks.pitch
    columns = range(near(column, blocks.columns), min(near(column + wide, blocks.columns), across))
    return [at * across + one for at in range(near(row, blocks.rows), near(row + high, blocks.rows)) for one in columns]


@pytest.mark.parametrize("every", [3, 16])
def test_a_sample_has_the_taken_lines_and_counts_all(every: int) -> None:
    blocks, part, bases = LAYOUTS[0], PARTS[2], np.arange(0, 90_000, 480)
    _, lines, masks_ = blocks.lines(bases, part)
    taken = Taken(every, blocks.first_line, np.zeros(400, dtype=np.bool_))
    _, some, some_masks = blocks.lines(bases, part, taken)
    kept = is_taken(lines, every)
    assert (some.tolist(), some_masks.tolist()) == (lines[kept].tolist(), masks_[kept].tolist())
    assert taken.accesses == lines.size
    assert np.flatnonzero(taken.seen).tolist() == np.unique(lines - blocks.first_line).tolist()


@pytest.mark.parametrize(("begin", "end"), [(0, 64), (0, 0), (3, 3), (63, 64), (5, 9)])
def test_masks(begin: int, end: int) -> None:
    assert int(masks(np.array([begin]), np.array([end]))[0]) == (1 << end) - (1 << begin)


@pytest.mark.parametrize(
    ("part", "stride", "union"),
    [
        (Rectangle(8, 16, 32, 256), 32, Rectangle(8, 16, 128, 256)),
        (Rectangle(8, 16, 32, 256), -32, Rectangle(8, 16, 128, 256)),
        (Rectangle(8, 16, 32, 256), 4096, Rectangle(8, 64, 32, 256)),
        (Rectangle(8, 1, 32, 32), 100, Rectangle(8, 4, 32, 100)),
        (Rectangle(8, 16, 32, 256), 0, Rectangle(8, 16, 32, 256)),
        (Rectangle(8, 16, 96, 256), 96, None),
        (Rectangle(8, 16, 32, 256), 64, None),
        (Rectangle(8, 1, 32, 32), 16, None),
    ],
)
def test_four_tiles_are_one_rectangle_where_they_touch(part: Rectangle, stride: int, union: Rectangle | None) -> None:
    assert joined(part, stride, 4) == union
