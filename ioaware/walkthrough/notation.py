"""Name the kernels' variables by the papers' symbols.

The values that a walk shows of them are computed here.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from ioaware.walkthrough.steps import Values

LOG2_VARIABLES = frozenset({"s", "m", "m_new", "shift"})
LOG2_FUNCTIONS = frozenset({"mainloop", "flash2_kernel"})
"""Functions of flash2.py that hold S and m in units of log 2.

They do so for the hardware's exp2. A walk shows them as S and m.
"""
STATE = ("s", "p", "m", "l", "o", "lse")
"""Variables that `--values` shows.

They are the scores S, their exponentials P, row maxima m, row sums l, the output O.
"""


def natural_units(function: str, name: str, value: Values) -> Values:
    """Return a variable's value in natural units."""
    return value * math.log(2) if function in LOG2_FUNCTIONS and name in LOG2_VARIABLES else value


def state_variables(names: Iterable[str]) -> list[str]:
    """Return the names that hold S, P, m, l, O or the log-sum-exp, in that order.

    `m_new` is next to `m`.
    """

    def rank(name: str) -> int:
        stem = name.partition("_")[0].lower()
        return STATE.index(stem) if stem in STATE else -1

    return sorted((name for name in names if rank(name) >= 0), key=rank)
