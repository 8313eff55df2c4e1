"""Find out whether a memory access of a kernel depends on an integer argument.

The seed of a dropout is an argument on which none does.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from triton.backends.compiler import GPUTarget

from ioaware.analysis.ir.interpreter.symbolic_interpreter import function_parameters
from ioaware.analysis.ir.mlir.address_slice import address_values
from ioaware.analysis.ir.mlir.parser import parse
from ioaware.compilation.launches import CapturedLaunch
from ioaware.compilation.triton_ir import first_ir
from ioaware.errors import IoawareError


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
