"""Interpret TTIR plainly at given values.

Every program and iteration runs, on numpy arrays of lanes.

It counts independently of the symbolic engine and shares only the parser with it. Integers have their width and wrap around.
Floats are not computed: an address, mask or bound that depends on one is undecided.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Mapping, Sequence
from math import prod

import numpy as np

from ioaware.analysis.ir.concrete import access_ops, flow_ops, gluon_ops, lane_ops
from ioaware.analysis.ir.concrete.interpreter_state import Handler, Run, Value
from ioaware.analysis.ir.concrete.tally import Memory, Tally, TooLongError
from ioaware.analysis.ir.mlir.parser import Module, Operation, parse
from ioaware.analysis.ir.mlir.types import result_types

MAX_STEPS = 400_000
"""Most operations of one launch."""


def interpret(
    text: str,
    given: Sequence[Value],
    grid: Sequence[int],
    memory: Memory,
    max_steps: int = MAX_STEPS,
    seconds: float = math.inf,
) -> Tally:
    """Return the requests of a launch.

    `given` holds a value for each parameter of its function. `seconds` is the most CPU time of the interpretation.

    Raises `UndecidedError` where the result depends on unknown data, `UnsupportedOperationError`, and `TooLongError` that
    names the limit and the number of programs that were interpreted.
    """
    deadline = time.thread_time() + seconds
    module = parse(text)
    name, _ = public_function(module)
    sizes = (*grid, 1, 1, 1)[:3]
    run = Run(module, memory, sizes, max_steps, deadline, HANDLERS)
    with np.errstate(all="ignore"):
        for done, program in enumerate(itertools.product(*map(range, sizes))):
            run.program = program
            try:
                run.call(name, given)
            except TooLongError as error:
                limit = f"{max_steps:,} operations" if run.left < 0 else "the CPU time of the check"
                raise TooLongError(f"{limit} ended after {done:,} of {prod(sizes):,} programs") from error
    return run.tally


def public_function(module: Module) -> tuple[str, Operation]:
    """Return the kernel among the functions of a module."""
    return next((n, f) for n, f in module.functions.items() if "private" not in f.text.split("@")[0])


def _dot(run: Run, operation: Operation) -> None:
    result = result_types(operation.types)[0]
    shape: tuple[int, ...] = getattr(run.operands(operation)[0], "shape", ())
    inner = shape[-1] if shape else 1
    packed = 2 if "lhs = e2m1" in operation.text and "lhs_k_pack = false" not in operation.text else 1
    run.tally.flops += 2 * prod(result.shape) * inner * packed
    run.opaque(operation)


def _nothing(run: Run, operation: Operation) -> None:
    """Skip printing, assertions, barriers and hints."""


HANDLERS: Mapping[str, Handler] = {
    **lane_ops.HANDLERS,
    **access_ops.HANDLERS,
    **flow_ops.HANDLERS,
    **gluon_ops.HANDLERS,
    **dict.fromkeys(("tt.dot", "tt.dot_scaled"), _dot),
    **dict.fromkeys(("tt.print", "tt.assert", "gpu.barrier", "llvm.intr.assume", "tt.debug_barrier", "nvvm."), _nothing),
    **dict.fromkeys(("ttg.barrier", "tt.grid_dependency_wait", "tt.grid_dependency_launch_dependents"), _nothing),
    **dict.fromkeys(
        ("tt.fp_to_fp", "tt.clampf", "tt.precise_sqrt", "tt.precise_divf", "tt.extern_elementwise", "ub.poison"),
        Run.opaque,
    ),
}
