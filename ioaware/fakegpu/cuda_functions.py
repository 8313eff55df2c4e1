"""Replace functions of torch.cuda, torch.accelerator and Triton's driver."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import torch

from ioaware._monkeypatch import Patches
from ioaware.errors import UsageError
from ioaware.fakegpu.cubin import resources
from ioaware.fakegpu.cuda_stand_in import BLOCK_THREADS, StandIn
from ioaware.fakegpu.host_tensors import CPU, CUDA

Call = Callable[..., Any]


def on_cpu(value: Any) -> Any:
    """Map a CUDA device to the CPU; return anything else unchanged."""
    return CPU if isinstance(value, torch.device) and value.type == "cuda" else value


def named_on_cpu(value: Any) -> Any:
    """Map like `on_cpu`, where a string or an index can only mean a device."""
    names_cuda = isinstance(value, str) and value.partition(":")[0] == "cuda"
    return CPU if names_cuda or type(value) is int else on_cpu(value)


class CudaGenerator(torch.Generator):
    """`torch.Generator(device="cuda")` on the CPU.

    A subclass, so that torch accepts it.
    """

    def __new__(cls, device: Any = CPU) -> Any:
        new: Any = super().__new__  # its stub has no device
        return new(cls, named_on_cpu(device))


class DefaultGenerator(CudaGenerator):
    """Default generator of the GPU with the state of Philox.

    The state is seed and offset, two 64-bit integers in 16 bytes.
    """

    _state: torch.Tensor | None = None

    def get_state(self) -> torch.Tensor:
        """Return the 16 bytes of seed and offset."""
        if self._state is None:
            return torch.tensor((self.initial_seed(), 0), dtype=torch.int64, device=CPU).view(torch.uint8)
        return self._state.clone()

    def set_state(self, new_state: torch.Tensor) -> torch.Generator:
        """Set seed and offset; their values are not read, since a derivation has none."""
        self._state = new_state.clone()
        return self


class _Stream:
    """A fake stream or event, for which waiting does nothing.

    Work is complete when the call returns.
    """

    cuda_stream = 0
    device = CUDA

    def __init__(self, *_: Any, **__: Any) -> None: ...

    def _nothing(self, *_: Any, **__: Any) -> None: ...

    record = synchronize = wait = wait_stream = wait_event = _nothing

    def record_event(self, event: _Stream | None = None) -> _Stream:
        """Return the event, or a new one."""
        return event or _Stream()

    def query(self) -> bool:
        """Return True: all work is complete."""
        return True

    def is_capturing(self) -> bool:
        """Return False: no graph is recorded."""
        return False

    def elapsed_time(self, *_: Any) -> float:
        """Raise `UsageError`: without a GPU there is no time."""
        raise _timing_error("measures time")


def _timing_error(action: str) -> UsageError:
    return UsageError(f"the host function {action}, which has no meaning without a GPU", "Leave timing to ioaware measure.")


class _Device(nullcontext[None]):
    """A device or stream made current, of which there is one."""

    idx = prev_idx = CUDA.index

    def __init__(self, *_: Any, **__: Any) -> None:
        super().__init__()


def _unmeasured(*_: Any, **__: Any) -> Any:
    """Raise `UsageError`: these are readings of a GPU at work."""
    raise UsageError(
        "the host function reads the GPU's clock, power, temperature or load, which has no meaning without a GPU",
        "Leave readings to ioaware measure.",
    )


def _no_graphs(*_: Any, **__: Any) -> Any:
    """Raise `UsageError`: a graph is replayed by the driver, which is not there."""
    raise UsageError(
        "the host function records a CUDA graph, whose replays no run without a GPU sees",
        "Give the function that the graph records: its launches are those of one replay.",
    )


def torch_cuda(stand_in: StandIn) -> dict[str, Any]:
    """Return replacements in `torch.cuda` by name.

    Distinct objects, since torch keys tables by identity.
    """
    memory_bytes = stand_in.machine.level("hbm").capacity_bytes
    constants = {
        "is_available": True,
        "is_initialized": True,
        "is_bf16_supported": True,
        "is_current_stream_capturing": False,
        "current_device": CUDA.index,
        "device_count": 1,
        "get_arch_list": [f"sm_{stand_in.target.arch}"],
        "mem_get_info": (memory_bytes, memory_bytes),
        "is_tf32_supported": True,
        "can_device_access_peer": False,
        "get_sync_debug_mode": 0,
        "initial_seed": 0,
        **dict.fromkeys(("memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved"), 0),
        **dict.fromkeys(
            ("synchronize", "set_device", "empty_cache", "init", "manual_seed", "manual_seed_all", "seed", "seed_all")
        ),
        **dict.fromkeys(("reset_peak_memory_stats", "ipc_collect", "set_stream", "set_sync_debug_mode", "set_rng_state")),
        **dict.fromkeys(("set_per_process_memory_fraction", "check_error")),
    }
    return {
        **{name: always(value) for name, value in constants.items()},
        **{name: type(name, (_Device,), {}) for name in ("device", "device_of")},
        "stream": always(nullcontext()),
        **dict.fromkeys(("clock_rate", "temperature", "power_draw", "utilization"), _unmeasured),
        **dict.fromkeys(("memory_usage", "device_memory_used"), _unmeasured),
        **{name: always(_Stream()) for name in ("current_stream", "default_stream")},
        **{name: type(name, (_Stream,), {}) for name in ("Stream", "Event")},
        **dict.fromkeys(("CUDAGraph", "graph", "make_graphed_callables"), _no_graphs),
        "get_device_properties": stand_in.torch_properties,
        "get_device_capability": stand_in.torch_capability,
        "get_device_name": stand_in.torch_name,
        "get_rng_state": lambda *_, **__: torch.get_rng_state(),  # pyright: ignore[reportUnknownLambdaType]
        "default_generators": (DefaultGenerator(),),
    }


def torch_accelerator(stand_in: StandIn) -> dict[str, Any]:
    """Return replacements in `torch.accelerator` by name."""
    memory_bytes = stand_in.machine.level("hbm").capacity_bytes
    constants = {
        "is_available": True,
        "current_accelerator": torch.device("cuda"),
        "device_count": 1,
        **dict.fromkeys(("current_device_index", "current_device_idx"), CUDA.index),
        **dict.fromkeys(("synchronize", "set_device_index", "set_device_idx", "set_stream", "empty_cache")),
        "get_memory_info": (memory_bytes, memory_bytes),
        "current_stream": _Stream(),
    }
    return {name: always(value) for name, value in constants.items()}


def max_clocks(stand_in: StandIn) -> Call:
    """Return what replaces `triton.testing.nvsmi`.

    The highest clocks are known, the present ones are not.
    """

    def ask(names: list[str]) -> list[int]:
        try:
            return stand_in.nvidia_smi(names)
        except KeyError:
            return _unmeasured()

    return ask


def always(value: Any) -> Call:
    return lambda *_, **__: value  # pyright: ignore[reportUnknownLambdaType]


def replace_driver(stand_in: StandIn, patches: Patches) -> None:
    """Replace Triton's driver, which raises on a machine without a GPU."""
    from triton.runtime.driver import driver

    def benchmarker(*_: Any) -> Any:
        raise _timing_error("benchmarks a kernel")

    def load_binary(_name: str, cubin: bytes, _shared: int, _device: int) -> tuple[None, None, int, int, int]:
        """Return the driver's tuple of a loaded kernel.

        It holds module, function, registers, spilled words, and maximum threads per block.
        """
        registers, local_bytes = resources(cubin)
        return None, None, registers, local_bytes // 4, BLOCK_THREADS

    replacement = SimpleNamespace(
        is_active=always(value=True),
        get_current_target=stand_in.triton_target,
        get_active_torch_device=always(CUDA),
        get_current_device=always(0),
        set_current_device=always(None),
        get_current_stream=always(0),
        get_device_interface=always(torch.cuda),
        get_benchmarker=benchmarker,
        get_empty_cache_for_benchmark=benchmarker,
        launcher_cls=always(None),
        utils=SimpleNamespace(get_device_properties=stand_in.triton_properties, load_binary=load_binary),
    )
    patches.set(driver, "_active", replacement)
