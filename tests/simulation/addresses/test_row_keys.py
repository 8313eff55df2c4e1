"""Packed keys order and group rows as the keys do."""

from __future__ import annotations

import numpy as np
import pytest

from ioaware.simulation.addresses.row_keys import count_distinct, first_of_groups, packed, sorted_rows


@pytest.mark.parametrize("seed", range(40))
def test_packed_keys_order_and_group_rows_alike(seed: int) -> None:
    chosen = np.random.default_rng(seed)
    count = int(chosen.integers(2, 60))
    ranges = chosen.choice([0, 1, 5, 1 << 20, 1 << 45, 1 << 62], int(chosen.integers(1, 6)))
    keys = [chosen.integers(-one, one + 1, count) for one in ranges.tolist()]
    order, short = np.lexsort(keys[::-1]), packed(keys)
    rows = [tuple(int(key[at]) for key in keys) for at in order.tolist()]
    assert len(short) <= len(keys)
    if not short:
        assert len(set(rows)) == 1
        return
    assert sorted_rows(short).tolist() == order.tolist()
    assert first_of_groups(short, order).tolist() == [at == 0 or rows[at] != rows[at - 1] for at in range(count)]


def test_keys_of_a_small_range_become_one() -> None:
    keys = [np.array([3, 1, 3]), np.array([7, 7, 7]), np.array([-5, 2, -6])]
    assert len(packed(keys)) == 1
    assert count_distinct(packed(keys)[0]) == 3


@pytest.mark.parametrize(("numbers", "count"), [([], 0), ([4], 1), ([2, 9, 2, 2], 2)])
def test_distinct_numbers_are_counted(numbers: list[int], count: int) -> None:
    assert count_distinct(np.array(numbers, dtype=np.int64)) == count
