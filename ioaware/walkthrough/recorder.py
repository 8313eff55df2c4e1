"""Record the steps of a traced run: an observer of the interpreter."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
import triton.language as _tl
from triton.runtime import interpreter as _interpreter

from ioaware._monkeypatch import Patches
from ioaware.errors import UsageError
from ioaware.tracing.address_space import active_lanes, element_bytes
from ioaware.tracing.interpreter_fixes import widen
from ioaware.tracing.observer import Access
from ioaware.walkthrough.hbm_tensors import HbmTensor, HbmTensors
from ioaware.walkthrough.notation import natural_units
from ioaware.walkthrough.steps import Move, Step, Values, WalkedLaunch
from ioaware.walkthrough.valid_extents import box_of, extent_of
from ioaware.walkthrough.valid_extents import install as install_extents

tl: Any = _tl
interpreter: Any = _interpreter

MAX_VALUES = 4096
"""Elements of a tensor or tile whose values are kept."""
MAX_MOVES = 200_000
"""Moves of a walk: more are no longer read step by step."""


class Recorder:
    """Groups accesses into steps.

    `keep_values` also records variables on chip and what is written.
    """

    def __init__(self, *, keep_values: bool) -> None:
        self._keep_values = keep_values
        self.begin()

    def begin(self) -> None:
        """Forget what was recorded: building the inputs is no part of the walk."""
        self.tensors = HbmTensors()
        self.launches: list[WalkedLaunch] = []
        self.steps: list[Step] = []
        self._program = (0, 0, 0)
        self._loops: list[tuple[str, int]] = []
        self._frames: list[tuple[str, dict[str, Variable]]] = []
        self._assigned: set[str] = set()
        self._on_chip: list[tuple[Step, dict[str, Variable]]] = []
        self._step: Step | None = None
        self._moves = 0

    @contextmanager
    def extents(self) -> Generator[None]:
        """Let the interpreter's values carry their valid extents, where values are kept."""
        with Patches() as patches:
            if self._keep_values:
                install_extents(interpreter.interpreter_builder, patches)
            yield

    def launch(self, kernel: str, grid: tuple[int, ...], tensors: Mapping[str, tuple[int, torch.Tensor]]) -> None:
        """Begin a launch."""
        given = self.tensors.launch(tensors)
        contents = tuple(_contents(tensor, data) for tensor, data in given) if self._keep_values else ()
        self.launches.append(WalkedLaunch(kernel, grid, tuple(tensor for tensor, _ in given), contents))

    def program(self, index: tuple[int, int, int]) -> None:
        """Begin a program."""
        self._program, self._loops, self._frames, self._assigned = index, [], [], set()

    def enter(self, function: str) -> None:
        """Begin a function's variables."""
        self._frames.append((function, {}))

    def leave(self) -> None:
        """End a function's variables; with the kernel's, the last step of the program."""
        if len(self._frames) == 1:
            self._end_step()
            self._end_program()
        self._frames.pop()

    def iterations(self, name: str, items: Iterable[Any]) -> Iterator[Any]:
        """Yield the items of a loop; each begins a step.

        An item that is not an integer is named by its number.
        """
        with self._loop(name) as iterate:
            for number, item in enumerate(items):
                value = getattr(item, "value", item)
                iterate(int(value) if isinstance(value, int) else number)
                yield item

    @contextmanager
    def while_loop(self) -> Generator[Callable[[], None]]:
        """Yield what counts an iteration of a `while` loop."""
        with self._loop("iteration") as iterate:
            numbers = itertools.count()
            yield lambda: iterate(next(numbers))

    @contextmanager
    def _loop(self, name: str) -> Generator[Callable[[int], None]]:
        """Yield what begins an iteration of a loop inside the current ones.

        A step ends with each and with the loop.
        """
        depth = len(self._loops)

        def iterate(value: int) -> None:
            self._end_step()
            self._loops[depth:] = [(name, value)]

        try:
            yield iterate
        finally:
            self._end_step()
            del self._loops[depth:]

    def assigned(self, values: Mapping[str, Any]) -> None:
        """Keep floating-point variables without their padding."""
        if not self._keep_values:
            return
        function, variables = self._frames[-1]
        for name, value in values.items():
            kept = _variable(value)
            if kept is not None:
                self._assigned.add(name)
                variables[name] = replace(kept, values=natural_units(function, name, kept.values))

    def access(self, kind: Access, pointers: Any, mask: Any, value: Any = None) -> None:
        """Add the active elements of an access to the current step.

        An access without any moves nothing.
        """
        active = active_lanes(pointers, mask)
        addresses = pointers.data[active]
        if not addresses.size:
            return
        self._moves += 1
        if self._moves > MAX_MOVES:
            raise UsageError(f"the walk has more than {MAX_MOVES:,} moves", "Use smaller sizes, or trace for the total alone.")
        tile, indices = self.tensors.tile(addresses, element_bytes(pointers))
        cells: tuple[tuple[int, int, float], ...] = ()
        if self._keep_values and value is not None:
            self._limit_unlimited(active)
        if self._keep_values and value is not None and tile.tensor and addresses.size <= MAX_VALUES:
            written = _as_float(np.broadcast_to(value.data, pointers.data.shape)[active], value.dtype)
            cells = _cells(tile.tensor, indices, written)
        if self._step is None:
            self._step = Step(len(self.launches) - 1, self._program, tuple(self._loops))
        self._step.moves.append(Move(kind, tile, cells))

    def _limit_unlimited(self, stored: Any) -> None:
        """Cut variables of a store's block to what the store writes of it.

        They are those that no load has limited.
        """
        box = box_of(stored)
        for _, variables in self._frames if box else ():
            for name, variable in variables.items():
                if not variable.limited and variable.values.shape == stored.shape:
                    variables[name] = Variable(_cropped(variable.values, box), limited=True)

    def _end_step(self) -> None:
        """Close the current step with the variables of every running function.

        The innermost function comes last.
        """
        if self._step is None:
            return
        variables = {name: value for _, frame in self._frames for name, value in frame.items()}
        self._on_chip.append((self._step, variables))
        self._step.assigned = frozenset(self._assigned & variables.keys())
        self._assigned = set()
        self.steps.append(self._step)
        self._step = None

    def _end_program(self) -> None:
        """Give the program's steps their variables.

        One that no load has limited yet takes its later extent.
        """
        largest: dict[str, tuple[int, ...]] = {}
        for _, variables in self._on_chip:
            for name, variable in variables.items():
                shape = variable.values.shape
                if variable.limited and (name not in largest or len(largest[name]) == len(shape)):
                    largest[name] = tuple(map(max, zip(largest.get(name, shape), shape, strict=True)))
        for step, variables in self._on_chip:
            step.on_chip = {
                name: variable.values if variable.limited else _cropped(variable.values, largest.get(name))
                for name, variable in variables.items()
            }
        self._on_chip = []


