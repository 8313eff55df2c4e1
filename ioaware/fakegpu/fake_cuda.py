"""Answer CUDA host code without a GPU.

It allocates on the CPU and sees the properties of an H200.

A torch function mode redirects each call to torch: device `cuda` becomes the CPU, `tensor.device` is `cuda:0`. Functions of
`torch.cuda` and Triton's driver, which a mode cannot intercept, are replaced inside the block.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import torch
import torch.autograd as autograd
import torch.utils.checkpoint as checkpoint
from torch._library.triton import set_wrap_triton_enabled
from torch.overrides import TorchFunctionMode
from torch.utils import _device as _torch_device

from ioaware._monkeypatch import Patches, unpatched
from ioaware.errors import UsageError
from ioaware.fakegpu.autocast import autocast_on_cpu
from ioaware.fakegpu.cubin import resources
from ioaware.fakegpu.host_caller import is_library
from ioaware.fakegpu.host_tensors import CPU, CUDA, HostTensors, host_work

# NVIDIA H200. SMs and L2 bytes are those that its driver reports. Shared memory, registers and threads are those of compute
# capability 9.0 (CUDA C++ Programming Guide, technical specifications per compute capability). Memory is the data sheet's.
SM_COUNT, L2_BYTES, MEMORY_BYTES = 132, 60 * 2**20, 141 * 10**9
SHARED_BYTES_PER_BLOCK, SHARED_BYTES_PER_SM, REGISTERS = 232_448, 233_472, 65_536
THREADS, BLOCK_THREADS, WARP = 2048, 1024, 32
CAPABILITY = (9, 0)
CUDA_VERSION = "12.8"
CUDNN_VERSION = 91002
"""That of torch's wheels for CUDA 12.8: nvidia-cudnn-cu12 9.10.2."""
NAME = "NVIDIA H200"


@dataclass
class StandIn:
    """Record of what depends on the GPU in a run, for the notes of the result.

    It is the properties that host code read, and choices that need a GPU's times.
    """

    queries: set[str] = field(default_factory=set[str])
    choices: set[str] = field(default_factory=set[str])
    differences: set[str] = field(default_factory=set[str])
    """Why a GPU may run other kernels than those of this run."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Return notes of properties that were read, choices and differences.

        Its choices may depend on the properties.
        """
        read = f"the host function read the GPU's properties and saw an {NAME} with {SM_COUNT} SMs"
        return (*([read] if self.queries else []), *sorted(self.choices | self.differences))

    def torch_properties(self, *_: Any) -> SimpleNamespace:
        """`torch.cuda.get_device_properties`."""
        self.queries.add("properties")
        return SimpleNamespace(
            name=NAME,
            major=CAPABILITY[0],
            minor=CAPABILITY[1],
            multi_processor_count=SM_COUNT,
            total_memory=MEMORY_BYTES,
            L2_cache_size=L2_BYTES,
            warp_size=WARP,
            max_threads_per_multi_processor=THREADS,
            regs_per_multiprocessor=REGISTERS,
            shared_memory_per_block=48 * 1024,
            shared_memory_per_block_optin=SHARED_BYTES_PER_BLOCK,
            shared_memory_per_multiprocessor=SHARED_BYTES_PER_SM,
            is_integrated=False,
            is_multi_gpu_board=False,
        )

    def triton_properties(self, *_: Any) -> dict[str, int]:
        """`triton.runtime.driver.active.utils.get_device_properties`."""
        self.queries.add("properties")
        return {
            "max_shared_mem": SHARED_BYTES_PER_BLOCK,
            "max_num_regs": REGISTERS,
            "multiprocessor_count": SM_COUNT,
            "warpSize": WARP,
        }


