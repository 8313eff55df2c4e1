"""Compute the contents of small tensors that host code builds.

They stand beside fake tensors, and are block tables, offsets or expert ids.

Each operator with known inputs runs once more on real tensors. Memory that a kernel wrote, that was never written, or that is
too large is unknown. A launch with known contents is executed on them, which gives its bytes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch.utils import _python_dispatch
from torch.utils._pytree import tree_map_only
from torch.utils.weak import WeakTensorKeyDictionary
from triton.backends.compiler import GPUTarget

from ioaware.capture.executions import Executions
from ioaware.compilation.execution.ir_execution import execute
from ioaware.compilation.execution.program_values import INVENTED, RANDOM, Moved, Pointer, UndeterminedError
from ioaware.compilation.execution.without_data import storage_sizes
from ioaware.compilation.launches import CapturedLaunch, TensorValue, Value
from ioaware.compilation.triton_ir import first_ir, integer_at
from ioaware.errors import IoawareError
from ioaware.fakegpu.host_tensors import tensor_leaves
from ioaware.fakegpu.storages import OperatorMode
from ioaware.targets.tensor_params import MAX_FLOATS, is_placeholder

MAX_INTEGERS = 2**24
"""Most elements of a tensor of integers whose contents are tracked.

Of one of floats they are `MAX_FLOATS`.
"""
SETTINGS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
SMALLEST_ADDRESS = 2**40
"""Smallest integer argument that may be the address of a tensor."""
without_modes: Any = _python_dispatch._disable_current_modes  # pyright: ignore[reportPrivateUsage]


class IndexData(OperatorMode):
    """Inside the block, track the contents of small tensors.

    Enter it between the fake mode and host code.
    """

    def __init__(self, executions: Executions | None = None) -> None:
        super().__init__()  # pyright: ignore[reportUnknownMemberType]
        self._executions = executions or Executions()
        self._contents: Any = WeakTensorKeyDictionary()
        """Storage and contents of each tensor.

        Why weak keys: autograd copies a gradient that has another reference.
        """
        self._unknown: dict[int, Any] = {}
        """Storages with outdated contents."""
        self._unset: dict[int, Any] = {}
        """Storages that were never written."""
        self._caveats: dict[int, tuple[str, Any]] = {}
        """Storages with contents that are one example of many, with the reason."""
        self._shared: list[tuple[Any, Any]] = []
        """Real tensors in memory of others, such as NumPy's.

        The copy of its contents stands beside each.
        """
        self._lost = False
        """Whether a kernel may have written anything."""
        self._earlier: list[CapturedLaunch] = []
        """Launches that may have written through an address that they loaded."""
        self.moved: dict[int, Moved | str] = {}
        """Bytes of each launch on the known contents, or why they are unknown.

        The key is the number of the launch.
        """

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        self._refresh()
        targets = _written(func, args, kwargs or {})
        for tensor in targets:  # a real one is copied before it changes
            self._has(tensor)
        self._drop_shared(targets)
        outcome = func(*args, **(kwargs or {}))
        try:
            self._follow(func, args, kwargs or {}, outcome, targets)
        except Exception:
            self._forget([*targets, outcome])
        return outcome

    def _follow(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], outcome: Any, targets: list[Any]) -> None:
        """Run the operator on the contents of its operands, and remember what it returns."""
        operands, results = tensor_leaves((args, kwargs)), tensor_leaves(outcome)
        is_empty = "empty" in func._schema.name.partition("::")[2]
        is_view = all(result.alias_info is not None for result in func._schema.returns)  # or the target of an operator in place
        unread = set(map(id, operands if is_view and not targets else targets))
        known = all(self._has(tensor) and (id(tensor) in unread or self._is_valid(tensor)) for tensor in operands)
        if self._lost or not results or not all(map(_is_small, results)) or not (known or is_empty):
            self._forget([*targets, *results])
            return
        with without_modes(), torch.no_grad():
            real_args, real_kwargs = tree_map_only(torch.Tensor, self._real, (args, kwargs))
            real = func(*real_args, **real_kwargs)
        caveat = RANDOM if torch.Tag.nondeterministic_seeded in func.tags else self._caveat_of(operands)
        for tensor, contents in zip(results, tensor_leaves(real), strict=True):
            if not self._has(tensor):
                self._contents[tensor] = (tensor.untyped_storage()._cdata, contents)
            storage = contents.untyped_storage()
            if is_empty:
                self._unset[storage._cdata] = storage
            elif targets:
                self._unset.pop(storage._cdata, None)
            if caveat:
                self._caveats[storage._cdata] = (caveat, storage)

    def _caveat_of(self, tensors: Iterable[Any]) -> str:
        """Return why these contents are one example of many.

        Empty where they are the target's own.
        """
        found = [INVENTED if is_placeholder(each) else self._caveats.get(self._key(each), ("",))[0] for each in tensors]
        return INVENTED if INVENTED in found else next(filter(None, found), "")

    def _has(self, tensor: Any) -> bool:
        """Return whether the contents of this tensor are known.

        A real tensor is copied at its first use.
        """
        if tensor not in self._contents and not hasattr(tensor, "fake_mode") and _is_small(tensor):
            with without_modes():
                self._contents[tensor] = (tensor.untyped_storage()._cdata, tensor.detach().clone())
                if not tensor.untyped_storage().resizable():
                    self._shared.append((tensor.detach(), self._contents[tensor][1]))
        return tensor in self._contents and self._contents[tensor][0] == tensor.untyped_storage()._cdata

    def _refresh(self) -> None:
        """Copy memory of others again.

        Why: host code may have written it, as by its name in NumPy.
        """
        with without_modes(), torch.no_grad():
            for tensor, contents in self._shared:
                contents.copy_(tensor)

    def _drop_shared(self, targets: list[Any]) -> None:
        """Forget shared memory that torch writes.

        Why: the real one stays as it is.
        """
        written = {self._key(tensor) for tensor in targets if self._has(tensor)}
        changed = [contents for _, contents in self._shared if contents.untyped_storage()._cdata in written]
        if changed:
            self._shared = [pair for pair in self._shared if all(pair[1] is not each for each in changed)]
            for contents in changed:
                storage = contents.untyped_storage()
                self._unknown[storage._cdata] = storage

    def forget(self, tensor: Any) -> None:
        """Mark the contents of a tensor as unknown.

        Why: host code may write them through an array.
        """
        self._has(tensor)
        self._forget([tensor])

    def _real(self, tensor: Any) -> Any:
        return self._contents[tensor][1] if self._has(tensor) else torch.empty(tensor.shape, dtype=tensor.dtype)

    def _key(self, tensor: Any) -> int:
        return self._real(tensor).untyped_storage()._cdata

    def _is_valid(self, tensor: Any) -> bool:
        return not self._lost and self._has(tensor) and self._key(tensor) not in {**self._unknown, **self._unset}

    def _forget(self, tensors: Any) -> None:
        """Mark the contents of these tensors as unknown.

        So are the contents of all that share their memory.
        """
        for tensor in tensor_leaves(tensors):
            if self._has(tensor):
                storage = self._real(tensor).untyped_storage()
                self._unknown[storage._cdata] = storage

    def launch(self, number: int, launch: CapturedLaunch, arguments: Mapping[str, Any], gpu: GPUTarget) -> None:
        """Execute a launch with known contents, and mark what it writes as unknown."""
        given = dict(_arguments(arguments))
        tensors = {name: tensor for name, tensor in given.items() if isinstance(tensor, torch.Tensor)}
        known = {name: tensor for name, tensor in tensors.items() if _is_index(tensor) and self._is_aligned(tensor)}
        self._refresh()
        self._lost |= any(map(_may_be_address, given.values()))
        written = list(tensors)
        if known:
            self._lost |= any(_makes_pointers(each, gpu) for each in self._earlier)
            self._earlier.clear()
        self._earlier.append(launch)
        if known and not self._lost:
            try:
                try:
                    moved = self._execute(launch, known, gpu)
                except UndeterminedError:
                    known |= {name: tensor for name, tensor in tensors.items() if self._is_setting(tensor)}
                    moved = self._execute(launch, known, gpu)
                memory = {_memory(tensors[name]) for name in moved.written_names if name in tensors}
                if shared := [name for name in moved.contents if _memory(known[name]) in memory]:
                    raise UndeterminedError(
                        f"{shared[0]} is read and written by the launch, in an order that only the GPU determines"
                    )
                self.moved[number] = moved
                written = [name for name in moved.written_names if name in tensors]
            except UndeterminedError as error:
                self.moved[number] = str(error)
            except IoawareError:  # does not compile, which derive reports
                pass
            except (ValueError, KeyError, IndexError, TypeError, AttributeError, StopIteration) as error:
                self.moved[number] = f"its IR is not understood ({type(error).__name__})"
        self._forget([tensors[name] for name in written])

    def _execute(self, launch: CapturedLaunch, known: Mapping[str, Any], gpu: GPUTarget) -> Moved:
        ir = first_ir(launch, {}, gpu)
        data = {name: self._elements(tensor) for name, tensor in known.items()}
        parameters = [(name, _parameter(name, value)) for name, value in ir.parameters]
        grid = [integer_at(extent, {}) for extent in launch.grid]
        sizes = storage_sizes(ir.parameters, {})
        kinds = tuple((name, contents.dtype.str, contents.size) for name, contents in data.items())
        key = ir.text, repr(parameters), tuple(grid), tuple(sizes.items()), kinds

        def caveat(names: Iterable[str]) -> str:
            return self._caveat_of(known[name] for name in sorted(names))

        moved = self._executions.find(key, data, lambda names: caveat(names) == RANDOM)
        if moved is None:
            moved = execute(ir.text, parameters, grid, data, sizes)
            moved.contents = contents = {name: data[name] for name in moved.read_names}

            def without(names: Collection[str]) -> Moved:
                rest = {name: each for name, each in contents.items() if name not in names}
                return execute(ir.text, parameters, grid, rest, sizes)

            moved.without = without
            self._executions.add(key, moved)
        moved.caveat = caveat(moved.read_names)
        return self._at_any_draw(moved, launch, known, gpu) if moved.caveat == RANDOM else moved

    def _at_any_draw(self, moved: Moved, launch: CapturedLaunch, known: Mapping[str, Any], gpu: GPUTarget) -> Moved:
        """Return the bytes without a caveat where random contents decide addresses alone.

        They are those of an execution to which random contents are unknown. Its sectors are unknown, and it fails where a mask,
        a branch or a loop depends on them.
        """
        try:
            fixed = self._execute(launch, {name: each for name, each in known.items() if not self._caveat_of([each])}, gpu)
        except UndeterminedError:
            return moved
        unknown: dict[str, Any] = {"has_sectors": False, "read_sector_bytes": 0, "write_sector_bytes": 0}
        return replace(moved, caveat="", read_names=fixed.read_names, **unknown)

    def _is_aligned(self, tensor: Any) -> bool:
        """Return whether the contents are valid and lie in memory as the tensor does."""
        if not self._is_valid(tensor):
            return False
        real = self._real(tensor)
        return (real.storage_offset(), real.stride()) == (tensor.storage_offset(), tensor.stride())

    def _is_setting(self, tensor: Any) -> bool:
        """Return whether these are floats that the target chose.

        Such are temperatures, unlike numbers drawn at random.
        """
        return tensor.dtype in SETTINGS and self._is_aligned(tensor) and not self._caveat_of([tensor])

    def _elements(self, tensor: Any) -> Any:
        """Return the elements of a tensor's whole storage, of bfloat16 the bits."""
        real = self._real(tensor)
        with without_modes():
            whole: Any = torch.empty(0, dtype=real.dtype).set_(real.untyped_storage())
            return (whole.view(torch.int16) if real.dtype == torch.bfloat16 else whole).numpy().copy()


