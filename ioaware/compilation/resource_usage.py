"""Find registers and shared memory of launches from machine code.

It is compiled in background threads.

Lowering to machine code is C++ and ptxas, outside Python: threads do it while formulas are derived. Results are cached on disk
by the kernel's IR, its specialisation and the compiler.
"""

from __future__ import annotations

import io
import os
import re
import zlib
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, redirect_stdout, suppress
from dataclasses import astuple, dataclass
from types import TracebackType
from typing import Any, TypeAlias, cast

from triton.backends.compiler import GPUTarget
from triton.backends.nvidia import compiler as _ptxas_stage

from ioaware import disk_cache
from ioaware._monkeypatch import Patches
from ioaware.compilation.instructions.compiled_loads import CompiledLoad, compiled_loads
from ioaware.compilation.instructions.line_sharing import SharedLines, shared_lines, with_waits
from ioaware.compilation.instructions.narrow_stores import NarrowStore, narrow_stores
from ioaware.compilation.instructions.waits import AfterWaits
from ioaware.compilation.instructions.wide_copies import WideCopy, wide_copies
from ioaware.compilation.launch_limits import most_shared_bytes
from ioaware.compilation.launches import CapturedLaunch
from ioaware.compilation.shared_allocation import shared_bytes
from ioaware.compilation.toolchain import toolchain
from ioaware.compilation.triton_ir import cache_ir_text, compile_errors, compiled, fresh_ir, integer_at, specialise
from ioaware.fakegpu.cubin import resources

ptxas_stage: Any = _ptxas_stage


@dataclass(frozen=True, slots=True)
class Resources:
    """Shared memory per program in bytes.

    Registers and local memory per thread (None where they are not known).
    """

    shared_bytes: int
    registers: int | None
    local_bytes: int | None
    """Local memory of a thread: where registers spill to."""
    narrow_stores: tuple[NarrowStore, ...] = ()
    """Stores whose instructions share sectors."""
    loads: tuple[CompiledLoad, ...] | None = None
    """Loads, and how they use the L1; None where the compiler makes no PTX."""
    copies: tuple[WideCopy, ...] = ()
    """Copies past the L1 whose instructions fetch sectors more than once."""
    lines: tuple[SharedLines, ...] = ()
    """Accesses whose instructions may share lines of the L1."""
    cubin: bytes = b""
    """Machine code of a kernel that spills registers; empty for others."""


class MachineCode:
    """Compile the launches given to `start` in threads.

    The threads end with the block, and `of` waits for one.

    stdout is dropped inside the block: Triton prints ptxas errors there, with the whole program. So is what its stage for ptxas
    prints, since host code that runs meanwhile has a stdout of its own.
    """

    def __init__(self, gpu: GPUTarget) -> None:
        self._gpu = gpu
        self._compiler = toolchain(gpu)
        self._muted = ExitStack()
        self._threads = ThreadPoolExecutor(max_workers=os.cpu_count() or 1)
        self._launches: list[CapturedLaunch] = []
        self._pending: dict[_Key, Future[Resources]] = {}

    def __enter__(self) -> MachineCode:
        self._muted.enter_context(redirect_stdout(io.StringIO()))
        muted = self._muted.enter_context(Patches())
        muted.add(ptxas_stage, "print", lambda *_, **__: None)  # pyright: ignore[reportUnknownLambdaType]
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._threads.shutdown(cancel_futures=True)
        self._muted.close()

    def start(self, launches: Sequence[CapturedLaunch]) -> None:
        """Start to compile launches without symbols, in order.

        Those that are cached are excepted.
        """
        self._launches = list(launches)
        if self._compiler is None:
            return
        for launch in launches:  # `of` reports a failure, unless compiling for the formula did so first
            with suppress(Exception), compile_errors(launch.name, launch.file, self._gpu):
                work = _Lowering(launch, self._gpu, self._compiler)
                if work.key not in resource_cache and work.key not in self._pending and not disk_cache.load(work.name()):
                    self._pending[work.key] = self._threads.submit(work.prepared())

    def of(self, at: int, text: str) -> Resources:
        """Return the resources of the launch with this index; `text` is its IR.

        Raises `UsageError`.
        """
        launch = self._launches[at]
        if self._compiler is None:
            return resources_by_triton(launch, {}, self._gpu)
        with compile_errors(launch.name, launch.file, self._gpu):
            work = _Lowering(launch, self._gpu, self._compiler)
            if work.key not in resource_cache:
                if len(resource_cache) >= RESOURCE_CACHE_SIZE:
                    resource_cache.clear()
                resource_cache[work.key] = self._cached_or_compiled(work, text)
            return resource_cache[work.key]

    def _cached_or_compiled(self, work: _Lowering, text: str) -> Resources:
        if work.key not in self._pending:
            match disk_cache.load(work.name(text)):
                case [
                    int(shared_bytes),
                    int() | None as registers,
                    int() | None as local_bytes,
                    [*narrow],
                    ([*_] | None) as loads,
                    [*copies],
                    [*lines],
                    str(cubin),
                ]:
                    stores = tuple(
                        NarrowStore(line, aligned, unaligned, tuple(by_start))
                        for line, aligned, unaligned, by_start in cast(Any, narrow)
                    )
                    known = None if loads is None else tuple(CompiledLoad(*load) for load in cast(Any, loads))
                    wide = tuple(WideCopy(*copy) for copy in cast(Any, copies))
                    shared = tuple(
                        SharedLines(kind, where, tuple(by_start), AfterWaits(*waits))
                        for kind, where, by_start, waits in cast(Any, lines)
                    )
                    code = zlib.decompress(b64decode(cubin))
                    return Resources(shared_bytes, registers, local_bytes, stores, known, wide, shared, code)
                case _:
                    self._pending[work.key] = self._threads.submit(work.prepared())
        made = self._pending.pop(work.key).result()
        packed = b64encode(zlib.compress(made.cubin)).decode()
        disk_cache.store(work.name(text), [*astuple(made)[:-1], packed])
        disk_cache.store(work.name(), True)
        return made


