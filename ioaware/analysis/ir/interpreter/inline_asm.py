"""Interpret inline assembly: one PTX instruction on global memory.

An example is `red.global.add.v4.f32 [$4], {...}`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from ioaware.analysis.ir.accesses.kernel_traffic import AccessKind
from ioaware.analysis.ir.accesses.values import Target
from ioaware.analysis.ir.algebra.poly import ONE, ZERO
from ioaware.analysis.ir.interpreter.pure_ops import NO_RULE
from ioaware.analysis.ir.interpreter.symbolic_interpreter import Handler, Interpreter
from ioaware.analysis.ir.mlir.parser import Operation
from ioaware.analysis.ir.mlir.types import result_types

KINDS: Mapping[str, AccessKind] = {"ld": "read", "st": "write", "red": "atomic", "atom": "atomic"}
INSTRUCTION = re.compile(r"\b(ld|st|red|atom)\.((?:[A-Za-z][\w:]*\.)*?)(?:v([248])\.)?[a-z]+(\d+)\b")
"""PTX instructions on memory: kind, space, modifiers, vector width, element bits.

The space is the state space, and the bits are those of one element.
"""
PREFETCH = re.compile(r"\bprefetchu?\b")
"""Instructions that move lines from HBM, and no element to a register."""


def _inline_assembly(walk: Interpreter, operation: Operation) -> None:
    """Record the access of inline assembly; its results are unknown.

    One instruction on global memory must cover all elements that it takes at a time. Its first operand is the address:
    pointers, or integers for atomics, which have no sector count.
    """
    text = re.sub(r"\\[0-9A-Fa-f]{2}", " ", operation.text)  # a line's end is printed as \0A
    if PREFETCH.search(text):
        raise walk.unsupported(operation, "assembly that prefetches: how many bytes reach the L2 is not known")
    found = [one for one in INSTRUCTION.findall(text) if "shared" not in one[1]]
    if found:
        address, (name, _, vector, bits) = walk.operands(operation)[0], found[0]
        packed = re.search(r"packed_element = (\d+)", operation.text)
        whole = len(found) == 1 and int(vector or 1) == int(packed[1] if packed else 1)
        known = address.type.is_pointer or (KINDS[name], address.type.element) == ("atomic", "i64")
        if not whole or not known:
            raise walk.unsupported(operation, "assembly with memory accesses that its text does not determine")
        for target in address.targets or (Target("assembly", ZERO),):
            frames = walk.frames(operation)
            walk.record.touch(KINDS[name], operation.name, target, address.type.shape, int(bits) // 8, ONE, frames)
    typed = operation if operation.types else replace(operation, text=operation.text.replace("} ->", "} : ->"))  # no operands
    for name, result in zip(operation.results, result_types(typed.types), strict=True):
        walk.values[name] = walk.unknown(replace(typed, results=[name]), result, NO_RULE)


HANDLERS: Mapping[str, Handler] = {"tt.elementwise_inline_asm": _inline_assembly}