def _arguments(arguments: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Return the arguments of a launch by name.

    Those in tuples and the tensors of descriptors are by their own.
    """
    named: list[tuple[str, Any]] = []
    for name, value in arguments.items():
        if isinstance(value, (tuple, list)):
            named += _arguments({f"{name}[{at}]": item for at, item in enumerate(value)})  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
        else:
            named.append((name, getattr(value, "base", value)))
    return named


def _may_be_address(value: Any) -> bool:
    """Return whether a non-tensor argument may lead a kernel to a tensor."""
    if isinstance(value, torch.Tensor):
        return False
    return hasattr(value, "data_ptr") or (type(value) is int and value >= SMALLEST_ADDRESS)


def _makes_pointers(launch: CapturedLaunch, gpu: GPUTarget) -> bool:
    """Return whether a kernel makes a pointer from an integer.

    An example is one that loads an address from a table.
    """
    try:
        return "tt.int_to_ptr" in first_ir(launch, {}, gpu).text
    except IoawareError:  # does not compile, which derive reports
        return False


def _parameter(name: str, value: Value) -> Any:
    """Return a parameter of the IR as the interpreter takes it.

    None where its value is unknown.
    """
    if isinstance(value, TensorValue):
        return Pointer(name, np.asarray([integer_at(value.offset, {}) * value.itemsize], np.int64))
    number: Any = value
    return int(number) if isinstance(value, bool) or getattr(value, "is_Integer", False) else None


def _written(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
    """Return the tensors that an operator writes in place."""
    schema = func._schema.arguments
    given = [(argument, args[at] if at < len(args) else kwargs.get(argument.name)) for at, argument in enumerate(schema)]
    return tensor_leaves(
        [value for argument, value in given if argument.alias_info is not None and argument.alias_info.is_write]
    )


def _memory(tensor: Any) -> int:
    """Return a number for the storage of a tensor."""
    return tensor.untyped_storage()._cdata


def _is_index(tensor: Any) -> bool:
    return not tensor.dtype.is_floating_point and not tensor.dtype.is_complex


def _is_small(tensor: Any) -> bool:
    return tensor.numel() <= (MAX_INTEGERS if _is_index(tensor) else MAX_FLOATS)
