"""Intercept Triton launches.

Arguments, grid and options are recorded as expressions of the parameters.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
import triton.language as _tl
from sympy import Expr
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils import dlpack
from triton.backends.compiler import GPUTarget
from triton.runtime import interpreter as _interpreter
from triton.runtime import jit as _jit

from ioaware._monkeypatch import Patches
from ioaware.capture.launched_kernel import LaunchedKernel, activate, deactivate
from ioaware.capture.parameter_names import ParameterNames
from ioaware.compilation.launch_limits import grid_limits
from ioaware.compilation.launches import (
    CapturedLaunch,
    DescriptorValue,
    Event,
    TensorValue,
    Value,
    is_tensor,
    items_of,
    launch_configuration,
    with_items,
)
from ioaware.compilation.triton_ir import first_ir
from ioaware.errors import UsageError
from ioaware.fakegpu.autotuning import (
    ConfigurationError,
    configuration_values,
    overrides_of,
    patch_autotuners,
    run_one_configuration,
)
from ioaware.fakegpu.host_tensors import ASK_FOR_HOST_CODE, CPU, CUDA, HostTensors
from ioaware.fakegpu.storages import strided_tensors
from ioaware.symints.host_line import user_line
from ioaware.symints.symbols import Symbols
from ioaware.symints.symint_methods import bit_length, symbolic_hash, symbolic_text
from ioaware.targets.loading import is_library

tl: Any = _tl
jit: Any = _jit
interpreter: Any = _interpreter

TORCH = str(Path(torch.__file__).parent)
STORAGE_SPACING = 2**44
ALIGNED = "tensors begin at multiples of 256 bytes"
"""Begin of the note for host code that may branch on an address.

CUDA's allocator gives such addresses, and views of others' memory may have other ones.
"""
"""Bytes between the fake addresses of storages.

