"""What launches use of the chip, registers and shared memory, read from the machine code that is made of them meanwhile.

To lower a kernel to machine code takes a second of C++ and ptxas, which need no Python: threads do it while formulas are made.
What was found is kept on disk, by the kernel's IR, what it is specialised to, and the compiler.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, redirect_stdout, suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any, TypeAlias

from triton.backends.compiler import GPUTarget

from ioaware import disk_cache
from ioaware.compilation.launches import CapturedLaunch
from ioaware.compilation.toolchain import toolchain
from ioaware.compilation.triton_ir import clear_failure, compiled, fresh_ir, integer_at, keep_text, specialised
from ioaware.fakegpu.cubin import resources


@dataclass(frozen=True, slots=True)
class Resources:
    """What a program of the kernel uses: bytes of shared memory, registers a thread (None for a GPU not NVIDIA's)."""

    shared_bytes: int
    registers: int | None


class MachineCode:
    """Inside the block the launches given to `start` are lowered; `of` waits for one of them. No thread outlives the block.

    Triton prints on stdout what ptxas refuses: for the length of the block nothing is printed.
    """

    def __init__(self, gpu: GPUTarget) -> None:
        self._gpu = gpu
        self._compiler = toolchain(gpu)
        self._muted = ExitStack()
        self._threads = ThreadPoolExecutor(max_workers=os.cpu_count() or 1)
        self._launches: list[CapturedLaunch] = []
        self._begun: dict[_Key, Future[Resources]] = {}

    def __enter__(self) -> MachineCode:
        self._muted.enter_context(redirect_stdout(io.StringIO()))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._threads.shutdown(cancel_futures=True)
        self._muted.close()

    def start(self, launches: Sequence[CapturedLaunch]) -> None:
        """Launches of plain numbers, in order. What may be known from another time is not begun."""
        self._launches = list(launches)
        if self._compiler is None:
            return
        for launch in launches:  # a failure is told by `of`, if the kernel's compilation for its formula did not tell it before
            with suppress(Exception), clear_failure(launch, self._gpu):
                work = _Lowering(launch, self._gpu, self._compiler)
                if work.key not in known and work.key not in self._begun and not disk_cache.load(work.name()):
                    self._begun[work.key] = self._threads.submit(work.prepared())

    def of(self, at: int, text: str) -> Resources:
        """Of the launch with this index; `text` is its IR. Raises `UsageError` where it does not compile."""
        launch = self._launches[at]
        if self._compiler is None:
            return chip_use(launch, {}, self._gpu)
        with clear_failure(launch, self._gpu):
            work = _Lowering(launch, self._gpu, self._compiler)
            if work.key not in known:
                if len(known) >= KNOWN:
                    known.clear()
                known[work.key] = self._found(work, text)
            return known[work.key]

    def _found(self, work: _Lowering, text: str) -> Resources:
        if work.key not in self._begun:
            match disk_cache.load(work.name(text)):
                case [int(shared_bytes), int() | None as registers]:
                    return Resources(shared_bytes, registers)
                case _:
                    self._begun[work.key] = self._threads.submit(work.prepared())
        found = self._begun.pop(work.key).result()
        disk_cache.store(work.name(text), [found.shared_bytes, found.registers])
        disk_cache.store(work.name(), True)
        return found


_Key: TypeAlias = tuple[str, ...]
KNOWN = 1024
known: dict[_Key, Resources] = {}


class _Lowering:
    """The way of one launch to machine code."""

    def __init__(self, launch: CapturedLaunch, gpu: GPUTarget, compiler: str) -> None:
        self._source, self._options, self._backend = specialised(launch, lambda expr: integer_at(expr, {}), {}, gpu)
        self._gpu = gpu
        self.key = (self._source.hash(), str(self._options), compiler)

    def name(self, text: str = "") -> str:
        """By which it is kept: Triton's hash of a kernel's source does not see all that its IR follows from, so that the IR
        itself is part of it. Without IR the name of a sign that it has been lowered before, and is probably kept."""
        return disk_cache.cache_key(("machine code", *self.key, text))

    def prepared(self) -> Callable[[], Resources]:
        """Does Python's part here and now, where neither host code sees it at work, nor it what host code is told of a GPU;
        returns the rest, for a thread."""
        code, context = fresh_ir(self._source, self._options, self._backend, self._gpu)
        stages: dict[str, Callable[[Any, Any], Any]] = {}
        self._backend.add_stages(stages, self._options, self._source.language)

        def lowered() -> Resources:
            made, alive = code, context
            metadata: dict[str, Any] = {"target": self._gpu, **self._options.__dict__}
            registers = None
            for name, stage in stages.items():
                made = stage(made, metadata)
                if name == self._source.ext:
                    keep_text(self._source, self._options, self._gpu, str(made))
                if name == "ptx" and (registers := registers_declared(made)):
                    break
            else:
                registers = resources(made)[0] if self._gpu.backend == "cuda" else None
            del alive
            return Resources(int(metadata["shared"]), registers)

        return lowered


def registers_declared(ptx: str) -> int | None:
    """Of a kernel for Hopper whose warpgroups exchange registers: a thread's at launch are what `.maxnreg` says, and no
    assembler has to be asked (PTX ISA, setmaxnreg). None of any other kernel."""
    found = re.search(r"^\.maxnreg (\d+)$", ptx, re.MULTILINE)
    return int(found[1]) if found and "\tsetmaxnreg." in ptx and ".target sm_90a" in ptx else None


def chip_use(launch: CapturedLaunch, values: Mapping[str, int], gpu: GPUTarget) -> Resources:
    """Shared memory and registers of the launch at the given values, all of it by Triton's own hand."""
    kernel = compiled(launch, values, gpu)
    registers = resources(kernel.asm["cubin"])[0] if gpu.backend == "cuda" else None
    return Resources(int(kernel.metadata.shared), registers)
