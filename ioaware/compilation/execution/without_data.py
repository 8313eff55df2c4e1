"""Execute a captured launch again, without data or on what it has read.

This is for launches where no formula has a rule for their bytes or addresses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

import numpy as np
from sympy import Expr
from triton.backends.compiler import GPUTarget

from ioaware.compilation.execution.executed_accesses import ExecutedAccesses
from ioaware.compilation.execution.integer_arithmetic import Array
from ioaware.compilation.execution.ir_execution import execute
from ioaware.compilation.execution.program_values import Moved, Pointer, UndeterminedError
from ioaware.compilation.launches import CapturedLaunch, TensorValue, Value, launch_at
from ioaware.compilation.triton_ir import first_ir, integer_at


def execute_without_data(launch: CapturedLaunch, values: Mapping[str, int], gpu: GPUTarget) -> Moved | None:
    """Return the bytes of a launch at these values.

    None where they depend on data or on an operation without a rule.
    """
    return _executed(launch, values, gpu, {})


def execute_launch(
    launch: CapturedLaunch, values: Mapping[str, int], gpu: GPUTarget, contents: Mapping[str, Array]
) -> ExecutedAccesses | None:
    """Return where a launch accesses memory that reads these contents.

    None where they depend on other data, on an operation without a rule, or are too many.
    """
    accesses = ExecutedAccesses(prod(integer_at(extent, values) for extent in launch.grid))
    return accesses if _executed(launch, values, gpu, contents, accesses) else None


def _executed(
    launch: CapturedLaunch,
    values: Mapping[str, int],
    gpu: GPUTarget,
    contents: Mapping[str, Array],
    accesses: ExecutedAccesses | None = None,
) -> Moved | None:
    launch = launch_at(launch, values)
    ir = first_ir(launch, values, gpu)
    parameters = [(name, _parameter(name, value, values)) for name, value in ir.parameters]
    try:
        grid = [integer_at(extent, values) for extent in launch.grid]
        return execute(ir.text, parameters, grid, contents, storage_sizes(ir.parameters, values), accesses)
    except (UndeterminedError, ValueError, KeyError, IndexError, TypeError, AttributeError, StopIteration):
        return None


def storage_sizes(parameters: Sequence[tuple[str, Value]], values: Mapping[str, int]) -> dict[str, int]:
    """Return the bytes of the storage of each tensor, by parameter of the IR."""
    tensors = [(name, value) for name, value in parameters if isinstance(value, TensorValue)]
    return {name: integer_at(tensor.storage_bytes, values) for name, tensor in tensors}


def _parameter(name: str, value: Value, values: Mapping[str, int]) -> int | Pointer | None:
    """Return a parameter of the IR as the execution takes it.

    None for a float or a descriptor.
    """
    if isinstance(value, TensorValue):
        return Pointer(name, np.asarray([integer_at(value.offset, values) * value.itemsize], np.int64))
    if isinstance(value, Expr):
        return integer_at(value, values)
    return int(value) if isinstance(value, int) else None
