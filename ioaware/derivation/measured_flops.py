"""Count the FLOPs of a measured target by deriving it.

Its least time then has arithmetic.
"""

from __future__ import annotations

from dataclasses import replace

from ioaware.compilation.triton_ir import gpu_or_machines
from ioaware.derivation.derive import derive
from ioaware.errors import IoawareError
from ioaware.measurement.time_bounds import has_flops, machine_of, with_bounds, with_flops
from ioaware.result import BYTES_HOLD, Result
from ioaware.targets.target import load_target

NO_FLOPS = "the least time leaves arithmetic out: FLOPs are not known"


def with_derived_flops(result: Result) -> Result:
    """Return a measured record with FLOPs and least times.

    A case has FLOPs by its closed form. Another target is derived at the same parameters and in the same configurations; where
    that is refused, a note says why. Records without a time or of a GPU without a preset stay as they are.
    """
    machine = machine_of(result)
    if machine is None or result.time_ns is None or result.status not in BYTES_HOLD or has_flops(result):
        return result
    gpu = gpu_or_machines(None, machine)
    try:
        derived = derive(load_target(result.target), result.params, gpu=gpu, autotune=result.tuning, machine_code=False)
    except IoawareError as error:
        why = str(error).splitlines()[0]
    else:
        found = with_flops(result, derived)
        if found is not result:
            return with_bounds(found)
        why = "a kernel's FLOPs depend on data, or another configuration ran"
    return replace(result, notes=(*result.notes, f"{NO_FLOPS} ({why})"))
