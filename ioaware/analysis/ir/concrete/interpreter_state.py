"""State of a plain interpretation.

It holds values, control flow between blocks, memory accesses and their counts.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from ioaware.analysis.ir.concrete.tally import Array, Memory, Tally, TooLongError, UndecidedError, UnsupportedOperationError
from ioaware.analysis.ir.mlir.locations import frames
from ioaware.analysis.ir.mlir.parser import Block, Module, Operation, arguments, split_top
from ioaware.analysis.ir.mlir.types import Type, parse_type, result_types

TERMINATORS = (
    *("scf.yield", "scf.condition", "tt.return", "tt.reduce.return", "tt.scan.return"),
    *("ttg.warp_yield", "ttg.warp_return"),
)


@dataclass(frozen=True, slots=True)
class Opaque:
    """A value that is not computed: a float, or an integer made of one."""

    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Descriptor:
    """A tensor descriptor: base address, shape and strides in elements, and its block."""

    base: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    block: Type


Value: TypeAlias = "Array | Opaque | Descriptor"


Handler: TypeAlias = "Callable[[Run, Operation], None]"


def integer_type(kind: Type) -> np.dtype[Any] | None:
    """Return numpy's type of an integer or pointer; None for floats."""
    if kind.is_pointer or kind.element == "index":
        return np.dtype(np.int64)
    if kind.element == "i1":
        return np.dtype(bool)
    return np.dtype(f"i{kind.element_bytes}") if kind.is_integer else None


def parameters(function: Operation) -> list[tuple[str, Type]]:
    """Return names and types of a function's parameters."""
    text = function.text
    found = re.search(r"@([\w.$-]+|\"[^\"]*\")", text)
    start = text.index("(", found.end() if found else 0)
    depth = 0
    for end in range(start, len(text)):
        depth += (text[end] == "(") - (text[end] == ")")
        if depth == 0:
            return [(name, parse_type(kind)) for name, kind in arguments(text[start + 1 : end])]
    return []


@dataclass
class Run:
    """State of one launch: the values, memory, and what was counted.

    The values are those of the running function.
    """

    module: Module
    memory: Memory
    grid: Sequence[int]
    left: int
    """Operations that may still run."""
    deadline: float
    """CPU time of the thread, in seconds, at which the interpretation ends."""
    handlers: Mapping[str, Handler]
    program: tuple[int, ...] = (0, 0, 0)
    tally: Tally = field(default_factory=Tally)
    values: dict[str, Value] = field(default_factory=dict[str, Value])
    captured: list[Value] = field(default_factory=list[Value])
    """What the partitions of a warp-specialised region are given."""

    def call(self, name: str, given: Sequence[Value]) -> list[Value]:
        function = self.module.functions[name]
        outer, self.values = self.values, dict(zip((name for name, _ in parameters(function)), given, strict=True))
        try:
            return self.blocks(function.regions[0])
        finally:
            self.values = outer

    def blocks(self, blocks: Sequence[Block]) -> list[Value]:
        labels = {block.label: block for block in blocks}
        block = blocks[0]
        while True:
            jump = None
            for operation in block.operations:
                self.left -= 1
                if self.left < 0 or time.thread_time() > self.deadline:
                    raise TooLongError
                if operation.name in ("cf.br", "cf.cond_br"):
                    jump = self.jump(operation)
                    break
                if operation.name in TERMINATORS:
                    return [self.value(name) for name in operation.operands]
                self.step(operation)
            if jump is None:
                return []
            label, passed = jump
            block = labels[label]
            self.values.update(zip((name for name, _ in block.arguments), passed, strict=True))

    def jump(self, operation: Operation) -> tuple[str, list[Value]]:
        edges = [operation.head]
        if operation.name == "cf.cond_br":
            truth, *edges = split_top(operation.text)
            edges = [edges[0] if self.integer(truth, operation) else edges[1]]
        label, _, rest = edges[0].strip().lstrip("^").partition("(")
        names = [part.strip() for part in rest.split(":")[0].split(",") if part.strip().startswith("%")]
        return label.strip(), [self.value(name) for name in names]

    def step(self, operation: Operation) -> None:
        name = operation.name
        dialect, unnumbered = name.partition(".")[0] + ".", name.rstrip("0123456789")
        handler = self.handlers.get(name) or self.handlers.get(dialect) or self.handlers.get(unnumbered)
        if handler is None:
            raise UnsupportedOperationError(operation.name)
        handler(self, operation)

    def value(self, name: str) -> Value:
        return self.values[name] if name in self.values else self.values[f"{name}#0"]

    def operands(self, operation: Operation) -> list[Value]:
        return [self.value(name) for name in operation.operands]

    def array(self, value: Value, operation: Operation) -> Array:
        if not isinstance(value, np.ndarray):
            raise UndecidedError(self.line(operation))
        return value

    def integer(self, name: str, operation: Operation) -> int:
        return int(self.array(self.value(name), operation))

    def line(self, operation: Operation) -> str:
        found = frames(operation.location, self.module.aliases)
        return f"{operation.name} at {found[0] if found else 'an unnamed line'}"

    def set(self, operation: Operation, *values: Value) -> None:
        whole = (np.asarray(value) if isinstance(value, np.generic) else value for value in values)
        self.values.update(zip(operation.results, whole, strict=True))

    def opaque(self, operation: Operation) -> None:
        kinds = result_types(operation.types)
        self.set(operation, *(Opaque(kind.shape) for kind in kinds[: len(operation.results)]))

    def access(self, kind: str, addresses: Array, mask: Array, width: int, operation: Operation) -> None:
        self.tally.add(kind, addresses, mask, width)
        outside = self.memory.outside(addresses[mask], width)
        if outside:
            line = self.line(operation)
            self.tally.beyond[line] = self.tally.beyond.get(line, 0) + outside

    def access_somewhere(self, kind: str, mask: Array, width: int) -> None:
        """Count an access whose addresses are not computed: its bytes, but no sectors.

        A write makes memory unknown.
        """
        self.tally.add_bytes(kind, mask, width)
        if kind != "read":
            self.memory.contents[:] = [None] * len(self.memory.contents)
