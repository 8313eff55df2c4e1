"""Answer host code's questions about the GPU.

The answers are those of the GPU that kernels are compiled for. What its compute capability does not decide is of the first
machine with that capability, by default of an H200.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Generator, Iterable
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from types import FrameType, SimpleNamespace
from typing import Any

from triton.backends.compiler import GPUTarget

from ioaware.fakegpu.host_caller import is_library
from ioaware.machine import DEFAULT_MACHINE, PRESETS, Machine
from ioaware.machine.occupancy import RESERVED_SHARED_BYTES, SMALLER_SMS, WARPS_PER_SM

BLOCK_THREADS, WARP, REGISTERS = 1024, 32, 65_536
"""Threads of a program and of a warp, and registers of an SM.

Source: CUDA C++ Programming Guide, technical specifications per compute capability.
"""
CUDA_VERSION = "12.8"
CUDNN_VERSION = 91002
"""That of torch's wheels for CUDA 12.8: nvidia-cudnn-cu12 9.10.2."""
BUS_BITS = {"A100": 5120, "H100": 5120, "H200": 6016, "B200": 8192, "L40S": 384, "RTX4090": 384}
"""Widths of the memory bus, from data sheets; the H200's as NVML reports it."""
DEFAULT_GPU = GPUTarget("cuda", DEFAULT_MACHINE.compute_capability, WARP)
_seen: ContextVar[GPUTarget | None] = ContextVar("_seen", default=None)
_seen_at_import: dict[str, tuple[int, set[str]]] = {}
"""What a module saw of GPUs while it was imported, by its name.

Why: its constants are of these. Beside it is the identity of the module's variables: a file that is loaded anew is another
module of the same name.
"""


@contextmanager
def imports_see(gpu: GPUTarget) -> Generator[None]:
    """Let modules that are imported inside the block see this GPU."""
    token = _seen.set(gpu)
    try:
        yield
    finally:
        _seen.reset(token)


