"""Count the bytes of shared memory of a captured launch.

They are those of the code that the GPU would run.
"""

from __future__ import annotations

from collections.abc import Mapping

from triton.backends.compiler import GPUTarget

from ioaware.analysis.ir.shared_memory import SharedAccess, shared_accesses
from ioaware.compilation.launch_traffic import arguments_at
from ioaware.compilation.launches import CapturedLaunch
from ioaware.compilation.triton_ir import compiled_ir, integer_at


def shared_traffic(launch: CapturedLaunch, values: Mapping[str, int], gpu: GPUTarget) -> tuple[SharedAccess, ...]:
    """Return what each operation of a launch moves into and out of shared memory.

    All programs at the given values are counted. Raises `UsageError` for what does not compile or has no rule.
    """
    ir = compiled_ir(launch, values, gpu)
    return shared_accesses(ir.text, arguments_at(ir, values), [integer_at(size, values) for size in launch.grid])
