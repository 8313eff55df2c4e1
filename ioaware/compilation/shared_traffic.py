"""Count the bytes of shared memory of a captured launch.

They are those of the code that the GPU would run.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from triton.backends.compiler import GPUTarget

from ioaware.analysis.ir.shared_memory import SCRATCH, SharedAccess, left_out, shared_accesses
from ioaware.compilation.launch_traffic import arguments_at
from ioaware.compilation.launches import CapturedLaunch
from ioaware.compilation.shared_allocation import with_scratch
from ioaware.compilation.triton_ir import compiled, compiled_ir, integer_at


@dataclass(frozen=True, slots=True)
class SharedTraffic:
    """What the operations of a launch move.

    `left_out` names those that are not among them.
    """

    accesses: tuple[SharedAccess, ...]
    left_out: tuple[str, ...] = ()


def shared_traffic(launch: CapturedLaunch, values: Mapping[str, int], gpu: GPUTarget) -> SharedTraffic:
    """Return what each operation of a launch moves into and out of shared memory.

    All programs at the given values are counted. Raises `UsageError` for what does not compile or has no rule.
    """
    ir = compiled_ir(launch, values, gpu)
    through_scratch = tuple(name for name in SCRATCH if re.search(rf"\b{re.escape(name)}\b", ir.text))
    marked = with_scratch(ir.text, gpu, compiled(launch, values, gpu).metadata.shared) if through_scratch else ir.text
    grid = [integer_at(size, values) for size in launch.grid]
    accesses = shared_accesses(marked or ir.text, arguments_at(ir, values), grid)
    return SharedTraffic(accesses, (*(() if marked else through_scratch), *left_out(ir.text)))