@contextmanager
def cuda_on_cpu(host_tensors: HostTensors | None = None, stand_in: StandIn | None = None) -> Generator[StandIn]:
    """Make host code inside the block see one GPU while its tensors are on the CPU.

    All of them seem to be the GPU's, or all but those in `host_tensors`, where new ones are added. What
    depends on the GPU is noted in `stand_in`.

    Everything is restored on leaving. Kernels wrapped for torch.compile (`torch.library.wrap_triton`) launch directly.
    """
    stand_in = stand_in or StandIn()
    mode = _Redirect(host_tensors)
    with Patches() as patches, mode, set_wrap_triton_enabled(False), autocast_on_cpu():
        for name, value in _torch_cuda(stand_in).items():
            if hasattr(torch.cuda, name):
                patches.set(torch.cuda, name, value)
        patches.set(_Tensor, "record_stream", _always(None))  # its stream is not torch's
        _replace_storages(host_tensors, patches)
        if host_tensors:
            _follow_unseen(host_tensors, patches)
        for name, value in _torch_accelerator().items():
            if hasattr(torch.accelerator, name):
                patches.set(torch.accelerator, name, value)
        for name in ("range_push", "range_pop", "mark", "range_start", "range_end"):
            patches.set(torch.cuda.nvtx, name, _always(None))
        patches.set(torch.version, "cuda", CUDA_VERSION)
        patches.set(torch.backends.cuda, "is_built", _always(value=True))
        patches.set(torch.backends.cudnn, "is_available", _always(value=True))
        patches.set(torch.backends.cudnn, "version", _always(CUDNN_VERSION))
        patches.set(torch, "Generator", _Generator)
        patches.set(checkpoint, "_allowed_determinism_checks_to_fns", {"default": _metadata, "none": _always(None)})
        _follow_into_backward(mode, patches)
        _replace_driver(stand_in, patches)
        patches.set(native, "_log_api_usage_once", _load_compiler)
        yield stand_in


def _load_compiler(event: str) -> None:
    """Load the compiler with the real functions.

    It keeps tables of them, also after the block. `torch.compile` calls this first.
    """
    if event == "torch.compile" and COMPILER not in sys.modules:
        with unpatched():
            import_module(COMPILER)
    log_api_usage(event)


def on_cpu(value: Any) -> Any:
    """Map a CUDA device to the CPU; return anything else unchanged."""
    return CPU if isinstance(value, torch.device) and value.type == "cuda" else value


def _named_on_cpu(value: Any) -> Any:
    """Map like `on_cpu`, where a string or an index can only mean a device."""
    names_cuda = isinstance(value, str) and value.partition(":")[0] == "cuda"
    return CPU if names_cuda or type(value) is int else on_cpu(value)


Call = Callable[..., Any]
_Tensor: Any = torch.Tensor
torch_device: Any = _torch_device
native: Any = torch._C  # pyright: ignore[reportPrivateUsage]
log_api_usage: Call = native._log_api_usage_once
COMPILER = "torch._dynamo.convert_frame"

# Results of tensor methods and attribute getters that would reveal the CPU, for tensors of the GPU and of the host.
PLACES: dict[Any, tuple[Any, Any]] = {
    _Tensor.is_cuda.__get__: (True, False),
    _Tensor.is_cpu.__get__: (False, True),
    _Tensor.device.__get__: (CUDA, CPU),
    _Tensor.get_device: (CUDA.index, -1),
}
PLAIN_STORAGE: dict[str, Any] = {name: getattr(torch.UntypedStorage, name) for name in ("device", "is_cuda")}
SAME_TENSOR = frozenset({_Tensor.cuda, _Tensor.pin_memory})


