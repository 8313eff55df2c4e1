"""Find operations that no memory access depends on."""

from __future__ import annotations

from collections.abc import Iterator

from ioaware.analysis.ir.mlir.parser import Block, Operation

COMPUTES = ("arith.", "math.", "tt.splat", "tt.broadcast", "tt.expand_dims", "ttg.convert_layout", "tt.addptr")
"""Operations without an effect: needed where a result is."""
ON_CHIP = ("ttg.memdesc_", "ttg.local_", "ttng.init_barrier", "ttng.inval_barrier", "ttng.barrier_expect", "ttng.wait_barrier",
           "ttng.arrive_barrier", "ttng.tmem_")  # fmt: skip
"""Operations with operands that no memory access depends on."""
ISOLATED = "partition"
"""Operations that contain the regions of warp partitions."""


def dead_operations(function: Operation) -> frozenset[int]:
    """Return the `id`s of operations with results that only stay on the chip.

    They are a function's operations.
    """
    return frozenset(_unneeded(function.regions[0], set()))


def _unneeded(blocks: list[Block], needed: set[str]) -> set[int]:
    """Walk backwards with the values used later in `needed`.

    A value that one branch needs is needed in all.
    """
    unused: set[int] = set()
    for operation in reversed(list(_operations(blocks))):
        if operation.name.startswith(ISOLATED):
            for region in operation.regions:
                unused |= _unneeded(region, set())  # it uses no outer values, and its names may repeat theirs
        elif operation.name.startswith(COMPUTES) and not {_base(name) for name in operation.results} & needed:
            unused.add(id(operation))
        elif not operation.name.startswith(ON_CHIP):
            needed.update(map(_base, operation.operands))
    return unused


def _base(name: str) -> str:
    return name.partition("#")[0]


def _operations(blocks: list[Block]) -> Iterator[Operation]:
    """Yield operations in text order, nested ones after their parent.

    Isolated regions are skipped.
    """
    for block in blocks:
        for operation in block.operations:
            yield operation
            for region in () if operation.name.startswith(ISOLATED) else operation.regions:
                yield from _operations(region)
