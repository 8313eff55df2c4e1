"""Say which lines of tensors come to the L1 between spilled registers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from ioaware.analysis.ir.accesses.access_log import Loop, Touch
from ioaware.analysis.ir.sectors.lanes import numeric
from ioaware.compilation.instructions.line_sharing import SharedLines, start_numbers
from ioaware.simulation.addresses.affine import lane_values
from ioaware.simulation.addresses.row_starts import row_starts
from ioaware.simulation.l1.l1_shape import LINE_BYTES
from ioaware.simulation.timeline import Executions

ITERATIONS = 16
"""Of a loop, for which the mask of an access is evaluated."""


@dataclass(frozen=True, slots=True)
class PlaceLines:
    """Lines that the accesses of a source line touch.

    `inside` is the share of their tiles that masks let through, `shared` that of lines that several instructions touch.
    `common`: all programs access the same ones.
    """

    inside: float = 1.0
    shared: float = 0.0
    common: bool = False


def lines_of_places(
    touches: Sequence[Touch], executions: Sequence[Executions], indices: Collection[str], lines: Sequence[SharedLines]
) -> dict[str, PlaceLines]:
    """Return the lines of each source line.

    `indices` are the names of the program's indices.
    """
    shares: dict[str, list[SharedLines]] = defaultdict(list)
    for one in lines:
        shares[one.place.partition(" ")[0]].append(one)
    numbers: dict[str, list[int]] = defaultdict(list)
    for number, touch in enumerate(touches):
        for frame in touch.frames[:1]:
            numbers[frame.rpartition("/")[2]].append(number)
    inside = _inside(touches, executions)
    return {
        place: PlaceLines(
            float(np.mean([inside[number] for number in found])),
            max((_shared(touches[number], one) for number in found for one in shares[place]), default=0.0),
            all(_is_common(touches[number], indices) for number in found),
        )
        for place, found in numbers.items()
    }


def _inside(touches: Sequence[Touch], executions: Sequence[Executions]) -> list[float]:
    """Return the share of each access's tile that its mask lets through.

    The middle program stands for all.
    """
    found: list[list[float]] = [[] for _ in touches]
    for one in executions:
        touch, row = touches[one.touch], one.program.size // 2
        if not one.program.size:
            continue
        columns = {key: column[row : row + 1] for key, column in one.columns.items()}
        for turn in _iterations(one, row):
            at = {one.loop.index.key: np.array([turn])} if one.loop else {}
            mask = numeric(touch.mask, {**columns, **at, **lane_values(touch)}) != 0
            found[one.touch].append(float(np.mean(np.broadcast_to(mask, touch.shape or (1,)))))
    return [float(np.mean(one)) if one else 1.0 for one in found]


def _iterations(one: Executions, row: int) -> list[int]:
    """Return some iterations of the innermost loop, evenly spread."""
    if one.low is None or one.high is None:
        return [0]
    first, last = int(one.low[row]), int(one.high[row]) - 1
    found: list[float] = np.linspace(first, max(first, last), ITERATIONS).tolist()
    return [int(turn) for turn in found]


def _shared(touch: Touch, lines: SharedLines) -> float:
    """Return the mean share over the places where rows begin in a line."""
    if lines.kind != touch.kind:
        return 0.0
    return float(np.mean(np.array(lines.by_start)[start_numbers(np.array(row_starts(touch, LINE_BYTES)))]))


def _is_common(touch: Touch, indices: Collection[str]) -> bool:
    """Return whether all programs access the same addresses."""
    own = set(indices)
    for scope in touch.scopes:
        if isinstance(scope, Loop) and (scope.low.free | scope.high.free) & own:
            own.add(scope.index.key)
    return not touch.target.offset.free & own
