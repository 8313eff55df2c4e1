"""Execute the part of a kernel's Triton IR that determines its accesses.

It runs in numpy for many programs at once, and the accesses are to memory.

Integers, masks and pointers have values, floats have none. Loads from tensors with known contents, such as block tables and
sequence lengths, return them. The result is the bytes of each memory instruction, counted access by access. It is exact where
it exists, and independent of the formulas.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import prod
from typing import Any, TypeGuard

import numpy as np

from ioaware.analysis.ir.mlir.locations import frames
from ioaware.analysis.ir.mlir.parser import Block, Module, Operation, parse, split_top
from ioaware.analysis.ir.mlir.types import Type, parse_type, result_types
from ioaware.compilation.ir_operations import Array, binary, compare, wrap
from ioaware.sectors import SECTOR_BYTES

MAX_LANES = 2**20
"""Most lanes of one array: programs times elements of the largest tile."""
MAX_SECTOR_LANES = 2**28
"""Most lanes of all memory instructions together for which sectors are counted."""
MAX_OPERATIONS = 300_000
"""Most operations of one launch, each for many programs.

A longer launch is not executed.
"""
MEMORY = {"tt.load": "read", "tt.store": "write", "tt.atomic_rmw": "atomic", "tt.atomic_cas": "atomic"}
UNSUPPORTED = ("tt.descriptor", "tt.make_tensor_ptr", "tt.advance", "ttng.", "ttg.", "tt.experimental")
PASS_ON = ("scf.yield", "scf.condition")
NO_EFFECT = ("tt.assert", "tt.print", "llvm.intr.assume", "gpu.barrier", "scf.yield", "tt.return", "cf.assert")
PURE_REGIONS = ("tt.reduce", "tt.scan", "tt.map_elementwise")
_ASM_MEMORY = re.compile(r'^ ?"[^"]*\b(?:ld|st|atom|red|cp)\.')
_FOR = re.compile(r"(%[\w.$-]+) = (\S+) to (\S+) step (\S+?)(?: iter_args\((.*?)\) ->.*)?\s*(?::.*)?$", re.DOTALL)
_TARGET = re.compile(r"\^([\w.$-]+)(?:\(([^)]*)\))?")


def is_array(value: Any) -> TypeGuard[Array]:
    """Return whether a value is an array of integers or booleans."""
    return isinstance(value, np.ndarray)


class UndeterminedError(Exception):
    """An access depends on an unknown value; the message names it."""


@dataclass(frozen=True, slots=True)
class Pointer:
    """Pointers into the tensor of an argument.

    `offsets` are in bytes from the start of its storage.
    """

    name: str
    offsets: Array


Value = Any
"""An integer or boolean array, a `Pointer`, or None where it is unknown.

