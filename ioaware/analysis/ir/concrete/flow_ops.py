"""Run loops, branches, calls, reductions and scans at given values."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np

from ioaware.analysis.ir.concrete.access_ops import GLOBAL_ACCESS
from ioaware.analysis.ir.concrete.interpreter_state import Handler, Opaque, Run, Value
from ioaware.analysis.ir.concrete.lane_ops import attribute
from ioaware.analysis.ir.concrete.tally import UnsupportedOperationError
from ioaware.analysis.ir.mlir.parser import Block, Operation, split_top


def _fold(run: Run, operation: Operation) -> None:
    """Reduce or scan along an axis, by its region, one element after the other."""
    operands = run.operands(operation)
    if not all(isinstance(value, np.ndarray) for value in operands):
        run.opaque(operation)
        return
    axis, block = attribute(operation, "axis"), operation.regions[0][0]
    names = [name for name, _ in block.arguments]
    lines = [np.moveaxis(value, axis, 0) for value in operands if isinstance(value, np.ndarray)]
    order = range(len(lines[0]))[::-1] if "reverse = true" in operation.text else range(len(lines[0]))
    states: list[list[Value]] = []
    for at in order:
        here: list[Value] = [np.asarray(line[at]) for line in lines]
        if states:
            run.values.update(zip(names, (*states[-1], *here), strict=True))
            here = run.blocks(operation.regions[0])
        states.append(here)
    if not all(isinstance(value, np.ndarray) for value in states[-1]):
        run.opaque(operation)
    elif operation.name == "tt.reduce":
        run.set(operation, *states[-1])
    else:
        states = states[::-1] if "reverse = true" in operation.text else states
        run.set(operation, *(np.moveaxis(np.stack(list(column)), 0, axis) for column in zip(*states, strict=True)))  # type: ignore[arg-type]


_FOR = re.compile(r"(?:unsigned )?(%[\w.$-]+) = (%[\w.$#-]+) to (%[\w.$#-]+) step (%[\w.$#-]+)(?: iter_args\((.*?)\))?")


def _for(run: Run, operation: Operation) -> None:
    found = _FOR.match(operation.text)
    if not found:
        raise UnsupportedOperationError(operation.name)
    low, high, step = (run.integer(found[at], operation) for at in (2, 3, 4))
    kind = run.array(run.value(found[2]), operation).dtype
    pairs = [part.split(" = ") for part in split_top(found[5] or "")]
    carried = [run.value(value.strip()) for _, value in pairs]
    if step <= 0 and low < high:
        raise UnsupportedOperationError(f"a loop of step {step}")
    for at in range(low, high, step) if step > 0 else ():
        run.values[found[1]] = np.array(at, kind)
        run.values.update(zip((name for name, _ in pairs), carried, strict=True))
        carried = run.blocks(operation.regions[0])
    run.set(operation, *carried)


_CALLEE = re.compile(r"@([\w.$-]+|\"[^\"]*\")")


COUNTED = ("tt.load", "tt.store", "tt.atomic", "tt.descriptor", "tt.dot", "scf.while", "ttng.", "ttg.async_copy", "ttg.warp_sp")
"""How the names of operations begin that are counted, or decide what is."""


def _is_free(run: Run, blocks: Sequence[Block]) -> bool:
    """Return whether nothing in these blocks is counted.

    It then does not matter whether they run.
    """

    def free(inner: Operation) -> bool:
        if inner.name == "tt.call":
            name = _CALLEE.search(inner.text)
            return name is not None and all(_is_free(run, body) for body in run.module.functions[name[1]].regions)
        if inner.name.startswith(COUNTED) or (inner.name == "tt.elementwise_inline_asm" and GLOBAL_ACCESS.search(inner.text)):
            return False
        return all(_is_free(run, region) for region in inner.regions)

    return all(free(inner) for block in blocks for inner in block.operations)


def _if(run: Run, operation: Operation) -> None:
    if isinstance(run.value(operation.operands[0]), Opaque) and all(_is_free(run, region) for region in operation.regions):
        skipped = run.blocks(operation.regions[0]) if operation.results else []
        run.set(operation, *(Opaque(getattr(value, "shape", ())) for value in skipped))
        return
    region = 0 if run.integer(operation.operands[0], operation) else 1
    run.set(operation, *(run.blocks(operation.regions[region]) if region < len(operation.regions) else []))


def _while(run: Run, operation: Operation) -> None:
    found = re.match(r"\((.*?)\) : ", operation.text)
    pairs = [part.split(" = ") for part in split_top(found[1])] if found else []
    carried = [run.value(value.strip()) for _, value in pairs]
    names = [name for name, _ in operation.regions[1][0].arguments]
    while True:
        run.values.update(zip((name for name, _ in pairs), carried, strict=True))
        truth, *passed = run.blocks(operation.regions[0])
        if not int(run.array(truth, operation)):
            break
        run.values.update(zip(names, passed, strict=True))
        carried = run.blocks(operation.regions[1])
    run.set(operation, *passed)


def _call(run: Run, operation: Operation) -> None:
    name = _CALLEE.search(operation.text)
    if name is None:
        raise UnsupportedOperationError(operation.name)
    run.set(operation, *run.call(name[1], run.operands(operation)))


HANDLERS: Mapping[str, Handler] = {
    "scf.for": _for, "scf.if": _if, "scf.while": _while, "tt.call": _call, "tt.reduce": _fold, "tt.scan": _fold,
}  # fmt: skip
