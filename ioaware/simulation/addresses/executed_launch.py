"""Replay a launch at the addresses that it has on the data of the target.

Where tensors that host code built decide addresses or how often a loop runs, no expression gives them. The launch is executed
on these tensors instead, and each access lies where it lay then.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence

from triton.backends.compiler import GPUTarget

from ioaware.analysis.ir.accesses.access_log import Touch
from ioaware.compilation.execution.executed_accesses import Instruction
from ioaware.compilation.execution.program_values import INVENTED, Moved
from ioaware.compilation.execution.without_data import execute_launch
from ioaware.compilation.launches import CapturedLaunch
from ioaware.simulation.addresses.executed_streams import ExecutedLaunch


def executed_launch(
    event: CapturedLaunch,
    values: Mapping[str, int],
    gpu: GPUTarget,
    moved: Moved | str | None,
    touches: Sequence[Touch],
    arguments: Collection[str],
) -> ExecutedLaunch | None:
    """Execute a launch on the contents that it has read.

    Its accesses are found among `touches`. None where contents are unknown, where it is too long, or where an access is to no
    argument.
    """
    if not isinstance(moved, Moved) or moved.caveat == INVENTED or not moved.contents:
        return None
    accesses = execute_launch(event, values, gpu, moved.contents)
    numbers = _numbers(accesses.instructions, touches) if accesses else None
    if accesses is None or numbers is None or any(one.tensor not in arguments for one in accesses.instructions):
        return None
    return ExecutedLaunch(numbers, tuple(accesses.runs), accesses.work)


def _numbers(instructions: Sequence[Instruction], touches: Sequence[Touch]) -> tuple[int, ...] | None:
    """Return the number of each instruction's access; None where one has none.

    Instructions of one line to one tensor are matched in order, the last with all that are left.
    """
    alike: dict[Instruction, list[int]] = defaultdict(list)
    for number, touch in enumerate(touches):
        key = Instruction(touch.operation, touch.kind, touch.target.argument, touch.frames[:1], touch.element_bytes)
        alike[key].append(number)
    found: list[int] = []
    for one in instructions:
        key = Instruction(one.operation, one.kind, one.tensor, one.frames[:1], one.element_bytes)
        if not (left := alike[key]):
            return None
        found.append(left[0] if len(left) == 1 else left.pop(0))
    return tuple(found)