@dataclass(frozen=True, slots=True)
class Variable:
    """A floating-point variable on chip. `limited`: its padding is known and cut off."""

    values: Values
    limited: bool


def _contents(tensor: HbmTensor, data: Any) -> Values:
    """Return a tensor's values as a matrix, NaN where nothing was written.

    Empty for a large tensor.
    """
    if data.numel() > MAX_VALUES or data.is_complex():
        return np.empty((0, 0))
    values: Values = data.detach().to(torch.float64).reshape(tensor.matrix).numpy().copy()
    return values


def _variable(value: Any) -> Variable | None:
    """Return a floating-point tensor of the interpreter without padding.

    None for anything else or too large.
    """
    if not isinstance(value, tl.tensor) or not value.dtype.scalar.is_floating():
        return None
    handle: Any = value.handle
    kept: Any = _cropped(handle.data if value.shape else handle.data.reshape(()), extent_of(handle))
    return Variable(_as_float(kept, value.dtype), kept.shape != handle.data.shape) if kept.size <= MAX_VALUES else None


def _cropped(values: Any, extent: tuple[int, ...] | None) -> Any:
    if extent is None or len(extent) != values.ndim:
        return values
    return values[tuple(slice(0, size) for size in extent)]


def _as_float(data: Any, dtype: Any) -> Values:
    """Return the interpreter's data as float64: it holds bfloat16 as its 16 bits."""
    if dtype.scalar == tl.bfloat16:
        data = widen(data)
    return data.astype(np.float64)


def _cells(tensor: HbmTensor, indices: list[Any], values: Values) -> tuple[tuple[int, int, float], ...]:
    """Return row, column and value of each element.

    All axes but the last are the rows.
    """
    if not indices:
        return ((0, 0, float(values.reshape(-1)[0])),)
    rows: Any = indices[0]
    columns: Any = np.zeros_like(indices[0])
    if len(indices) > 1:
        rows, columns = np.ravel_multi_index(indices[:-1], tensor.shape[:-1]), indices[-1]
    return tuple(zip(rows.tolist(), columns.tolist(), values.tolist(), strict=True))
