"""Record where an executed launch accesses memory, in the order of its programs.

Each access becomes runs of adjacent sectors, with the bytes that its program accessed before as their time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from ioaware.analysis.ir.mlir.parser import Operation
from ioaware.compilation.execution.integer_arithmetic import Array
from ioaware.compilation.execution.program_values import Pointer, UndeterminedError
from ioaware.sectors import SECTOR_BYTES

MAX_LANES, MAX_ROWS, MAX_RUNS = 1 << 30, 1 << 27, 1 << 22
"""Most lanes of all accesses, rows of adjacent lanes, and runs of sectors.

They take some ten seconds of a core and some 200 MB. Where there are more runs, adjacent ones of a program are joined. A longer
launch is not recorded.
"""
SECTOR_SHIFT = SECTOR_BYTES.bit_length() - 1
PROGRAM = 1 << 44
"""Distance of two programs in one sequence of sectors: more than a tensor has."""


@dataclass(frozen=True, slots=True)
class Instruction:
    """Memory instruction of the IR with its tensor; `frames` begin with its own line."""

    operation: str
    kind: str
    tensor: str
    frames: tuple[str, ...]
    element_bytes: int


@dataclass(frozen=True, slots=True)
class Runs:
    """Runs of adjacent sectors of one instruction, an element of each array for each.

    `time` is in bytes that `program` accessed before; `begin` and `size` are in bytes from the start of the storage.
    """

    program: NDArray[np.int64]
    time: NDArray[np.float64]
    begin: NDArray[np.int64]
    size: NDArray[np.int64]


class ExecutedAccesses:
    """Runs of a launch's memory instructions, and the bytes of each program.

    A tile counts with all of its elements, as the model of the L2 counts time.
    """

    def __init__(self, programs: int) -> None:
        self.work = np.zeros(programs)
        self.instructions: list[Instruction] = []
        self._numbers: dict[tuple[int, str], int] = {}
        self._runs: list[list[Runs]] = []
        self._lanes = self._rows = self._count = 0

    @property
    def runs(self) -> list[Runs]:
        """Runs of each of the `instructions`, in the order of their execution."""
        return [_concatenated(each) for each in self._runs]

    def add(
        self,
        operation: Operation,
        instruction: Instruction,
        programs: Array,
        pointer: Pointer,
        lanes: Array,
        shape: tuple[int, ...],
    ) -> None:
        """Add one execution; `programs` are the numbers of those that run at once.

        `lanes` are the active ones. Raises `UndeterminedError` for too many.
        """
        number = self._numbers.setdefault((id(operation), instruction.tensor), len(self.instructions))
        if number == len(self.instructions):
            self.instructions.append(instruction)
            self._runs.append([])
        full = (programs.size, *shape)
        begin, width, mask = adjacent_lanes(pointer.offsets, lanes, full, instruction.element_bytes)
        rows = prod(np.broadcast_shapes(begin.shape, width.shape, mask.shape, (programs.size,) + (1,) * len(shape)))
        self._lanes, self._rows = self._lanes + prod(full), self._rows + rows
        if self._lanes > MAX_LANES or self._rows > MAX_ROWS:
            raise UndeterminedError("the launch accesses too much to record where")
        at, low, high = sector_runs(begin, width, mask, programs.size)
        if self._count + at.size > MAX_RUNS:
            self._join(at.size)
        self._count += at.size
        who = programs[at]
        self._runs[number].append(Runs(who, self.work[who], low * SECTOR_BYTES, (high - low) * SECTOR_BYTES))
        active = programs[np.broadcast_to(lanes, full).reshape(programs.size, -1).any(axis=1)] if not lanes.all() else programs
        self.work[active] += prod(shape) * instruction.element_bytes

    def _join(self, more: int) -> None:
        """Join runs of a program that follow each other.

        Raises `UndeterminedError` where they are still more than half of the most, or as many `more` come.
        """
        self._runs = [[_joined(_concatenated(each))] if each else [] for each in self._runs]
        self._count = sum(one.begin.size for each in self._runs for one in each)
        if max(self._count, more) > MAX_RUNS // 2:
            raise UndeterminedError("the launch accesses too many places to record them")


def _concatenated(parts: Sequence[Runs]) -> Runs:
    return Runs(*(np.concatenate([getattr(one, name) for one in parts]) for name in Runs.__dataclass_fields__))


def _joined(runs: Runs) -> Runs:
    """Return the runs program by program.

    Those next to each other in time and memory are one, from the time of the first.
    """
    order = np.argsort(runs.program, kind="stable")
    program, begin, size = runs.program[order], runs.begin[order], runs.size[order]
    starts = np.flatnonzero(np.concatenate(([True], (program[1:] != program[:-1]) | (begin[1:] != (begin + size)[:-1]))))
    return Runs(program[starts], runs.time[order][starts], begin[starts], np.add.reduceat(size, starts))


def adjacent_lanes(offsets: Array, lanes: Array, full: Sequence[int], element_bytes: int) -> tuple[Array, Array, Array]:
    """Return where rows of adjacent lanes begin, their bytes, and which are active.

    Rows are along a dimension in which all addresses follow each other and so do the active lanes; else each lane is one.
    """
    for axis in reversed(range(1, len(full))):
        is_whole = offsets.ndim == len(full) and offsets.shape[axis] == full[axis] > 1
        if not is_whole or not (np.diff(offsets, axis=axis) == element_bytes).all():
            continue
        if lanes.ndim < len(full) or lanes.shape[axis] == 1:
            return offsets.take([0], axis), np.asarray([full[axis] * element_bytes]), lanes
        count, first = lanes.sum(axis, keepdims=True), lanes.argmax(axis, keepdims=True)
        last = full[axis] - np.flip(lanes, axis).argmax(axis, keepdims=True)
        if ((last - first == count) | (count == 0)).all():
            return offsets.take([0], axis) + first * element_bytes, count * element_bytes, count > 0
    return np.broadcast_to(offsets, full), np.asarray([element_bytes]), lanes


def sector_runs(begin: Array, width: Array, mask: Array, count: int) -> tuple[Array, Array, Array]:
    """Return the program, first and last sector, exclusive, of each run of sectors."""
    shape = np.broadcast_shapes(begin.shape, width.shape, mask.shape, (count, *[1] * (max(begin.ndim, mask.ndim) - 1)))
    first, bytes_ = (np.broadcast_to(each, shape).reshape(count, -1) for each in (begin, width))
    program = np.repeat(np.arange(count), first.shape[1])
    first, bytes_ = first.ravel(), bytes_.ravel()
    if not mask.all():
        active = np.broadcast_to(mask, shape).ravel()
        program, first, bytes_ = program[active], first[active], bytes_[active]
    sector = first >> SECTOR_SHIFT
    low = program * PROGRAM + sector
    high = low + (((first + bytes_ - 1) >> SECTOR_SHIFT) - sector) + 1
    if (low[1:] < low[:-1]).any():
        order = np.argsort(low, kind="stable")
        low, high = low[order], high[order]
    if not low.size:
        return low, low, low
    reach = np.maximum.accumulate(high)
    starts = np.flatnonzero(np.concatenate(([True], low[1:] > reach[:-1])))
    ends = reach[np.concatenate((starts[1:], [low.size])) - 1]
    program = (low[starts] + PROGRAM // 2) >> PROGRAM.bit_length() - 1
    return program, low[starts] - program * PROGRAM, ends - program * PROGRAM
