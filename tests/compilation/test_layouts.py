"""Layouts by hand and by brute force: each element once, in instruction order."""

import numpy as np
import pytest

from ioaware.compilation.layouts import Layout, accumulator, blocked, owners, registers_per_thread, requests


@pytest.mark.parametrize(
    ("layout", "shape"),
    [
        (blocked([4], [32], [4], [0]), (1024,)),
        (blocked([1, 8], [4, 8], [4, 1], [1, 0]), (64, 128)),
        (blocked([8, 1], [8, 4], [1, 4], [0, 1]), (64, 16)),
        (accumulator([4, 1], 64), (128, 64)),
        (accumulator([4, 2], 16), (64, 32)),
    ],
)
def test_every_element_is_held_once(layout: Layout, shape: tuple[int, ...]) -> None:
    held = requests(layout, shape, 1, False)
    assert sorted(held.ravel()) == list(range(int(np.prod(shape))))


def test_an_instruction_of_a_blocked_layout() -> None:
    """Four elements a thread.

    One at a time gives 32 lanes 4 apart, two at a time pairs of neighbours.
    """
    layout = blocked([4], [32], [2], [0])
    one = requests(layout, (512,), 1, False)
    assert one.shape == (16, 32)
    assert list(one[0]) == list(range(0, 128, 4))
    assert list(one[1]) == list(range(1, 128, 4))
    assert one[4, 0] == 256  # the rest of the tile, in further registers of the same warp
    assert one[8, 0] == 128  # the second warp
    assert list(requests(layout, (512,), 2, False)[0][:6]) == [0, 1, 4, 5, 8, 9]


def test_column_major_order() -> None:
    layout = blocked([2, 1], [4, 8], [1, 1], [0, 1])
    assert list(requests(layout, (8, 8), 2, False)[0][:4]) == [0, 8, 16, 24]


def test_small_tiles_are_replicated() -> None:
    """64 elements in a layout of 4 warps of 128.

    Each warp holds all of them, and one stores them.
    """
    layout = blocked([4], [32], [4], [0])
    assert requests(layout, (64,), 4, False).shape == (4, 128)
    assert requests(layout, (64,), 4, True).shape == (1, 128)
    assert len({*requests(layout, (64,), 4, True).ravel()}) == 64
    assert registers_per_thread(layout, (64,)) == 4
    assert registers_per_thread(layout, (2,)) == 2  # replicated registers are not counted
    assert registers_per_thread(layout, (2048,)) == 16


def test_one_lane_of_those_with_the_same_elements_owns_them() -> None:
    layout = blocked([4], [32], [4], [0])
    assert owners(layout, (512,)).all()
    assert list(np.flatnonzero(owners(layout, (32,)))) == list(range(8))
    assert list(np.flatnonzero(owners(Layout(((1,),), ((0,), (2,), (0,), (4,), (0,)), (), (0,)), (8,)))) == [0, 2, 8, 10]


def test_a_slice_has_the_lanes_of_its_parent() -> None:
    """A row of tensor-core accumulators, 16 columns.

    Four lanes hold pairs, all others copies.
    """
    row = accumulator([4, 1], 16).sliced(0)
    assert list(requests(row, (16,), 2, False)[0][:8]) == [0, 1, 2, 3, 4, 5, 6, 7]
    assert requests(row, (16,), 2, False).shape == (8, 64)
    assert requests(row, (16,), 2, True).shape == (2, 64)
    column = accumulator([4, 1], 16).sliced(1)
    assert {*requests(column, (64,), 1, True)[0]} == set(range(8))
