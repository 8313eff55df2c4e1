"""Run host code with other random numbers, times and hashes.

Launches that differ are decided by chance. Index tensors that differ were drawn at random.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ioaware.capture.host.host_run import HostRun
from ioaware.capture.host.host_runner import HostRunner
from ioaware.capture.launch_agreement import NOWHERE, agree
from ioaware.compilation.execution.program_values import RANDOM, Moved, UndeterminedError
from ioaware.errors import UsageError

OTHER_SEEDS = (1, 2, 3, 4, 5)
"""Seeds of the runs that show whether chance decides launches.

Why several: one misses half of the launches that the toss of a coin decides.
"""


@dataclass(frozen=True)
class Chance:
    """What other random numbers, times and hashes change."""

    decides: bool
    """Whether they make other launches."""
    drawn: Mapping[int, Collection[str]] = field(default_factory=dict[int, Collection[str]])
    """Index tensors with other contents, by number of the launch."""

    def mark(self, moved: dict[int, Moved | str]) -> None:
        """Mark the bytes of launches with drawn contents.

        Those whose contents decide addresses alone are excepted.
        """
        for number, names in self.drawn.items():
            if names and isinstance(known := moved.get(number), Moved):
                moved[number] = at_any_draw(known, names)


def look_for_chance(plain: HostRun, runner: HostRunner, run: Callable[[HostRunner], HostRun]) -> Chance:
    """Compare `plain` with runs of other seeds.

    `run` returns the plain run of a runner.
    """
    drawn: dict[int, set[str]] = {number: set() for number, moved in plain.moved.items() if isinstance(moved, Moved)}
    decides = False
    for seed in OTHER_SEEDS:
        try:
            other = run(runner.at_seed(seed))
        except UsageError:
            return Chance(decides=True, drawn=drawn)
        for number, names in drawn.items():
            names |= _unlike(plain.moved[number], other.moved.get(number))
        if decides := not agree(other.events, plain.events, NOWHERE, runner.gpu):
            break
    return Chance(decides, drawn)


def at_any_draw(moved: Any, drawn: Collection[str]) -> Moved:
    """Return the bytes at any contents of these tensors.

    They are those of an execution to which the contents are unknown, without sectors. It fails where a mask, a branch or a loop
    depends on them: then the bytes are one example of many.
    """
    try:
        fixed = moved.without(drawn)
    except UndeterminedError:
        return replace(moved, caveat=RANDOM)
    unknown: dict[str, Any] = {"has_sectors": False, "read_sector_bytes": 0, "write_sector_bytes": 0}
    return replace(moved, caveat="", read_names=fixed.read_names, **unknown)


def _unlike(moved: Any, there: object) -> set[str]:
    """Return the tensors that this launch read with other contents there."""
    if not isinstance(there, Moved):
        return set(moved.contents)
    names = {name for name, contents in moved.contents.items() if not _same(contents, there.contents.get(name))}
    return names or (set() if moved.same_bytes(there) else set(moved.contents))


def _same(contents: Any, there: Any) -> bool:
    return there is not None and np.array_equal(contents, there)
