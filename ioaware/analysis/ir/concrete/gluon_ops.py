"""Plain interpretation of Gluon's operations.

They are copies to shared memory, TMA, warp partitions, wgmma and tcgen05.

Shared memory, barriers and tokens are not followed: a value that is loaded from them is not computed. Partitions of warps run
one after the other.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from math import prod

import numpy as np

from ioaware.analysis.ir.concrete.descriptor_ops import descriptor_block, descriptor_rows
from ioaware.analysis.ir.concrete.interpreter_state import Handler, Opaque, Run
from ioaware.analysis.ir.mlir.parser import Operation, arguments, split_top
from ioaware.analysis.ir.mlir.types import parse_type, result_types


def _on_chip(run: Run, operation: Operation) -> None:
    """Skip shared memory, barriers and tokens."""
    kinds = result_types(operation.types) if operation.name in ("ttg.local_load", "ttng.tmem_load") else []
    shapes = [kinds[at].shape if at < len(kinds) else () for at in range(len(operation.results))]
    run.set(operation, *map(Opaque, shapes))


def _async_copy(run: Run, operation: Operation) -> None:
    """Count cp.async as a read under its mask.

    Its operands are `%pointers, %shared mask %mask other %other`.
    """
    found = re.search(r" mask (%[\w.$#-]+)", operation.text)
    addresses = run.array(run.operands(operation)[0], operation)
    mask = run.array(run.value(found[1]), operation) if found else np.array(True)
    kind = parse_type(split_top(operation.types.split("->")[0])[0])
    width = parse_type(kind.pointee).element_bytes
    run.access("read", addresses, np.broadcast_to(mask, addresses.shape), width, operation)
    _on_chip(run, operation)


def _tma(rule: Callable[[Run, Operation, str], None], kind: str) -> Handler:
    """Return the rule of a TMA copy.

    Its operands are `%descriptor[%i, %j] %shared, %barrier, %predicate`.
    """

    def run_it(run: Run, operation: Operation) -> None:
        last = run.operands(operation)[-1]
        if isinstance(last, np.ndarray) and last.dtype == bool and last.ndim == 0 and not last:
            return
        rule(run, operation, kind)

    return run_it


def _warp_group_dot(run: Run, operation: Operation) -> None:
    """Count 2 m n k FLOPs of `%a, %b, %c : A * B -> C`."""
    left, result = parse_type(operation.types.split(" * ")[0]), result_types(operation.types)[0]
    run.tally.flops += 2 * prod(result.shape) * left.shape[-1]
    run.opaque(operation)


def _tensor_core(run: Run, operation: Operation) -> None:
    """Count 2 m n k FLOPs of `%a, %b, %d[%token], .. : A, B, D, ..`."""
    left, _, result, *_ = (parse_type(part) for part in split_top(operation.types))
    run.tally.flops += 2 * prod(result.shape) * left.shape[-1]
    _on_chip(run, operation)


def _warp_specialize(run: Run, operation: Operation) -> None:
    """Keep the operands for the partitions, which follow with their regions."""
    run.captured = run.operands(operation)


def _default(run: Run, operation: Operation) -> None:
    run.blocks(operation.regions[0])


def _partition(run: Run, operation: Operation) -> None:
    """Run `partition0(%a: type, %b: type) num_warps(4) { .. }`."""
    text = operation.text[1 : operation.text.index(" num_warps(") - 1]
    run.values.update(zip((name for name, _ in arguments(text)), run.captured, strict=True))
    run.blocks(operation.regions[0])


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
    "ttng.async_tma_copy_global_to_local": _tma(descriptor_block, "read"),
    "ttng.async_tma_copy_local_to_global": _tma(descriptor_block, "write"),
    "ttng.async_tma_reduce": _tma(descriptor_block, "atomic"),
    "ttng.async_tma_gather": _tma(descriptor_rows, "read"),
    "ttng.async_tma_scatter": _tma(descriptor_rows, "write"),
    "ttng.warp_group_dot": _warp_group_dot,
    "ttng.tc_gen5_mma": _tensor_core,
    "ttg.warp_specialize": _warp_specialize,
    "default": _default,
    "partition": _partition,
    **dict.fromkeys(ON_CHIP, _on_chip),
}
