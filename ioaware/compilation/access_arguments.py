"""Find out whether the memory accesses of a kernel depend on an integer argument.

They do not on the seed of a dropout.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from triton.backends.compiler import GPUTarget

from ioaware.analysis.ir.interpreter.symbolic_interpreter import function_parameters
from ioaware.analysis.ir.mlir.address_slice import address_values
from ioaware.analysis.ir.mlir.parser import parse
from ioaware.compilation.launch_traffic import kernel_traffic
from ioaware.compilation.launches import CapturedLaunch
from ioaware.compilation.triton_ir import first_ir
from ioaware.errors import IoawareError

TOTALS = ("read_bytes", "write_bytes", "atomic_bytes", "read_sector_bytes", "write_sector_bytes", "flops")


def same_accesses(launch: CapturedLaunch, others: Mapping[str, Any], values: Mapping[str, int], gpu: GPUTarget) -> bool:
    """Return whether a launch moves the same bytes with other integers.

    `others` has them by the names of their arguments. The code may be another one for them: their width is part of it.
    """
    changed = replace(launch, arguments={**launch.arguments, **others})
    if any(accesses_depend_on(each, name, values, gpu) for each in (launch, changed) for name in others):
        return False
    if first_ir(launch, values, gpu).text == first_ir(changed, values, gpu).text:
        return True
    try:
        one, other = (kernel_traffic(each, values, gpu) for each in (launch, changed))
    except IoawareError:
        return False
    return all(getattr(one, total) == getattr(other, total) for total in TOTALS)


def accesses_depend_on(launch: CapturedLaunch, name: str, values: Mapping[str, int], gpu: GPUTarget) -> bool:
    """Return whether an address, mask, loop bound or branch may depend on an argument.

    It may on one that the compiler made a constant, as 1, and where the kernel does not compile.
    """
    try:
        ir = first_ir(launch, values, gpu)
    except IoawareError:
        return True
    names = [parameter for parameter, _ in ir.parameters]
    needed = _needed_parameters(ir.text)
    return name not in names or len(names) != len(needed) or needed[names.index(name)]


@lru_cache(maxsize=256)
def _needed_parameters(text: str) -> tuple[bool, ...]:
    """Return for each parameter of the kernel whether an access may depend on it."""
    public = next(one for one in parse(text).functions.values() if "private" not in one.text.split("@")[0])
    needed = address_values(public)
    return tuple(parameter in needed for parameter, _ in function_parameters(public))
