"""Find the shared memory that a TTGIR needs.

Its operations with scratch space there are found too.

Triton marks each with `allocation.offset` where it places it. An operation without the mark moves registers only. A fold
(`tt.reduce`, `tt.scan`) keeps the partial results of its warps there: their bytes are what Triton gives a kernel of that fold
alone, added as `allocation.size`.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from triton._C import libtriton as _libtriton
from triton.backends.compiler import GPUTarget
from triton.compiler.compiler import make_backend

from ioaware.analysis.ir.mlir.parser import split_top

_native: Any = _libtriton
_TOTAL = re.compile(r"\bttg\.shared = (\d+) : i32")
_FOLD = re.compile(r'= "(tt\.(?:reduce|scan))"\([^<]*<\{(.*)\}> \(\{')
_FOLDED = re.compile(r"\}\) \{(allocation\.offset = \d+ : i32)\} : \((.*)\) -> (.*?)(?: loc\(.*)?$")


def with_scratch(text: str, gpu: GPUTarget, shared_bytes: int) -> str | None:
    """Return the TTGIR with the scratch offset of each operation that has one.

    `shared_bytes` is what the machine code asks for. None where the pass is not there or arrives at another number.
    """
    if gpu.backend != "cuda":
        return None
    try:
        marked = _allocated(text, gpu)
        return _with_sizes(marked, gpu) if _total(marked) == shared_bytes else None
    except (AttributeError, TypeError, RuntimeError):  # another Triton
        return None


def _total(marked: str) -> int:
    found = _TOTAL.search(marked)
    if found is None:
        raise RuntimeError("the pass says no size")
    return int(found[1])


def _with_sizes(marked: str, gpu: GPUTarget) -> str:
    """Return the marked TTGIR with the scratch bytes of each fold beside its offset."""
    top = [line for line in marked.splitlines() if line.startswith(("#", "module")) and not line.startswith("#loc")]
    sizes: dict[tuple[str, str, str, str], int] = {}
    lines: list[str] = []
    name, attributes = "", ""
    for line in marked.splitlines():
        if fold := _FOLD.search(line):
            name, attributes = fold[1], fold[2]
        folded = _FOLDED.search(line)
        if folded is not None:
            key = (name, attributes, folded[2], folded[3])
            if key not in sizes:
                sizes[key] = _total(_allocated(_alone(top, *key), gpu))
            lines.append(line.replace(folded[1], f"{folded[1]}, allocation.size = {sizes[key]} : i32", 1))
        else:
            lines.append(line)
    return "\n".join(lines)


def _alone(top: list[str], name: str, attributes: str, operands: str, results: str) -> str:
    """Return a module with one function, which holds that fold alone."""
    tiles = split_top(operands)
    elements = [re.sub(r"^tensor<(?:\d+x)+(.*?)(?:, #.*)?>$", r"\1", tile) for tile in tiles]
    names = [f"%a{number}" for number in range(len(tiles))]
    left, right = ([f"%{side}{number}" for number in range(len(tiles))] for side in "xy")
    types = [f"{one}: {kind}" for one, kind in zip((*left, *right), (*elements, *elements), strict=True)]
    return "\n".join((
        *(line for line in top if line.startswith("#")),
        _TOTAL.sub("ttg.alone = 0 : i32", next(line for line in top if line.startswith("module"))),
        f"tt.func public @alone({', '.join(f'{one}: {tile}' for one, tile in zip(names, tiles, strict=True))}) {{",
        f'%r:{len(tiles)} = "{name}"({", ".join(names)}) <{{{attributes}}}> ({{',
        f"^bb0({', '.join(types)}):",
        f"{name}.return {', '.join(left)} : {', '.join(elements)}",
        f"}}) : ({operands}) -> {results}",
        "tt.return",
        "}",
        "}",
    ))  # fmt: skip


def shared_bytes(text: str, gpu: GPUTarget) -> int | None:
    """Return the bytes of shared memory that a program of this TTGIR needs.

    Machine code is not made for it. None where the kernel keeps no tensor there, and where the passes are not there.
    """
    if gpu.backend != "cuda" or "ttg.local_alloc" not in text:
        return None
    passes = _native.passes
    try:
        before = (
            passes.ttgpuir.add_combine_tensor_select_and_if,
            passes.ttgpuir.add_allocate_warp_groups,
            passes.convert.add_scf_to_cf,
            passes.gluon.add_inliner,
        )
        return _total(_allocated(text, gpu, before))
    except (AttributeError, TypeError, RuntimeError):  # another Triton
        return None


def _allocated(text: str, gpu: GPUTarget, before: Sequence[Callable[[Any], None]] = ()) -> str:
    """Return the TTGIR after the allocation.

    The passes of `before` run first.
    """
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
    for add in before:
        add(passes)
    ptx: int = nvidia.get_ptx_version_from_options(backend.parse_options({}), gpu.arch)
    _native.nvidia.passes.ttgpuir.add_allocate_shared_memory_nv(passes, gpu.arch, ptx)
    passes.run(module, "allocate_shared_memory")
    return str(module)