They are never read; the alignment is that of CUDA's allocator.
"""


def _reported_device(tensor: Any, host_tensors: HostTensors | None) -> torch.device:
    """Return `cuda:0` to host code, and the real device to torch itself.

    The latter is that of the fake tensor.
    """
    asks = sys._getframe(2).f_code.co_filename  # pyright: ignore[reportPrivateUsage]
    if tensor.fake_mode.in_kernel_invocation:
        return torch.device("meta")
    if TORCH in asks and not asks.startswith(ASK_FOR_HOST_CODE):
        return tensor.fake_device
    return CPU if host_tensors and host_tensors.asked(tensor) else CUDA


def _no_dlpack(*_: Any, **__: Any) -> Any:
    """Raise `UsageError`: a fake tensor has no memory that another library could read."""
    raise UsageError(
        f"the host function hands the memory of a tensor to another library at {user_line()[0]}, and a derivation has none",
        "Trace the function.",
    )


class Interceptor:
    """Inside the `with` block, append each launch to `events` instead of running it."""

    def __init__(
        self,
        symbols: Symbols,
        events: list[Event],
        autotune: Mapping[str, Any],
        gpu: GPUTarget,
        refused: dict[str, str | None],
        on_launch: Callable[[CapturedLaunch, Mapping[str, Any]], None] | None = None,
        host_tensors: HostTensors | None = None,
    ) -> None:
        """Initialise an interceptor.

        `refused` maps configurations of autotuned kernels (`launch_configuration`) to the reason why they cannot run, None
        where they can. `on_launch` receives each launch with its arguments as the host code passed them. No kernel may have a
        tensor of `host_tensors`.
        """
        self._symbols = symbols
        self._events = events
        self._autotune = autotune
        self._gpu = gpu
        self._refused = refused
        self._tuning = False
        self._configuration: dict[str, Any] | None = None
        self._alternatives: tuple[dict[str, Any], ...] = ()
        self._on_launch = on_launch
        self._host_tensors = host_tensors
        self._notes: tuple[str, ...] = ()
        self._storages: dict[int, tuple[int, Any]] = {}
        self._parameter_names = ParameterNames()
        self._patches = Patches()

    def __enter__(self) -> Interceptor:
        launch, patches = self._launch, self._patches.__enter__()

        def run(kernel: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
            return self._warmed_up(kernel, args, kwargs) if warmup else launch(kernel, args, grid, kwargs)

        def interpreted(kernel: Any, *_: Any, **__: Any) -> None:
            raise UsageError(
                f"{kernel.fn.__name__} was decorated for Triton's interpreter, and derive compiles it",
                "Unset TRITON_INTERPRET and start again.",
            )

        patches.set(jit.JITFunction, "run", run)
        patches.set(interpreter.InterpretedFunction, "run", interpreted)
        patches.set(FakeTensor, "data_ptr", self._asked_address())
        patches.set(FakeTensor, "device", property(lambda tensor: _reported_device(tensor, self._host_tensors)))  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
        for owner, name in ((FakeTensor, "__dlpack__"), (dlpack, "to_dlpack"), (torch, "to_dlpack")):
            patches.set(owner, name, _no_dlpack)
        patches.set(torch.SymInt, "bit_length", bit_length)
        patches.set(torch.SymInt, "__hash__", symbolic_hash)
        for kind in (torch.SymInt, torch.SymFloat, torch.SymBool):
            for name in ("__repr__", "__format__"):
                patches.set(kind, name, symbolic_text)
        patch_autotuners(patches, self._tuned)
        activate(launch)
        return self

    def __exit__(self, *error: Any) -> None:
        deactivate()
        self._patches.__exit__(*error)

    def drop_notes(self) -> None:
        """Drop notes for a launch that was not made."""
        self._notes = ()

    def storages_of(self, values: object) -> frozenset[int]:
        """Return the storage numbers of the tensors in a nested structure."""
        return frozenset(map(self._storage, strided_tensors(values)))

    def _tuned(self, plain: Callable[..., Any], tuner: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        def note(text: str) -> None:
            self._notes = (*before, text)
            self._configuration = configuration_values(tuner.configs[0].all_kwargs())

        before, self._tuning = self._notes, True
        if len(tuner.configs) > 1:  # a subclass calls its base with the one that it chose
            self._alternatives = tuple(configuration_values(one.all_kwargs()) for one in tuner.configs)
        try:
            return run_one_configuration(plain, tuner, args, kwargs, required=self._autotune, verb="derived", add_note=note)
        finally:
            self._tuning, self._configuration, self._alternatives = False, None, ()

    def _check_configuration(self, launch: CapturedLaunch) -> None:
        """Raise `ConfigurationError` where an autotuned launch does not compile.

        It is a launch of an autotuned kernel.
        """
        key = launch_configuration(launch)
        if key not in self._refused:
            try:
                first_ir(launch, self._symbols.given, self._gpu)
                self._refused[key] = None
            except UsageError as error:
                self._refused[key] = error.what
        if reason := self._refused[key]:
            raise ConfigurationError(reason)

    def _launch(self, kernel: Any, args: tuple[Any, ...], grid: Any, kwargs: dict[str, Any]) -> LaunchedKernel:
        for hook in kernel.pre_run_hooks:
            hook(*args, **kwargs)
        bound, options = self._bound(kernel, args, kwargs)
        if self._host_tensors:
            self._host_tensors.refuse(bound.values())
        sizes: Any = grid(dict(bound)) if callable(grid) else grid
        extents: list[Expr] = [self._symbols.expression(size) for size in (*sizes, 1, 1, 1)[:3]]
        for axis, (size, most) in enumerate(zip(sizes, grid_limits(self._gpu), strict=False)):
            self._symbols.limit(size, most, f"{'xyz'[axis]} of the grid of {kernel.fn.__name__}")
        notes, self._notes = self._notes, ()
        before = len(self._symbols.constants)
        values = self._values(kernel, bound)
        conditions = tuple(self._symbols.constants[before:])
        grid_of = (extents[0], extents[1], extents[2])
        choice = self._configuration, self._alternatives
        names = self._parameter_names.of(bound)
        captured = CapturedLaunch(kernel, values, grid_of, options, notes, conditions, *choice, names)
        if self._tuning:
            self._check_configuration(captured)
        self._events.append(captured)
        if self._on_launch:
            self._on_launch(captured, bound)
        return LaunchedKernel.of(captured, self._symbols.given, self._gpu)

    def _warmed_up(self, kernel: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> LaunchedKernel:
        """Return the kernel of a warm-up call.

        Host code may read its resources or launch it. Triton takes a dtype for a tensor here.
        """
        typed = [torch.empty(1, dtype=one.dtype, device=CUDA) if isinstance(one, jit.MockTensor) else one for one in args]
        bound, options = self._bound(kernel, tuple(typed), kwargs)
        one: Any = self._symbols.expression(1)
        launch = CapturedLaunch(kernel, self._values(kernel, bound), (one, one, one), options)
        return LaunchedKernel.of(launch, self._symbols.given, self._gpu)

    def _bound(self, kernel: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return arguments by parameter, with defaults, and the launch options.

        The options are among the keywords.
        """
        names = kernel.signature.parameters
        bound = kernel.signature.bind(*args, **{name: value for name, value in kwargs.items() if name in names})
        bound.apply_defaults()
        bound.arguments.update(self._overrides(kernel))
        options = {name: self._symbols.value(value) for name, value in kwargs.items() if name not in names}
        return dict(bound.arguments), options  # bytes do not depend on options: none of them pins a parameter

    def _overrides(self, kernel: Any) -> dict[str, Any]:
        constants = {param.name for param in kernel.params if param.is_constexpr}
        return {name: value for name, value in overrides_of(kernel.fn.__name__, self._autotune).items() if name in constants}

    def _values(self, kernel: Any, bound: Mapping[str, Any]) -> dict[str, Value]:
        constants = {param.name for param in kernel.params if param.is_constexpr}
        return {
            name: self._constant(value, f"constexpr {name}") if name in constants else self._value(value)
            for name, value in bound.items()
        }

    def _constant(self, value: Any, use: str) -> Any:
        """Return a constexpr as a plain value.

        Record a decision where it depends on a parameter.
        """
        if isinstance(value, tl.constexpr):
            value = value.value
        items = items_of(value)
        if items is None:
            return self._symbols.constant(value, use)
        return with_items(value, [self._constant(item, use) for item in items])

    def _value(self, value: Any) -> Value:
        if is_tensor(value):
            return self._tensor(value)
        if hasattr(value, "data_ptr") and hasattr(value, "dtype"):
            return self._pointer(value)
        if hasattr(value, "block_shape") and hasattr(value, "base"):
            return self._descriptor(value)
        items = items_of(value)
        if items is not None:
            return with_items(value, list(map(self._value, items)))
        if isinstance(value, torch.SymBool):
            return bool(value)
        if isinstance(value, torch.SymFloat):  # no address, mask or bound is a float: data of any value will do
            return 1.0 if self._symbols.is_data(value) else float(self._symbols.value(value))
        if isinstance(value, torch.SymInt) or type(value) is int:
            return self._symbols.expression(value)
        return value.value if isinstance(value, tl.constexpr) else value

    def _expressions(self, values: Any) -> tuple[Expr, ...]:
        return tuple(map(self._symbols.expression, values))

    def _tensor(self, value: Any) -> TensorValue:
        tensor = getattr(value, "base", value)
        return TensorValue(
            dtype=value.dtype,
            itemsize=tensor.element_size(),
            shape=self._expressions(tensor.shape),
            strides=self._expressions(tensor.stride()),
            offset=self._symbols.expression(tensor.storage_offset()),
            storage=self._storage(tensor),
            storage_bytes=self._symbols.expression(tensor.untyped_storage().nbytes()),
        )

    def _descriptor(self, value: Any) -> DescriptorValue:
        template = copy.copy(value)
        template.base = template.shape = template.strides = None
        block = tuple(int(self._constant(size, "block_shape of a descriptor")) for size in value.block_shape)
        template.block_shape = list(block)
        base = self._tensor(value.base)
        return DescriptorValue(base, self._expressions(value.shape), self._expressions(value.strides), block, template)

    def _storage(self, tensor: Any) -> int:
        """Return a number for the tensor's storage.

        The storage is kept alive so that its id stays unique.
        """
        storage = tensor.untyped_storage()
        return self._storages.setdefault(storage._cdata, (len(self._storages), storage))[0]

    def _asked_address(self) -> Callable[[Any], Any]:
        """Return a function that gives fake addresses.

        It notes the line of host code that asks for one.
        """

        def asked(tensor: Any) -> Any:
            caller = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
            if not is_library(caller.f_code.co_filename):
                line = f"{Path(caller.f_code.co_filename).name}:{caller.f_lineno}"
                self._symbols.assume(f"{ALIGNED}, as host code asks at {line}")
            return self._address(tensor)

        return asked

    def _address(self, tensor: Any) -> Any:
        """Return a fake address.

        Symbolic where the offset is, so that a branch on alignment is a guard.
        """
        return (self._storage(tensor) + 1) * STORAGE_SPACING + tensor.storage_offset() * tensor.element_size()

    def _pointer(self, value: Any) -> TensorValue:
        """Return the value of an object with `data_ptr()` and `dtype`, by its storage.

        Triton treats such an object as a tensor.
        """
        address = value.data_ptr()
        number = int(self._symbols.value(address)) // STORAGE_SPACING - 1
        storage = next((storage for known, storage in self._storages.values() if known == number), None)
        if storage is None:
            raise UsageError(
                f"a {type(value).__name__} is passed to a kernel, and its address is in no known tensor",
                "Give the kernel a tensor, or an object whose data_ptr() is that of a tensor.",
            )
        itemsize = value.dtype.itemsize if isinstance(value.dtype, torch.dtype) else value.dtype.primitive_bitwidth // 8
        offset: Any = (self._symbols.expression(address) - (number + 1) * STORAGE_SPACING) / itemsize
        nbytes = self._symbols.expression(storage.nbytes())
        size: Any = nbytes / itemsize - offset
        return TensorValue(value.dtype, itemsize, (size,), (self._symbols.expression(1),), offset, number, nbytes)