_Key: TypeAlias = tuple[str, ...]
RESOURCE_CACHE_SIZE = 1024
resource_cache: dict[_Key, Resources] = {}


class _Lowering:
    """Compilation of one launch to machine code."""

    def __init__(self, launch: CapturedLaunch, gpu: GPUTarget, compiler: str) -> None:
        self._source, self._options, self._backend = specialise(launch, lambda expr: integer_at(expr, {}), {}, gpu)
        self._gpu = gpu
        self.key = (self._source.hash(), str(self._options), compiler)

    def name(self, text: str = "") -> str:
        """Return the name of the disk-cache entry.

        Without IR, the name of a marker that an entry probably exists.

        Why the IR is part of it: Triton's source hash does not cover everything that the IR depends on.
        """
        return disk_cache.cache_key(("machine code, waits 3", *self.key, text))

    def prepared(self) -> Callable[[], Resources]:
        """Run the Python part of the compilation now, and return the rest for a thread.

        Why: in a thread it would interfere with the patches under which host code runs.
        """
        code, context = fresh_ir(self._source, self._options, self._backend, self._gpu)
        stages: dict[str, Callable[[Any, Any], Any]] = {}
        self._backend.add_stages(stages, self._options, self._source.language)

        def lowered() -> Resources:
            made, alive = code, context
            metadata: dict[str, Any] = {"target": self._gpu, **self._options.__dict__}
            registers = local_bytes = None
            texts: dict[str, str] = {}
            for name, stage in stages.items():
                made = stage(made, metadata)
                if name in ("ttgir", "ptx"):
                    texts[name] = str(made)
                if name == self._source.ext:
                    cache_ir_text(self._source, self._options, self._gpu, str(made))
                if name == "ttgir" and (needed := shared_bytes(texts[name], self._gpu) or 0) > most_shared_bytes(self._gpu):
                    return Resources(needed, None, None)  # machine code that is never launched takes minutes
                if name == "ptx" and (registers := registers_declared(made)):
                    break
            else:
                registers, local_bytes = resources(made) if self._gpu.backend == "cuda" else (None, None)
            del alive
            cubin = made if isinstance(made, bytes) else b""
            return Resources(
                int(metadata["shared"]), registers, local_bytes, *_accesses(texts, cubin), cubin=cubin if local_bytes else b""
            )

        return lowered


def registers_declared(ptx: str) -> int | None:
    """Return `.maxnreg` of a Hopper kernel that uses setmaxnreg (PTX ISA).

    None for any other kernel.

    Registers per thread at launch are then `.maxnreg`, and ptxas is not needed.
    """
    declared = re.search(r"^\.maxnreg (\d+)$", ptx, re.MULTILINE)
    return int(declared[1]) if declared and "\tsetmaxnreg." in ptx and ".target sm_90a" in ptx else None


def resources_by_triton(launch: CapturedLaunch, values: Mapping[str, int], gpu: GPUTarget) -> Resources:
    """Return the resources of a launch at the given values.

    It is compiled by `triton.compile` itself.
    """
    kernel = compiled(launch, values, gpu)
    registers, local_bytes = resources(kernel.asm["cubin"]) if gpu.backend == "cuda" else (None, None)
    cubin: bytes = kernel.asm.get("cubin", b"")
    return Resources(
        int(kernel.metadata.shared), registers, local_bytes, *_accesses(kernel.asm, cubin), cubin=cubin if local_bytes else b""
    )


def _accesses(
    texts: Mapping[str, str], cubin: bytes
) -> tuple[tuple[NarrowStore, ...], tuple[CompiledLoad, ...] | None, tuple[WideCopy, ...], tuple[SharedLines, ...]]:
    """Return what `Resources` has of the kernel's stores and loads."""
    if not {"ttgir", "ptx"} <= texts.keys():
        return (), None, (), ()
    ttgir, ptx = texts["ttgir"], texts["ptx"]
    loads = compiled_loads(ttgir, ptx)
    return narrow_stores(ttgir, ptx), loads, wide_copies(ttgir, ptx), with_waits(shared_lines(ttgir, ptx), loads, cubin)
