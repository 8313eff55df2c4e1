"""Fold the states of elements in a random bracketing."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from ioaware.analysis.fusion.lifting.fold import Fold, State


def fold_in_random_brackets(fold: Fold, elements: Sequence[Any], source: random.Random) -> State:
    """Return the state of the elements, split at random, sometimes with an empty side."""
    if len(elements) <= 1 or source.random() < 0.1:
        return fold.of(elements)
    cut = source.randrange(len(elements) + 1)
    if cut in (0, len(elements)):
        sides = (fold.empty(), fold_in_random_brackets(fold, elements, source))
        return fold.merge(*(sides if cut == 0 else sides[::-1]))
    return fold.merge(
        fold_in_random_brackets(fold, elements[:cut], source), fold_in_random_brackets(fold, elements[cut:], source)
    )
