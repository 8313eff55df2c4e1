"""Count the bytes that a compiled kernel moves into and out of shared memory.

Counted are the tiles of its TTGIR: stores, asynchronous and TMA copies into shared memory; loads, TMA stores and operands of
matrix products out of it. A conversion of layouts with scratch space (`allocation.offset`) moves its tile in and out. Each
element of a tile counts once per execution. Not counted are reductions, bank conflicts, and copies that several lanes or
warps hold of an element.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Literal

from sympy import Expr

from ioaware.analysis.ir.accesses.access_log import Condition, Recorder, Scope
from ioaware.analysis.ir.accesses.kernel_traffic import Argument, Count
from ioaware.analysis.ir.interpreter.symbolic_interpreter import Handler, Interpreter
from ioaware.analysis.ir.kernel_analysis import HANDLERS, interpret
from ioaware.analysis.ir.kernel_totals import KernelTotals, over_grid
from ioaware.analysis.ir.mlir.parser import Operation, split_top
from ioaware.analysis.ir.mlir.types import Type, parse_type

Way = Literal["in", "out"]
MEMDESC = "!ttg.memdesc"
POINTER_BYTES = 8
TMA_LOAD = "ttng.async_tma_copy_global_to_local"


@dataclass(frozen=True, slots=True)
class SharedAccess:
    """Bytes that one operation moves into or out of shared memory, over all programs.

    `frames` are `file:line`, its own line first, then its callers. `bytes` is None where data decide how often it runs.
    """

    way: Way
    operation: str
    bytes: Count | None
    frames: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Moved:
    """One operation as it was interpreted."""

    record: Recorder
    way: Way
    operation: str
    bytes: int
    scopes: tuple[Scope, ...]
    frames: tuple[str, ...]


def shared_accesses(ir_text: str, arguments: Sequence[Argument], grid: Sequence[Expr | int]) -> tuple[SharedAccess, ...]:
    """Return what each operation of a kernel's TTGIR moves.

    Raises as `analyse` does.
    """
    seen: list[_Moved] = []
    _, walk, launched = interpret(ir_text, arguments, grid, HANDLERS | {name: _rule(name, seen) for name in RULES})
    sums = KernelTotals(walk, launched, {argument.name: argument for argument in arguments})

    def counted(one: _Moved) -> SharedAccess:
        amount, undecided = sums.repeated(one.bytes, one.scopes)
        return SharedAccess(one.way, one.operation, None if undecided else over_grid(amount), one.frames)

    return tuple(counted(one) for one in seen if one.record is walk.record)  # a kernel may be interpreted twice


def _rule(name: str, seen: list[_Moved]) -> Handler:
    ways, tiles = RULES[name]

    def run(walk: Interpreter, operation: Operation) -> None:
        if not walk.record.rehearsing and not walk.record.unreachable:
            amount = sum(prod(tile.shape) * stored_bytes(tile) for tile in tiles(operation))
            if amount:
                scopes = (*walk.record.scopes, *_predicate(walk, operation))
                seen.extend(_Moved(walk.record, way, name, amount, scopes, walk.frames(operation)) for way in ways)
        HANDLERS[name](walk, operation)

    return run


def _predicate(walk: Interpreter, operation: Operation) -> list[Condition]:
    """Return the condition of a TMA load, its last operand; none for other operations."""
    last = walk.operands(operation)[-1] if operation.name == TMA_LOAD else None
    return [Condition(last.number)] if last is not None and last.type == Type((), "i1") and last.number is not None else []


def stored_bytes(tile: Type) -> int:
    """Return the bytes of an element, 8 of a pointer."""
    return POINTER_BYTES if tile.is_pointer else tile.element_bytes


def _through_scratch(operation: Operation) -> list[Type]:
    """Return the tile of a conversion to which the compiler gives shared memory."""
    return _operand(operation) if "allocation.offset" in operation.head else []


def _operand(operation: Operation) -> list[Type]:
    """Return the tile of the first operand of `%a, %b : A, B -> C`, if any."""
    types = split_top(operation.types.partition("->")[0].strip().strip("()"))
    return [parse_type(types[0])] if types and types[0].strip() else []


def _copied(operation: Operation) -> list[Type]:
    """Return the elements behind the pointers of an asynchronous copy."""
    return [pointers.of(pointers.pointee) for pointers in _operand(operation)]


def _tile(operation: Operation) -> list[Type]:
    """Return the largest operand in shared memory; others are barriers."""
    types = [parse_type(one) for one in split_top(operation.types) if one.strip().startswith(MEMDESC)]
    return sorted(types, key=lambda one: prod(one.shape) * one.element_bytes)[-1:]


def _result(operation: Operation) -> list[Type]:
    return [parse_type(operation.types.partition("->")[2])]


def _product(operation: Operation) -> list[Type]:
    """Return the operands of `A * B -> C` or `A, B, ...` that are in shared memory."""
    left = operation.types.partition("->")[0]
    pair = left.split(" * ") if " * " in left else split_top(left)[:2]
    return [parse_type(one) for one in pair if one.strip().startswith(MEMDESC)]


RULES: Mapping[str, tuple[tuple[Way, ...], Callable[[Operation], list[Type]]]] = {
    "ttg.local_alloc": (("in",), _operand),
    "ttg.local_store": (("in",), _operand),
    "ttg.async_copy_global_to_local": (("in",), _copied),
    TMA_LOAD: (("in",), _tile),
    "ttg.convert_layout": (("in", "out"), _through_scratch),
    "ttg.local_load": (("out",), _result),
    "ttng.async_tma_copy_local_to_global": (("out",), _tile),
    "ttng.warp_group_dot": (("out",), _product),
    "ttng.tc_gen5_mma": (("out",), _product),
}
"""Operations that touch shared memory: the ways, and the tiles that they move."""
