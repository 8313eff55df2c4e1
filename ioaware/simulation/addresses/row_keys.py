"""Order and group rows by several integers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.int64]
MOST = 2**63 - 1


def packed(keys: Sequence[Numbers]) -> list[Numbers]:
    """Return fewer keys that order rows as these do, the first key first.

    Neighbours whose ranges fit in one integer become one key: each key costs a sort. Keys that are the same in all rows are
    left out, so that there may be none.
    """
    found: list[Numbers] = []
    room = 1
    for key in (one.astype(np.int64, copy=False) for one in keys if one.size):
        low = int(key.min())
        span = int(key.max()) - low + 1
        if span == 1:
            continue
        if found and room * span <= MOST:
            found[-1] = found[-1] * span + (key - low)
            room *= span
        else:
            found.append(key - low if span <= MOST else key)
            room = span
    return found


def sorted_rows(keys: Sequence[Numbers]) -> NDArray[np.intp]:
    """Return the order of rows by `packed` keys; equal rows stay in theirs."""
    return np.argsort(keys[0], kind="stable") if len(keys) == 1 else np.lexsort(keys[::-1])


def first_of_groups(keys: Sequence[Numbers], order: NDArray[np.intp]) -> NDArray[np.bool_]:
    """Return which rows in this order differ from the one before them."""
    new = np.zeros(order.size, dtype=bool)
    new[:1] = True
    for key in keys:
        ordered = key[order]
        new[1:] |= ordered[1:] != ordered[:-1]
    return new


def count_distinct(numbers: Numbers) -> int:
    """Return how many distinct numbers there are.

    `np.unique` may hash them, which takes longer than a sort.
    """
    ordered = np.sort(numbers)
    return int(np.count_nonzero(ordered[1:] != ordered[:-1])) + min(1, ordered.size)
