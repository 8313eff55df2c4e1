"""Which values can matter to memory: phases of barriers and slots of shared memory are computed by a kernel, and not here."""

from __future__ import annotations

from collections.abc import Iterator

from ioaware.analysis.ir.text import Block, Operation

COMPUTES = ("arith.", "math.", "tt.splat", "tt.broadcast", "tt.expand_dims", "ttg.convert_layout", "tt.addptr")
"""Without an effect: needed where a result is."""
ON_CHIP = ("ttg.memdesc_", "ttg.local_", "ttng.init_barrier", "ttng.inval_barrier", "ttng.barrier_expect", "ttng.wait_barrier",
           "ttng.arrive_barrier", "ttng.tmem_")  # fmt: skip
"""Whose operands no access to memory depends on."""


def unneeded(function: Operation) -> frozenset[int]:
    """The `id`s of a function's operations whose results nothing uses but what stays on the chip.

    Partitions of warps give their values the same names again: one that is needed in any of them is taken for needed in all.
    """
    needed: set[str] = set()
    unused: set[int] = set()
    for operation in reversed(list(_operations(function.regions[0]))):
        if operation.name.startswith(COMPUTES) and not {_base(name) for name in operation.results} & needed:
            unused.add(id(operation))
        elif not operation.name.startswith(ON_CHIP):
            needed.update(map(_base, operation.operands))
    return frozenset(unused)


def _base(name: str) -> str:
    return name.partition("#")[0]


def _operations(blocks: list[Block]) -> Iterator[Operation]:
    """In the order of the text, what is inside an operation after it."""
    for block in blocks:
        for operation in block.operations:
            yield operation
            for region in operation.regions:
                yield from _operations(region)
