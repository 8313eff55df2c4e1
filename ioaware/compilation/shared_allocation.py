"""Find the operations of a TTGIR that need scratch space in shared memory.

Triton marks each with `allocation.offset` where it places it. A conversion of layouts without the mark moves registers only.
"""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import Any

from triton._C import libtriton as _libtriton
from triton.backends.compiler import GPUTarget
from triton.compiler.compiler import make_backend

_native: Any = _libtriton
_TOTAL = re.compile(r"\bttg\.shared = (\d+) : i32")


def with_scratch(text: str, gpu: GPUTarget, shared_bytes: int) -> str | None:
    """Return the TTGIR with the scratch offset of each operation that has one.

    `shared_bytes` is what the machine code asks for. None where the pass is not there or arrives at another number.
    """
    if gpu.backend != "cuda":
        return None
    try:
        marked = _allocated(text, gpu)
    except (AttributeError, TypeError, RuntimeError):  # another Triton
        return None
    total = _TOTAL.search(marked)
    return marked if total is not None and int(total[1]) == shared_bytes else None


def _allocated(text: str, gpu: GPUTarget) -> str:
    from triton.backends.nvidia import compiler

    nvidia: Any = compiler
    backend: Any = make_backend(gpu)
    context = _native.ir.context()
    _native.ir.load_dialects(context)
    backend.load_dialects(context)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.ttgir"
        path.write_text(text, encoding="utf-8")
        module = _native.ir.parse_mlir_module(str(path), context)
    module.context = context
    passes = _native.ir.pass_manager(context)
    ptx: int = nvidia.get_ptx_version_from_options(backend.parse_options({}), gpu.arch)
    _native.nvidia.passes.ttgpuir.add_allocate_shared_memory_nv(passes, gpu.arch, ptx)
    passes.run(module, "allocate_shared_memory")
    return str(module)