class _Redirect(TorchFunctionMode):
    """Redirect allocations to the CPU.

    A mode is inactive in Python code below a torch function: see `_follow_into_backward`.
    """

    def __init__(self, host_tensors: HostTensors | None) -> None:
        super().__init__()
        self._host = host_tensors

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        named = kwargs or {}
        if func in PLACES:
            on_gpu, on_host = PLACES[func]
            return on_host if self._host and self._host.asked(args[0]) else on_gpu
        if func is _Tensor.is_pinned and self._host:
            return self._host.is_pinned(args[0])
        if func is _Tensor.type and len(args) == 1 and not named:
            return func(*args).replace("torch.", "torch." if self._host and self._host.asked(args[0]) else "torch.cuda.")
        if func in (torch.device, native._nn._parse_to):
            return func(*args, **named)
        if self._host:
            return self._host.call(func, args, named, lambda: _redirected(func, args, named))
        return _redirected(func, args, named)


def _redirected(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a function of torch with the CPU in place of the GPU."""
    if func in SAME_TENSOR:
        return args[0]
    named = {name: _named_on_cpu(value) if name == "device" else on_cpu(value) for name, value in kwargs.items()}
    named.pop("pin_memory", None)
    if func in torch_device._device_constructors():  # else torch.set_default_device would apply below this mode
        named["device"] = named.get("device") or CPU
    convert = _named_on_cpu if func is _Tensor.to else on_cpu
    return func(*map(convert, args), **named)


def _replace_storages(host_tensors: HostTensors | None, patches: Patches) -> None:
    """Let the memory of a tensor be on the GPU too, to host code."""

    def answering(name: str, on_gpu: Any, on_host: Any) -> property:
        def answer(storage: Any) -> Any:
            asks = sys._getframe(1).f_code.co_filename  # pyright: ignore[reportPrivateUsage]
            memory = getattr(storage, "_untyped_storage", storage)
            if is_library(asks):
                return PLAIN_STORAGE[name].__get__(memory)
            return on_host if host_tensors and host_tensors.asked_storage(memory) else on_gpu

        return property(answer)

    for kind in (torch.UntypedStorage, torch.TypedStorage):
        patches.set(kind, "device", answering("device", CUDA, CPU))
        patches.set(kind, "is_cuda", answering("is_cuda", on_gpu=True, on_host=False))


def _follow_unseen(host_tensors: HostTensors, patches: Patches) -> None:
    """Note where tensors are that no mode sees made.

    They are parameters, and those in memory of NumPy.
    """

    def make(kind: Any, data: Any = None, requires_grad: bool = True) -> Any:
        made = plain(kind, data, requires_grad)
        host_tensors.follow(data, made)
        return made

    plain: Call = patches.set(torch.nn.Parameter, "__new__", staticmethod(make))
    for name in ("from_numpy", "frombuffer"):
        patches.set(torch, name, host_tensors.adding(getattr(torch, name)))


def _metadata(tensor: torch.Tensor) -> dict[str, Any]:
    """Return what a checkpoint's recomputation has to agree in.

    The device is left out: C++ code sees it as the CPU.
    """
    return {"shape": tensor.shape, "dtype": tensor.dtype}


class _Generator(torch.Generator):
    """`torch.Generator(device="cuda")` on the CPU.

    A subclass, so that torch accepts it.
    """

    def __new__(cls, device: Any = CPU) -> Any:
        new: Any = super().__new__  # its stub has no device
        return new(cls, _named_on_cpu(device))


class _DefaultGenerator(_Generator):
    """Default generator of the GPU with the state of Philox.

    The state is seed and offset, two 64-bit integers in 16 bytes.
    """

    _state: torch.Tensor | None = None

    def get_state(self) -> torch.Tensor:
        """Return the 16 bytes of seed and offset."""
        if self._state is None:
            return torch.tensor((0, 0), dtype=torch.int64, device=CPU).view(torch.uint8)
        return self._state.clone()

    def set_state(self, new_state: torch.Tensor) -> torch.Generator:
        """Set seed and offset; their values are not read, since a derivation has none."""
        self._state = new_state.clone()
        return self


def _follow_into_backward(mode: _Redirect, patches: Patches) -> None:
    """Enter the mode again in backward functions: Python code below `Tensor.backward`."""

    def run_backward(*args: Any, **kwargs: Any) -> Any:
        with mode, host_work(is_host=False):
            return plain(*args, **kwargs)

    plain: Call = patches.set(autograd, "_engine_run_backward", run_backward)


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


def _no_graphs(*_: Any, **__: Any) -> Any:
    """Raise `UsageError`: a graph is replayed by the driver, which is not there."""
    raise UsageError(
        "the host function records a CUDA graph, whose replays no run without a GPU sees",
        "Give the function that the graph records: its launches are those of one replay.",
    )


def _torch_cuda(stand_in: StandIn) -> dict[str, Any]:
    """Return replacements in `torch.cuda` by name.

    Distinct objects, since torch keys tables by identity.
    """
    constants = {
        "is_available": True,
        "is_initialized": True,
        "is_bf16_supported": True,
        "is_current_stream_capturing": False,
        "current_device": CUDA.index,
        "device_count": 1,
        "get_device_name": NAME,
        "get_device_capability": CAPABILITY,
        "get_arch_list": [f"sm_{CAPABILITY[0]}{CAPABILITY[1]}"],
        "mem_get_info": (MEMORY_BYTES, MEMORY_BYTES),
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
        **{name: _always(value) for name, value in constants.items()},
        **{name: _always(nullcontext()) for name in ("device", "device_of", "stream")},
        **{name: _always(_Stream()) for name in ("current_stream", "default_stream")},
        **{name: type(name, (_Stream,), {}) for name in ("Stream", "Event")},
        **dict.fromkeys(("CUDAGraph", "graph", "make_graphed_callables"), _no_graphs),
        "get_device_properties": stand_in.torch_properties,
        "get_rng_state": lambda *_, **__: torch.get_rng_state(),  # pyright: ignore[reportUnknownLambdaType]
        "default_generators": (_DefaultGenerator(),),
    }


def _torch_accelerator() -> dict[str, Any]:
    """Return replacements in `torch.accelerator` by name."""
    constants = {
        "is_available": True,
        "current_accelerator": torch.device("cuda"),
        "device_count": 1,
        **dict.fromkeys(("current_device_index", "current_device_idx"), CUDA.index),
        **dict.fromkeys(("synchronize", "set_device_index", "set_device_idx", "set_stream", "empty_cache")),
        "get_memory_info": (MEMORY_BYTES, MEMORY_BYTES),
        "current_stream": _Stream(),
    }
    return {name: _always(value) for name, value in constants.items()}


def _always(value: Any) -> Call:
    return lambda *_, **__: value  # pyright: ignore[reportUnknownLambdaType]


def _replace_driver(stand_in: StandIn, patches: Patches) -> None:
    """Replace Triton's driver, which raises on a machine without a GPU."""
    from triton.backends.compiler import GPUTarget
    from triton.runtime.driver import driver

    def benchmarker(*_: Any) -> Any:
        raise _timing_error("benchmarks a kernel")

    def load_binary(_name: str, cubin: bytes, _shared: int, _device: int) -> tuple[None, None, int, int, int]:
        """Return the driver's tuple of a loaded kernel.

        It holds module, function, registers, spilled words, and maximum threads per block.
        """
        registers, local_bytes = resources(cubin)
        return None, None, registers, local_bytes // 4, BLOCK_THREADS

    target = GPUTarget("cuda", CAPABILITY[0] * 10 + CAPABILITY[1], WARP)
    replacement = SimpleNamespace(
        is_active=_always(value=True),
        get_current_target=_always(target),
        get_active_torch_device=_always(CUDA),
        get_current_device=_always(0),
        set_current_device=_always(None),
        get_current_stream=_always(0),
        get_device_interface=_always(torch.cuda),
        get_benchmarker=benchmarker,
        get_empty_cache_for_benchmark=benchmarker,
        launcher_cls=_always(None),
        utils=SimpleNamespace(get_device_properties=stand_in.triton_properties, load_binary=load_binary),
    )
    patches.set(driver, "_active", replacement)