The array is [programs, *tile] (dimensions of 1 broadcast).
"""


@dataclass
class Moved:
    """Bytes of a launch."""

    read_bytes: int = 0
    write_bytes: int = 0
    atomic_bytes: int = 0
    read_sector_bytes: int = 0
    write_sector_bytes: int = 0
    flops: int = 0
    is_random: bool = False
    """Whether contents that were read are random."""
    lanes: int = 0
    operations: int = 0
    has_sectors: bool = True
    read_names: set[str] = field(default_factory=set[str])
    """Tensors with contents that were read."""
    written_names: set[str] = field(default_factory=set[str])
    """Tensors that the launch wrote."""
    contents: Mapping[str, Array] = field(default_factory=dict[str, Array])
    """Elements of the storages whose contents were read, by tensor."""


def execute(
    ir_text: str, arguments: Sequence[tuple[str, int | Pointer | None]], grid: Sequence[int], data: Mapping[str, Array]
) -> Moved:
    """Return the bytes that all programs of a launch move.

    `data` are the known contents of storages, by argument.

    Raises `UndeterminedError` where an access depends on anything else.
    """
    module, grid = parse(ir_text), (*grid, 1, 1)[:3]
    function = next(function for function in module.functions.values() if "private" not in function.text.split("@")[0])
    lanes = max((prod(kind.shape) for kind in _types(function)), default=1)
    step = max(1, MAX_LANES // max(lanes, 1))
    moved = Moved()
    programs = prod(grid)
    for first in range(0, programs, step):
        numbers = np.arange(first, min(first + step, programs), dtype=np.int64)
        run = _Run(module, grid, numbers, dict(data), moved)
        values = [np.asarray([value]) if isinstance(value, (int, bool)) else value for _, value in arguments]
        run.call(function, values, np.ones(len(numbers), bool))
    return moved


def _types(function: Operation) -> Iterator[Type]:
    for operation in _operations(function.regions[0]):
        if operation.results:
            yield from result_types(operation.types)


def _operations(blocks: Sequence[Block]) -> Iterator[Operation]:
    for block in blocks:
        for operation in block.operations:
            yield operation
            for region in operation.regions:
                yield from _operations(region)


class _Run:
    """One execution of some programs of the kernel."""

    def __init__(self, module: Module, grid: Sequence[int], numbers: Array, data: dict[str, Array], moved: Moved) -> None:
        self.module, self.data, self.moved = module, data, moved
        self.count = len(numbers)
        width, height = grid[0], grid[1]
        self.ids = {"x": numbers % width, "y": numbers // width % height, "z": numbers // (width * height)}
        self.grid = dict(zip("xyz", grid, strict=True))
        self.names: dict[str, Value] = {}
        self.active: Array = np.ones(self.count, bool)

    def call(self, function: Operation, arguments: Sequence[Value], active: Array) -> list[Value]:
        """Run a function for the active programs; return its results."""
        outer, self.names = self.names, {}
        text = function.text[function.text.index("(") :]
        labels = re.findall(r"(%[\w.$-]+): ", text)
        self.names = dict(zip(labels, arguments, strict=False))
        results = self._blocks(function.regions[0], active)
        self.names = outer
        return results

    def _blocks(self, blocks: Sequence[Block], active: Array) -> list[Value]:
        """Run the blocks of a function in order, each for the programs that branch to it."""
        entry = {blocks[0].label: active}
        results: list[Value] | None = None
        for block in blocks:
            here = entry.pop(block.label, None)
            if here is None or not here.any():
                continue
            with self.only(here):
                for operation in block.operations:
                    self._run(operation)
            last = block.operations[-1] if block.operations else None
            if last is None or last.name == "tt.return":
                values = [self.value(name) for name in last.operands] if last else []
                results = values if results is None else [_merge(here, a, b) for a, b in zip(values, results, strict=True)]
                continue
            for mask, label, given in self.targets(last, here):
                target = next((other for other in blocks if other.label == label), None)
                if target is None or blocks.index(target) <= blocks.index(block):
                    raise UndeterminedError("a branch goes backwards")
                entry[label] = entry.get(label, np.zeros(self.count, bool)) | mask
                for (argument, _), value in zip(target.arguments, given, strict=False):
                    self.names[argument] = _merge(mask, value, self.names.get(argument, value))
        if entry:
            raise UndeterminedError("a branch goes backwards")
        return results or []

    def targets(self, branch: Operation, here: Array) -> Iterator[tuple[Array, str, list[Value]]]:
        """Yield each branch target, its programs and its block arguments."""
        targets = [(label, self.arguments(text)) for label, text in _TARGET.findall(branch.text)]
        if branch.name == "cf.br":
            yield here, *targets[0]
            return
        if branch.name != "cf.cond_br":
            raise UndeterminedError(f"no rule for {branch.name}")
        condition = self.condition(self.value(branch.operands[0]), "a branch")
        yield here & condition, *targets[0]
        yield here & ~condition, *targets[1]

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

    def _run(self, operation: Operation) -> None:
        name = operation.name
        self.moved.operations += 1
        if self.moved.operations > MAX_OPERATIONS:
            raise UndeterminedError("the launch is too long to execute")
        if name in MEMORY:
            self._access(operation)
        elif name.startswith(UNSUPPORTED):
            raise UndeterminedError(f"no rule for {name}")
        elif name in _CONTROL:
            results = _CONTROL[name](self, operation)
            self.names.update(zip(operation.results, results, strict=True))
        elif not name.startswith(("cf.", *NO_EFFECT)):
            self.names.update(zip(operation.results, self._computed(operation), strict=True))

    def _computed(self, operation: Operation) -> list[Value]:
        """Return the results of an operation without effects.

        None where they have no rule.
        """
        if (operation.regions and operation.name not in PURE_REGIONS) or _ASM_MEMORY.search(operation.text):
            raise UndeterminedError(f"no rule for {operation.name}")
        rule = _RULES.get(operation.name)
        if not operation.results:
            return []
        if rule is not None and len(operation.results) == 1:
            return [rule(self, operation)]
        if operation.name in ("tt.dot", "tt.dot_scaled"):
            self._product(operation)
        prefix, _, name = operation.name.partition(".")
        kind = result_types(operation.types)[0]
        values = [self.value(operand) for operand in operation.operands]
        if prefix == "arith" and kind.is_integer and len(values) == 2 and all(is_array(v) for v in values):
            return [binary(name, values[0], values[1], kind.element)]
        return [None] * len(operation.results)

    def _product(self, operation: Operation) -> None:
        """Count 2 m n k FLOPs for each program; 4-bit operands pack two of k into a byte."""
        left = re.search(r"tensor<((?:\d+x)+)", operation.types)
        if left is None:
            raise UndeterminedError(f"{operation.name} is not understood")
        packed = 2 if "lhs = e2m1" in operation.text and "lhs_k_pack = false" not in operation.text else 1
        inner = int(left[1].rstrip("x").rpartition("x")[2]) * packed
        self.moved.flops += 2 * prod(result_types(operation.types)[0].shape) * inner * int(np.count_nonzero(self.active))

    def region(self, operation: Operation, at: int, arguments: Sequence[Value]) -> list[Value]:
        """Run a region of one block; return the values that it passes on."""
        (block,) = operation.regions[at]
        self.names.update((name, value) for (name, _), value in zip(block.arguments, arguments, strict=False))
        for inner in block.operations:
            self._run(inner)
        last = block.operations[-1] if block.operations else None
        passed = last.operands if last is not None and last.name in PASS_ON else []
        return [self.value(name) for name in passed]

    def _access(self, operation: Operation) -> None:
        """Count a load, store or atomic.

        The result of a load with known contents is bound.
        """
        kind = MEMORY[operation.name]
        operands = operation.operands
        pointer = self.value(operands[0])
        place = frames(operation.location, self.module.aliases)
        where = f"{operation.name} at {place[0].rpartition('/')[2] if place else 'an unknown line'}"
        if not isinstance(pointer, Pointer):
            raise UndeterminedError(f"the address of {where} depends on a value that only the GPU computes")
        mask_at = {"tt.load": 1, "tt.store": 2, "tt.atomic_rmw": 2, "tt.atomic_cas": 9}[operation.name]
        mask = self.value(operands[mask_at]) if len(operands) > mask_at else np.ones(1, bool)
        if not is_array(mask):
            raise UndeterminedError(f"the mask of {where} depends on a value that only the GPU computes")
        shape, element_bytes = _accessed(operation)
        lanes = self.active.reshape(-1, *[1] * len(shape)) & mask.astype(bool).reshape(mask.shape or (1,))
        elements = int(np.count_nonzero(lanes)) * (prod(shape) // max(1, prod(lanes.shape[1:])))
        setattr(self.moved, f"{kind}_bytes", getattr(self.moved, f"{kind}_bytes") + elements * element_bytes)
        if kind != "read":
            self.moved.written_names.add(pointer.name)
            self.data.pop(pointer.name, None)  # what a later load finds there depends on the order of programs
        if kind != "atomic":
            self._sectors(kind, pointer, lanes, shape, element_bytes)
        if operation.results:
            self.names[operation.results[0]] = (
                self._loaded(operation, pointer, lanes, element_bytes) if kind == "read" else None
            )

    def _sectors(self, kind: str, pointer: Pointer, lanes: Array, shape: tuple[int, ...], element_bytes: int) -> None:
        """Add the distinct sectors of each program's access."""
        full = (self.count, *shape)
        self.moved.lanes += prod(full)
        self.moved.has_sectors &= self.moved.lanes <= MAX_SECTOR_LANES and not (pointer.offsets % element_bytes).any()
        if not self.moved.has_sectors:
            return
        addresses = np.broadcast_to(pointer.offsets, full).reshape(self.count, -1)
        rows = np.where(np.broadcast_to(lanes, full).reshape(self.count, -1), addresses // SECTOR_BYTES, -1)
        if (rows[:, 1:] < rows[:, :-1]).any():
            rows = np.sort(rows, axis=1)
        new = rows >= 0
        new[:, 1:] &= rows[:, 1:] != rows[:, :-1]
        name = f"{kind}_sector_bytes"
        setattr(self.moved, name, getattr(self.moved, name) + SECTOR_BYTES * int(np.count_nonzero(new)))

    def _loaded(self, operation: Operation, pointer: Pointer, lanes: Array, element_bytes: int) -> Value:
        """Return the contents of a known tensor at these addresses, None of any other."""
        contents = self.data.get(pointer.name)
        element = _pointer_type(operation).pointee
        if contents is None or not re.fullmatch(r"i\d+", element):
            return None
        index, lanes = np.broadcast_arrays(pointer.offsets // element_bytes, lanes)
        if (lanes & ((index < 0) | (index >= contents.size))).any():
            raise UndeterminedError(f"{pointer.name} is read beyond its storage")
        self.moved.read_names.add(pointer.name)
        found = contents[np.where(lanes, index, 0)].astype(np.int64)
        other = self.value(operation.operands[2]) if len(operation.operands) > 2 else np.zeros(1, np.int64)
        return None if other is None else wrap(np.where(lanes, found, other), element)


def _pointer_type(operation: Operation) -> Type:
    """Return the type of the first operand, a pointer or a tile of pointers."""
    return parse_type(split_top(operation.types.split("->")[0].strip().removeprefix("(").removesuffix(")").strip())[0])


def _accessed(operation: Operation) -> tuple[tuple[int, ...], int]:
    """Return the tile of a memory operation and the bytes of its elements."""
    kind = _pointer_type(operation)
    return kind.shape, kind.element_bytes


def _merge(mask: Array, new: Value, old: Value) -> Value:
    """Return `new` for the programs of the mask and `old` for the others."""
    if new is old:
        return new
    if isinstance(new, Pointer) and isinstance(old, Pointer) and new.name == old.name:
        return Pointer(new.name, _merge(mask, new.offsets, old.offsets))
    if is_array(new) and is_array(old):
        return np.where(mask.reshape(-1, *[1] * (max(new.ndim, old.ndim) - 1)), new, old)
    return None


def _for(run: _Run, operation: Operation) -> list[Value]:
    header = _FOR.match(operation.text)
    if not header:
        raise UndeterminedError("the header of a loop is not understood")
    index, low, high, step = header[1], *(run.number(header[at], "a loop bound") for at in (2, 3, 4))
    pairs = [part.split(" = ") for part in split_top(header[5] or "")]
    names, carried = [name.strip() for name, _ in pairs], [run.value(value.strip()) for _, value in pairs]
    at = low.copy()
    while (going := run.active & (at < high)).any():
        with run.only(going):
            run.names[index] = at
            run.names.update(zip(names, carried, strict=True))
            values = run.region(operation, 0, ())
        carried = [_merge(going, new, old) for new, old in zip(values, carried, strict=True)]
        at = at + step
    return carried


def _is_free(run: _Run, blocks: Sequence[Block]) -> bool:
    """Return whether nothing in these blocks is counted.

    It then does not matter whether they run.
    """
    for inner in _operations(blocks):
        if (
            inner.name in MEMORY
            or inner.name.startswith((*UNSUPPORTED, "tt.dot", "scf.while"))
            or _ASM_MEMORY.search(inner.text)
        ):
            return False
        callee = _CALLEE.match(inner.text.strip()) if inner.name == "tt.call" else None
        if callee and not all(_is_free(run, region) for region in run.module.functions[callee[1]].regions):
            return False
    return True


def _if(run: _Run, operation: Operation) -> list[Value]:
    if not is_array(run.value(operation.operands[0])) and all(_is_free(run, region) for region in operation.regions):
        return [None] * len(operation.results)
    condition = run.condition(run.value(operation.operands[0]), "a branch")
    results: list[list[Value]] = []
    for at, taken in enumerate((condition, ~condition)):
        if at < len(operation.regions):
            with run.only(run.active & taken):
                results.append(run.region(operation, at, ()))
    if not operation.results:
        return []
    return [_merge(condition, then, other) for then, other in zip(*results, strict=True)]


_CALLEE = re.compile(r"@([\w.$-]+|\"[^\"]*\")")
_WHILE = re.compile(r"\((.*?)\) : ", re.DOTALL)


def _while(run: _Run, operation: Operation) -> list[Value]:
    header = _WHILE.match(operation.text)
    pairs = [part.split(" = ") for part in split_top(header[1])] if header else []
    names, carried = [name.strip() for name, _ in pairs], [run.value(value.strip()) for _, value in pairs]
    going, results = run.active, None
    while going.any():
        with run.only(going):
            run.names.update(zip(names, carried, strict=True))
            test, *values = run.region(operation, 0, ())
            again = going & run.condition(test, "a loop")
        results = values if results is None else [_merge(going, new, old) for new, old in zip(values, results, strict=True)]
        if again.any():
            with run.only(again):
                after = run.region(operation, 1, values)
            carried = [_merge(again, new, old) for new, old in zip(after, carried, strict=True)]
        going = again
    return results if results is not None else [None] * len(operation.results)


def _call(run: _Run, operation: Operation) -> list[Value]:
    found = _CALLEE.match(operation.text.strip())
    if not found or found[1] not in run.module.functions:
        return [None] * len(operation.results)
    arguments = [run.value(name) for name in operation.operands]
    results = run.call(run.module.functions[found[1]], arguments, run.active)
    return results or [None] * len(operation.results)


Rule = Callable[[_Run, Operation], Value]
_CONTROL: Mapping[str, Rule] = {
    "scf.for": _for,
    "scf.if": _if,
    "scf.while": _while,
    "tt.call": _call,
}


def _attribute(operation: Operation, pattern: str) -> str:
    """Return the first group of a pattern in the text of an operation."""
    found = re.search(pattern, operation.text)
    if found is None:
        raise UndeterminedError(f"{operation.name} is not understood")
    return found[1]


def _constant(_: _Run, operation: Operation) -> Value:
    text = operation.head.strip()
    text = text[text.index("dense<") + 6 : text.rindex(">")] if "dense<" in text else text
    if text in ("true", "false"):
        return np.asarray([text == "true"])
    kind = result_types(operation.types)[0] if operation.types else Type((), "i1")
    if not re.fullmatch(r"-?\d+", text) or not kind.is_integer:
        return None
    return np.asarray([int(text)], np.int64).reshape(1, *[1] * len(kind.shape))


def _program_id(run: _Run, operation: Operation) -> Value:
    return run.ids[operation.head.strip()[0]]


def _num_programs(run: _Run, operation: Operation) -> Value:
    return np.asarray([run.grid[operation.head.strip()[0]]], np.int64)


def _range(_: _Run, operation: Operation) -> Value:
    start, end = (int(_attribute(operation, rf"{name} = (-?\d+)")) for name in ("start", "end"))
    return np.arange(start, end, dtype=np.int64).reshape(1, -1)


def _reshaped(value: Value, change: Callable[[Array], Array]) -> Value:
    if isinstance(value, Pointer):
        return Pointer(value.name, change(value.offsets))
    return change(value) if is_array(value) else None


def _splat(run: _Run, operation: Operation) -> Value:
    rank = len(result_types(operation.types)[0].shape)
    return _reshaped(run.value(operation.operands[0]), lambda array: array.reshape(-1, *[1] * rank))


def _unsplat(run: _Run, operation: Operation) -> Value:
    return _reshaped(run.value(operation.operands[0]), lambda array: array.reshape(-1))


def _same(run: _Run, operation: Operation) -> Value:
    return run.value(operation.operands[0])


def _expand(run: _Run, operation: Operation) -> Value:
    axis = int(_attribute(operation, r"axis = (\d+)")) + 1
    return _reshaped(run.value(operation.operands[0]), lambda array: np.expand_dims(array, axis))


def _full(array: Array, shape: Sequence[int]) -> Array:
    return np.broadcast_to(array, (array.shape[0], *shape))


def _reshape(run: _Run, operation: Operation) -> Value:
    before, after = parse_type(operation.types.split("->")[0]), result_types(operation.types)[0]
    if "allow_reorder" in operation.text:
        return None

    def change(array: Array) -> Array:
        return _full(array, before.shape).reshape(array.shape[0], *after.shape)

    return _reshaped(run.value(operation.operands[0]), change)


def _transpose(run: _Run, operation: Operation) -> Value:
    before = parse_type(operation.types.split("->")[0])
    order = [int(number) for number in _attribute(operation, r"order = array<i32: ([^>]*)>").split(",")]

    def change(array: Array) -> Array:
        return _full(array, before.shape).transpose(0, *(axis + 1 for axis in order))

    return _reshaped(run.value(operation.operands[0]), change)


def _addptr(run: _Run, operation: Operation) -> Value:
    pointer, offset = (run.value(name) for name in operation.operands)
    if not isinstance(pointer, Pointer) or not is_array(offset):
        return None
    return Pointer(pointer.name, pointer.offsets + offset.astype(np.int64) * _accessed(operation)[1])


def _compare(run: _Run, operation: Operation) -> Value:
    a, b = (run.value(name) for name in operation.operands)
    if not is_array(a) or not is_array(b):
        return None
    return compare(operation.text.split(",")[0].strip(), a, b, parse_type(operation.types).element)


def _select(run: _Run, operation: Operation) -> Value:
    condition, a, b = (run.value(name) for name in operation.operands)
    if not is_array(condition):
        return None
    if isinstance(a, Pointer) and isinstance(b, Pointer) and a.name == b.name:
        return Pointer(a.name, np.where(condition, a.offsets, b.offsets))
    return np.where(condition, a, b) if is_array(a) and is_array(b) else None


def _converted(run: _Run, operation: Operation) -> Value:
    value = run.value(operation.operands[0])
    if not is_array(value):
        return None
    before, after = (parse_type(text).element for text in operation.types.split(" to "))
    if operation.name == "arith.extui" and before != "i1":
        value = value.astype(np.int64) & ((1 << int(before[1:])) - 1)
    if operation.name == "arith.extsi" and before == "i1":
        return -value.astype(np.int64)
    return wrap(value.astype(np.int64), after)


def _reduced(run: _Run, operation: Operation) -> Value:
    """Return a reduction of one integer tile by one operation; None for any other."""
    axis = re.search(r"axis = (\d+)", operation.tail + operation.text)
    value = run.value(operation.operands[0]) if len(operation.operands) == 1 else None
    inner = [op.name for op in operation.regions[0][0].operations]
    function: Any = {"arith.addi": np.sum, "arith.maxsi": np.max, "arith.minsi": np.min}.get(inner[0])
    if axis is None or not is_array(value) or value.dtype == bool or function is None or len(inner) != 2:
        return None
    shape = parse_type(operation.types.strip().removeprefix("(").split("->")[0].strip().removesuffix(")")).shape
    return function(_full(value, shape), axis=int(axis[1]) + 1)


_RULES: Mapping[str, Rule] = {
    "arith.constant": _constant,
    "tt.get_program_id": _program_id,
    "tt.get_num_programs": _num_programs,
    "tt.make_range": _range,
    "tt.splat": _splat,
    "tt.broadcast": _same,
    "tt.bitcast": _same,
    "tt.expand_dims": _expand,
    "tt.unsplat": _unsplat,
    "tt.reshape": _reshape,
    "tt.trans": _transpose,
    "tt.addptr": _addptr,
    "arith.cmpi": _compare,
    "arith.select": _select,
    **dict.fromkeys(("arith.extsi", "arith.extui", "arith.trunci", "arith.index_cast"), _converted),
    "tt.reduce": _reduced,
}
