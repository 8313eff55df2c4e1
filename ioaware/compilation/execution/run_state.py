"""Hold the state of one execution of some programs of a kernel.

The state is names, active programs, and what has been counted.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np

from ioaware.analysis.ir.mlir.parser import Module, Operation
from ioaware.compilation.execution.executed_accesses import ExecutedAccesses
from ioaware.compilation.execution.integer_arithmetic import Array
from ioaware.compilation.execution.program_values import Moved, UndeterminedError, Value, is_array


class RunState:
    """Values by name, for `count` programs at once.

    `active` are the programs that execute the current operation.
    """

    def __init__(self, module: Module, grid: Sequence[int], numbers: Array, data: dict[str, Array], moved: Moved) -> None:
        self.module, self.data, self.moved = module, data, moved
        self.sizes: Mapping[str, int] = {}
        """Bytes of the storages, by argument."""
        self.needed: frozenset[str] = frozenset()
        """Names of the values that an access or a path may depend on."""
        self.unordered: frozenset[str] = frozenset()
        """Names of the values that are only reduced to one number, in any order."""
        self.accesses: ExecutedAccesses | None = None
        """Where accesses are recorded, if they are."""
        self.programs = numbers
        self.count = len(numbers)
        width, height = grid[0], grid[1]
        self.ids = {"x": numbers % width, "y": numbers // width % height, "z": numbers // (width * height)}
        self.grid = dict(zip("xyz", grid, strict=True))
        self.names: dict[str, Value] = {}
        self.active: Array = np.ones(self.count, bool)

    def arguments(self, text: str) -> list[Value]:
        return [self.value(name) for name in re.findall(r"%[\w.$-]+(?:#\d+)?", text.split(" : ")[0])]

    @contextmanager
    def only(self, active: Array) -> Generator[None]:
        """Execute for these programs alone."""
        outer, self.active = self.active, active
        try:
            yield
        finally:
            self.active = outer

    def value(self, name: str) -> Value:
        return self.names.get(name)

    def condition(self, value: Value, what: str) -> Array:
        """Return a truth value for each program. Raises `UndeterminedError`."""
        if not is_array(value):
            raise UndeterminedError(f"{what} depends on a value that only the GPU computes")
        return np.broadcast_to(value.astype(bool).reshape(-1), (self.count,))

    def number(self, name: str, what: str) -> Array:
        value = self.value(name)
        if not is_array(value):
            raise UndeterminedError(f"{what} depends on a value that only the GPU computes")
        return np.broadcast_to(value.reshape(-1), (self.count,))


def attribute(operation: Operation, pattern: str) -> str:
    """Return the first group of a pattern in the text of an operation."""
    found = re.search(pattern, operation.text)
    if found is None:
        raise UndeterminedError(f"{operation.name} is not understood")
    return found[1]
