"""Backward slice: operations that an access or a path may depend on.

It has those that an address, a mask, a loop bound or a branch may depend on.

Values that are only stored, multiplied or summed are not in it, such as the random numbers of a dropout. Each value that a loop
carries is followed by itself: one may be a sum of random numbers, and another an address.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ioaware.analysis.ir.mlir.liveness import COMPUTES
from ioaware.analysis.ir.mlir.parser import Block, Operation, split_top

PURE = (*COMPUTES, "tt.reshape", "tt.trans", "tt.join", "tt.split", "tt.cat", "tt.bitcast", "tt.mulhiui", "tt.fp_to_fp",
        "tt.extern_", "tt.dot", "tt.reduce", "tt.scan")  # fmt: skip
"""Without an effect: an operand is needed where a result is."""
STORED_OPERAND = {"tt.store": 1, "tt.atomic_rmw": 1, "tt.descriptor_store": -1}
"""The place of the operand that memory receives and no address depends on."""
DEFAULT_OPERAND = 2
"""The place of a load's value for masked lanes."""
_CARRIED = re.compile(r"iter_args\((.*?)\)")


def address_operations(function: Operation) -> frozenset[int]:
    """Return the `id`s of the slice's operations, effects and control flow included."""
    return frozenset(_slice_of(function).operations)


def address_values(function: Operation) -> frozenset[str]:
    """Return the names of the values that an access or a path may depend on."""
    return frozenset(_slice_of(function).needed)


def _slice_of(function: Operation) -> _Slice:
    slice_ = _Slice()
    before = -1
    while before != len(slice_.needed):  # a loop's body needs what its next iteration needs
        before = len(slice_.needed)
        slice_.visit(function.regions[0], None)
    return slice_


class _Slice:
    """The needed values so far.

    Names are unique in a function but for isolated regions, where sharing only adds values.
    """

    def __init__(self) -> None:
        self.needed: set[str] = set()
        self.operations: set[int] = set()

    def visit(self, blocks: Sequence[Block], results: Sequence[bool] | None) -> None:
        """Walk backwards.

        `results` marks the yielded values that are needed; None means all.
        """
        for block in reversed(blocks):
            for operation in reversed(block.operations):
                self._visit(operation, results)

    def _visit(self, operation: Operation, results: Sequence[bool] | None) -> None:
        wanted = [name in self.needed for name in operation.results]
        if operation.name.startswith(PURE) and not any(wanted):
            return
        self.operations.add(id(operation))
        if operation.name == "scf.yield" and results is not None:
            self.needed.update(name for name, want in zip(operation.operands, results, strict=True) if want)
        elif operation.name == "scf.for":
            self._loop(operation, wanted)
        elif operation.name == "scf.if":
            self.needed.update(operation.operands[:1])
            for region in operation.regions:
                self.visit(region, wanted)
        else:
            self.needed.update(self._operands(operation, any(wanted)))
            for region in operation.regions:
                self.visit(region, None)

    def _loop(self, operation: Operation, wanted: Sequence[bool]) -> None:
        """Follow bounds always, and each carried value where it is needed.

        The body or a later operation may need it.
        """
        carried = _CARRIED.search(operation.text)
        pairs = [part.split(" = ") for part in split_top(carried[1])] if carried else []
        used = [want or name.strip() in self.needed for want, (name, _) in zip(wanted, pairs, strict=True)]
        self.needed.update(start.strip() for use, (_, start) in zip(used, pairs, strict=True) if use)
        bounds = operation.text[: carried.start()] if carried else operation.text
        self.needed.update(re.findall(r"%[\w.$#-]+", bounds.partition(" = ")[2]))
        self.visit(operation.regions[0], used)

    @staticmethod
    def _operands(operation: Operation, wanted: bool) -> list[str]:
        operands = list(operation.operands)
        if operation.name in STORED_OPERAND:
            del operands[STORED_OPERAND[operation.name]]
        elif operation.name == "tt.load" and not wanted:
            del operands[DEFAULT_OPERAND:]
        return operands
