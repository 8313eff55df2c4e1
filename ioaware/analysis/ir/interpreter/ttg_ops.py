"""Interpret Gluon operations of TTGIR.

They are shared-memory copies, TMA, warp partitions, wgmma and tcgen05.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import prod

from ioaware.analysis.ir.accesses.access_log import Condition
from ioaware.analysis.ir.accesses.kernel_traffic import AccessKind
from ioaware.analysis.ir.accesses.values import Value
from ioaware.analysis.ir.algebra.poly import ONE
from ioaware.analysis.ir.interpreter.memory_ops import descriptor_access, descriptor_rows, touch
from ioaware.analysis.ir.interpreter.symbolic_interpreter import Handler, Interpreter
from ioaware.analysis.ir.mlir.parser import Operation, arguments, split_top
from ioaware.analysis.ir.mlir.types import Type, parse_type, result_types

FROM_SHARED = "it is loaded from shared memory"


def _on_chip(walk: Interpreter, operation: Operation) -> None:
    """Ignore shared memory, barriers and tokens.

    Integers loaded from them are unknowns.
    """
    kinds = result_types(operation.types)
    for at, name in enumerate(operation.results):
        kind = kinds[at] if at < len(kinds) and operation.name == "ttg.local_load" else Type((), "on-chip")
        walk.values[name] = walk.unknown(operation, kind, FROM_SHARED)


def _async_copy(walk: Interpreter, operation: Operation) -> None:
    """Record cp.async as a read under its mask.

    Its operands are `%pointers, %shared mask %mask other %other`.
    """
    mask = re.search(r" mask (%[\w.$#-]+)", operation.text)
    touch(walk, operation, "read", walk.operands(operation)[0], walk.value(mask[1]) if mask else None)
    _on_chip(walk, operation)


def _tma(kind: AccessKind, rows: bool = False) -> Handler:
    """Return the rule of a TMA copy.

    Its operands are `%descriptor[%i, %j] %shared, %barrier, %predicate`.

    It accesses a block inside the tensor where the predicate holds.
    """

    def run(walk: Interpreter, operation: Operation) -> None:
        last = walk.operands(operation)[-1]
        truth = last.number if last.type == Type((), "i1") and last.number is not None else ONE
        with walk.record.inside(Condition(truth)):
            (descriptor_rows if rows else descriptor_access)(walk, operation, kind)

    return run


def _warp_group_dot(walk: Interpreter, operation: Operation) -> None:
    """Record 2 m n k FLOPs of `%a, %b, %c : A * B -> C`."""
    left = parse_type(operation.types.split(" * ")[0])
    result = result_types(operation.types)[0]
    walk.record.product(2 * prod(result.shape) * left.shape[-1], left.element, walk.frames(operation))
    walk.values[operation.results[0]] = Value(result)


def _tensor_core(walk: Interpreter, operation: Operation) -> None:
    """Record 2 m n k FLOPs of a matrix product into tensor memory.

    Its form is `%a, %b, %d[%token], .. : A, B, D, ..`.
    """
    left, _, result, *_ = (parse_type(part) for part in split_top(operation.types))
    walk.record.product(2 * prod(result.shape) * left.shape[-1], left.element, walk.frames(operation))
    _on_chip(walk, operation)


def _warp_specialize(walk: Interpreter, operation: Operation) -> None:
    """Capture the operands for the partitions, which follow with their regions."""
    walk.captured = walk.operands(operation)


def _default(walk: Interpreter, operation: Operation) -> None:
    walk.run_region(operation, 0)


def _partition(walk: Interpreter, operation: Operation) -> None:
    """Run `partition0(%a: type, %b: type) num_warps(4) { .. }`."""
    text = operation.text[1 : operation.text.index(" num_warps(") - 1]
    given = [name for name, _ in arguments(text)]
    walk.bind(given, walk.captured)
    walk.run_region(operation, 0)


ON_CHIP = (
    "ttg.local_alloc", "ttg.local_load", "ttg.local_store", "ttg.local_dealloc", "ttg.memdesc_index", "ttg.memdesc_subslice",
    "ttg.memdesc_trans", "ttg.memdesc_reshape", "ttg.memdesc_reinterpret", "ttg.async_commit_group", "ttg.async_wait",
    "ttng.init_barrier", "ttng.inval_barrier", "ttng.barrier_expect", "ttng.wait_barrier", "ttng.arrive_barrier",
    "ttng.fence_async_shared", "ttng.fence", "ttng.async_tma_store_wait", "ttng.async_tma_store_token_wait",
    "ttng.warp_group_dot_wait", "ttng.tmem_alloc", "ttng.tmem_load", "ttng.tmem_store", "ttng.tmem_subslice", "ttng.tmem_copy",
    "ttng.tc_gen5_commit", "ttng.async_copy_mbarrier_arrive", "ttng.cluster_arrive", "ttng.cluster_wait", "ttg.warp_id",
)  # fmt: skip

HANDLERS: Mapping[str, Handler] = {
    "ttg.async_copy_global_to_local": _async_copy,
    "ttng.async_tma_copy_global_to_local": _tma("read"),
    "ttng.async_tma_copy_local_to_global": _tma("write"),
    "ttng.async_tma_reduce": _tma("atomic"),
    "ttng.async_tma_gather": _tma("read", rows=True),
    "ttng.async_tma_scatter": _tma("write", rows=True),
    "ttng.warp_group_dot": _warp_group_dot,
    "ttng.tc_gen5_mma": _tensor_core,
    "ttg.warp_specialize": _warp_specialize,
    "default": _default,
    "partition": _partition,
    **dict.fromkeys(ON_CHIP, _on_chip),
}
