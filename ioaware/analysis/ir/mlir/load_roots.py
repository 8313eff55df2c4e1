"""Tell whether loads of a kernel could ever be one.

Two loads merge only if their pointers are one value. Values that an operation may turn into one another share a root here: a
pointer has that of the argument it comes from.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

from ioaware.analysis.ir.mlir.parser import Block, Operation, parse, split_top

LOAD = re.compile(r"\btt\.(?:descriptor_)?(?:load|gather)\b")
OF_FIRST_OPERAND = ("tt.addptr", "tt.make_tensor_ptr", "tt.make_tensor_descriptor", "tt.advance")
"""Operations whose result points where their first operand does.

The other operands are offsets, sizes and strides.
"""
NOT_FOLLOWED = re.compile(r"\b(?:cf|tt\.call|tt\.int_to_ptr|scf\.(?!for\b|if\b|yield\b)\w+)\b")
"""Operations after which a pointer may be any other."""
_CARRIED = re.compile(r"iter_args\((.*?)\)")


@lru_cache(maxsize=256)
def may_merge(text: str) -> bool:
    """Return whether two loads of the kernel with this IR have pointers of one root.

    True where the roots are unknown.
    """
    if len(LOAD.findall(text)) < 2:
        return False
    if NOT_FOLLOWED.search(text):
        return True
    roots = _Roots()
    for function in parse(text).functions.values():
        for region in function.regions:
            roots.visit(region, [])
    found = [roots.of(pointer) for pointer in roots.loaded]
    return len(set(found)) < len(found)


class _Roots:
    """Sets of values that may become one another."""

    def __init__(self) -> None:
        self.loaded: list[str] = []
        """The pointer of each load."""
        self._parents: dict[str, str] = {}

    def of(self, value: str) -> str:
        """Return the value that stands for the set of this one."""
        while (parent := self._parents.get(value, value)) != value:
            value = parent
        return value

    def visit(self, blocks: Sequence[Block], results: Sequence[str]) -> None:
        """Follow the operations of a region, whose yielded values become `results`."""
        for operation in (operation for block in blocks for operation in block.operations):
            if LOAD.fullmatch(operation.name):
                self.loaded.append(operation.operands[0])
            elif operation.name == "scf.yield":
                self._join_each(operation.operands, results)
            elif operation.name == "scf.if":
                for region in operation.regions:
                    self.visit(region, operation.results)
            elif operation.name == "scf.for":
                self._loop(operation)
            elif operation.name in OF_FIRST_OPERAND:
                self._join([*operation.results, operation.operands[0]])
            elif operation.results and not operation.name.startswith("tt.atomic"):
                self._join([*operation.results, *operation.operands])
                for region in operation.regions:
                    self.visit(region, operation.results)

    def _loop(self, operation: Operation) -> None:
        """Follow each value that a loop carries.

        Its start, its name in the body and its result are one.
        """
        carried = _CARRIED.search(operation.text)
        pairs = [part.split(" = ") for part in split_top(carried[1])] if carried else []
        for result, pair in zip(operation.results, pairs, strict=True):
            self._join([result, *(value.strip() for value in pair)])
        for region in operation.regions:
            self.visit(region, operation.results)

    def _join_each(self, values: Sequence[str], others: Sequence[str]) -> None:
        for pair in zip(values, others, strict=bool(others)):
            self._join(pair)

    def _join(self, values: Iterable[str]) -> None:
        first, *others = map(self.of, values)
        self._parents |= {other: first for other in others if other != first}
