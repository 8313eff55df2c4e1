"""Count the bytes that a compiled kernel moves into and out of shared memory.

Counted are the tiles of its TTGIR: stores, asynchronous and TMA copies into shared memory; loads, TMA stores and operands of
matrix products out of it. Others go through scratch space (`allocation.offset`): a conversion of layouts moves its tile in and
out, a fold the partial results of its warps (`allocation.size`), and a reduction its results, too. Each element of a tile
counts once per execution. Not counted are barriers, bank conflicts, and copies that several lanes or warps hold of an element.
"""

from __future__ import annotations

import re
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
from ioaware.analysis.ir.mlir.types import Type, parse_type, result_types

Way = Literal["in", "out"]
MEMDESC = "!ttg.memdesc"
POINTER_BYTES = 8
_SIZE = re.compile(r"\ballocation\.size = (\d+)")
Bytes = Callable[[Operation], int]
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


def left_out(ir_text: str) -> tuple[str, ...]:
    """Return the names of operations whose bytes of shared memory are not counted."""
    return tuple(name for name in WITHOUT_RULE if f"{name} " in ir_text)


def _rule(name: str, seen: list[_Moved]) -> Handler:
    rule = RULES[name]

    def run(walk: Interpreter, operation: Operation) -> None:
        if not walk.record.rehearsing and not walk.record.unreachable:
            scopes = (*walk.record.scopes, *_predicate(walk, operation))
            for way, count in rule.items():
                if amount := count(operation):
                    seen.append(_Moved(walk.record, way, name, amount, scopes, walk.frames(operation)))
        HANDLERS[name](walk, operation)

    return run


def _predicate(walk: Interpreter, operation: Operation) -> list[Condition]:
    """Return the condition of a TMA load, its last operand; none for other operations."""
    last = walk.operands(operation)[-1] if operation.name == TMA_LOAD else None
    return [Condition(last.number)] if last is not None and last.type == Type((), "i1") and last.number is not None else []


def stored_bytes(tile: Type) -> int:
    """Return the bytes of an element, 8 of a pointer."""
    return POINTER_BYTES if tile.is_pointer else tile.element_bytes


def _bytes(tiles: Sequence[Type]) -> int:
    return sum(prod(tile.shape) * stored_bytes(tile) for tile in tiles)


def _operand(operation: Operation) -> int:
    """Return the bytes of the first operand of `%a, %b : A, B -> C`, if any."""
    return _bytes(_first(operation))


def _first(operation: Operation) -> list[Type]:
    types = split_top(operation.types.partition("->")[0].strip().strip("()"))
    return [parse_type(types[0])] if types and types[0].strip() else []


def _copied(operation: Operation) -> int:
    """Return the bytes behind the pointers of an asynchronous copy."""
    return _bytes([pointers.of(pointers.pointee) for pointers in _first(operation)])


def _tile(operation: Operation) -> int:
    """Return the bytes of the largest operand in shared memory; others are barriers."""
    types = [parse_type(one) for one in split_top(operation.types.replace(" -> ", ", ")) if _is_shared(one)]
    return max((_bytes([one]) for one in types), default=0)


def _results(operation: Operation) -> int:
    return _bytes(result_types(operation.types))


def _product(operation: Operation) -> int:
    """Return the bytes of a product's operands that are in shared memory."""
    left = operation.types.partition("->")[0]
    pair = left.split(" * ") if " * " in left else split_top(left)[:2]
    return _bytes([parse_type(one) for one in pair if _is_shared(one)])


def _is_shared(text: str) -> bool:
    return text.strip().startswith(MEMDESC) and "#ttng.tensor_memory" not in text


def _partial(operation: Operation) -> int:
    """Return the bytes of the partial results of a fold's warps."""
    size = _SIZE.search(operation.tail)
    return int(size[1]) if size else 0


def _reduced(operation: Operation) -> int:
    """Return the bytes of a reduction: partial results of its warps, then the results."""
    partial = _partial(operation)
    return partial + _results(operation) if partial else 0


def _scratch(count: Bytes) -> Bytes:
    """Return a count that is 0 where the compiler gives no shared memory."""
    return lambda operation: count(operation) if "allocation.offset" in operation.head else 0


RULES: Mapping[str, Mapping[Way, Bytes]] = {
    "ttg.local_alloc": {"in": _operand},
    "ttg.local_store": {"in": _operand},
    "ttg.async_copy_global_to_local": {"in": _copied},
    TMA_LOAD: {"in": _tile},
    "ttng.async_tma_gather": {"in": _tile},
    "ttg.local_load": {"out": _results},
    "ttng.async_tma_copy_local_to_global": {"out": _tile},
    "ttng.async_tma_reduce": {"out": _tile},
    "ttng.async_tma_scatter": {"out": _tile},
    "ttng.warp_group_dot": {"out": _product},
    "ttng.tc_gen5_mma": {"out": _product},
    "ttg.convert_layout": {"in": _scratch(_operand), "out": _scratch(_operand)},
    "tt.gather": {"in": _scratch(_operand), "out": _scratch(_results)},
    "tt.atomic_rmw": {"in": _scratch(_results), "out": _scratch(_results)},
    "tt.atomic_cas": {"in": _scratch(_results), "out": _scratch(_results)},
    "tt.reduce": {"in": _reduced, "out": _reduced},
    "tt.scan": {"in": _partial, "out": _partial},
}
"""Operations that touch shared memory: the bytes each way."""
WITHOUT_RULE = ("tt.histogram", "ttng.tmem_copy", "ttg.warp_specialize")
SCRATCH = ("ttg.convert_layout", *(name for name in RULES if name.startswith("tt.")))
"""Operations whose bytes depend on what the compiler places."""