@dataclass
class StandIn:
    """Record of what depends on the GPU in a run, for the notes of the result.

    It is the properties that host code read, and choices that need a GPU's times.
    """

    gpu: GPUTarget = field(default_factory=lambda: _seen.get() or DEFAULT_GPU)
    queries: set[str] = field(default_factory=set[str])
    choices: set[str] = field(default_factory=set[str])
    differences: set[str] = field(default_factory=set[str])
    """Why a GPU may run other kernels than those of this run."""

    @property
    def machine(self) -> Machine:
        """Return the machine whose numbers host code sees."""
        return _machine(self.gpu) or DEFAULT_MACHINE

    @property
    def capability(self) -> tuple[int, int]:
        """Return the compute capability, as `(9, 0)`."""
        return divmod(self.target.arch, 10)

    @property
    def target(self) -> Any:
        """Return the GPU as Triton's driver names it."""
        return self.gpu if self.gpu.backend == "cuda" else DEFAULT_GPU

    @property
    def notes(self) -> tuple[str, ...]:
        """Return notes of properties that were read, choices and differences.

        Its choices may depend on the properties.
        """
        read = f"the host function read the GPU's properties and saw an {self.machine.device} with {self.machine.sms} SMs"
        return (*([read] if self.queries else []), *sorted(self.choices | self.differences))

    def imported_for_others(self, modules: Iterable[dict[str, Any]]) -> tuple[str, ...]:
        """Return a note where one of these modules saw another GPU when it was imported.

        They are given by their variables.
        """
        found = [(variables, _seen_at_import.get(variables.get("__name__", ""))) for variables in modules]
        seen_there = [seen[1] for variables, seen in found if seen and seen[0] == id(variables)]
        others = set[str]().union(*seen_there) - {_name(self.gpu)}
        return tuple(
            f"a module asked for the GPU when it was imported, and saw {seen}, not {_name(self.gpu)}" for seen in sorted(others)
        )

    def torch_capability(self, *_: Any) -> tuple[int, int]:
        """`torch.cuda.get_device_capability`."""
        self._note_question()
        return self.capability

    def torch_name(self, *_: Any) -> str:
        """`torch.cuda.get_device_name`."""
        self._note_question()
        return self.machine.device

    def triton_target(self) -> Any:
        """`triton.runtime.driver.active.get_current_target`."""
        self._note_question()
        return self.target

    def torch_properties(self, *_: Any) -> SimpleNamespace:
        """`torch.cuda.get_device_properties`."""
        self._note_properties()
        numbers, machine = self._numbers(), self.machine
        return SimpleNamespace(
            name=machine.device,
            major=self.capability[0],
            minor=self.capability[1],
            multi_processor_count=machine.sms,
            total_memory=machine.level("hbm").capacity_bytes,
            L2_cache_size=machine.level("l2").capacity_bytes,
            warp_size=WARP,
            max_threads_per_multi_processor=WARP * SMALLER_SMS.get(self.target.arch, (WARPS_PER_SM,))[0],
            regs_per_multiprocessor=REGISTERS,
            shared_memory_per_block=48 * 1024,
            shared_memory_per_block_optin=numbers["max_shared_mem"],
            shared_memory_per_multiprocessor=machine.level("shared").capacity_bytes,
            is_integrated=False,
            is_multi_gpu_board=False,
            memory_clock_rate=numbers["mem_clock_rate"],
            memory_bus_width=numbers["mem_bus_width"],
            **({"clock_rate": numbers["sm_clock_rate"]} if "sm_clock_rate" in numbers else {}),
        )

    def triton_properties(self, *_: Any) -> dict[str, int]:
        """`triton.runtime.driver.active.utils.get_device_properties`."""
        self._note_properties()
        return self._numbers()

    def nvidia_smi(self, names: Collection[str]) -> list[int]:
        """`triton.testing.nvsmi`: the highest clocks in MHz, by their names.

        Raises `KeyError` for other names: those are readings of a GPU at work.
        """
        numbers = self.triton_properties()
        sm, memory = numbers["sm_clock_rate"] // 1000, numbers["mem_clock_rate"] // 1000
        clocks = {"clocks.max.sm": sm, "clocks.max.graphics": sm, "clocks.max.memory": memory, "clocks.max.mem": memory}
        return [clocks[name] for name in names]

    def _numbers(self) -> dict[str, int]:
        """Return numbers under the names of Triton's driver, clocks in kHz."""
        machine, bus = self.machine, BUS_BITS[self.machine.name]
        shared, memory = machine.level("shared"), machine.level("hbm")
        clock = shared.bandwidth_bytes_per_s
        return {
            "max_shared_mem": shared.capacity_bytes - RESERVED_SHARED_BYTES,
            "max_num_regs": REGISTERS,
            "multiprocessor_count": machine.sms,
            "warpSize": WARP,
            "mem_clock_rate": round((memory.bandwidth_bytes_per_s or 0) * 8 / 2 / bus / 1000),
            "mem_bus_width": bus,
            **({} if clock is None else {"sm_clock_rate": round(clock / 128 / 1000)}),
        }

    def _note_properties(self) -> None:
        self.queries.add("properties")
        known = _machine(self.gpu) is not None
        self._note_question(_name(self.target) if known else f"the properties of an {DEFAULT_MACHINE.device}")

    def _note_question(self, saw: str = "") -> None:
        """Note a question about the GPU, and the modules that are being imported.

        A capability without a machine has the default one's properties; so has any GPU that is not CUDA's.
        """
        saw = saw or _name(self.target)
        if saw != _name(self.gpu):
            self.differences.add(f"the host function asked for the GPU, and saw {saw}, not {_name(self.gpu)}")
        frame: FrameType | None = sys._getframe(2)  # pyright: ignore[reportPrivateUsage]
        while frame is not None:
            if frame.f_code.co_name == "<module>" and not is_library(frame.f_code.co_filename):
                name, own = str(frame.f_globals.get("__name__")), id(frame.f_globals)
                known, earlier = _seen_at_import.get(name, (own, set[str]()))
                _seen_at_import[name] = own, {saw, *(earlier if known == own else ())}
            frame = frame.f_back


def _name(gpu: GPUTarget) -> str:
    return f"{gpu.backend}:{gpu.arch}"


def _machine(gpu: GPUTarget) -> Machine | None:
    """Return the machine with the GPU's compute capability, the default one first."""
    if gpu.backend != "cuda":
        return None
    machines = (DEFAULT_MACHINE, *PRESETS.values())
    return next((machine for machine in machines if machine.compute_capability == gpu.arch), None)
