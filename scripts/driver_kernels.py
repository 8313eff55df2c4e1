"""Launch kernels of PTX or machine code by the CUDA driver."""

# pyright: basic
from __future__ import annotations

import ctypes
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import torch

from ioaware.compilation.toolchain import knobs

LANES = 32
REGISTERS_OF_A_FUNCTION = 4
"""The driver's number of this attribute, CU_FUNC_ATTRIBUTE_NUM_REGS."""


class Kernel:
    """Kernel of PTX or of a cubin with one parameter, a pointer."""

    def __init__(self, code: str | bytes, name: str) -> None:
        self.module, self.function = ctypes.c_void_p(), ctypes.c_void_p()
        _done(_driver().cuModuleLoadData(ctypes.byref(self.module), code.encode() if isinstance(code, str) else code))
        _done(_driver().cuModuleGetFunction(ctypes.byref(self.function), self.module, name.encode()))

    @property
    def registers(self) -> int:
        """Registers of a thread."""
        found = ctypes.c_int()
        _done(_driver().cuFuncGetAttribute(ctypes.byref(found), REGISTERS_OF_A_FUNCTION, self.function))
        return found.value

    def launch(self, data: torch.Tensor, programs: int, warps: int, shared_bytes: int = 0) -> None:
        """Launch programs of so many warps and bytes of dynamic shared memory."""
        pointer = ctypes.c_void_p(data.data_ptr())
        given = (ctypes.c_void_p * 1)(ctypes.addressof(pointer))
        shape = (programs, 1, 1, LANES * warps, 1, 1)
        _done(_driver().cuLaunchKernel(self.function, *shape, shared_bytes, None, given, None))


def assembled(ptx: str, architecture: str = "sm_90") -> bytes:
    """Return the machine code of PTX, by the assembler that Triton brings."""
    with tempfile.TemporaryDirectory() as folder:
        source, made = Path(folder) / "kernel.ptx", Path(folder) / "kernel.cubin"
        source.write_text(ptx)
        given = [knobs.nvidia.ptxas.path, f"-arch={architecture}", source, "-o", made]
        subprocess.run(given, check=True, capture_output=True)  # noqa: S603 - Triton's
        return made.read_bytes()


@cache
def _driver() -> Any:
    return ctypes.CDLL("libcuda.so.1")


def _done(code: int) -> None:
    """Raise where the driver answers anything but success."""
    if code:
        raise RuntimeError(f"the CUDA driver answers {code}: see CUresult in cuda.h")
