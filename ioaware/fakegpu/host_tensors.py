"""Know which tensors host code keeps in the memory of the host.

Every tensor is on the CPU here. These are the ones that would be there beside a GPU too: made without a device, named `cpu`, or
copied back. Host code that asks where such a tensor is gets the true answer, and a kernel that is given one raises, as with
Triton. Operators on them are no work of the GPU.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import torch
import torch.overrides as _overrides
from torch.utils import _device as _torch_device
from torch.utils._pytree import tree_leaves
from torch.utils.weak import WeakTensorKeyDictionary

from ioaware.errors import IoawareError

PLAIN_TYPES = frozenset((int, float, bool, complex, str, type(None)))
CPU = torch.device("cpu")
CUDA = torch.device("cuda", 0)
_Tensor: Any = torch.Tensor
_devices: Any = _torch_device
overrides: Any = _overrides
MOVES: dict[Any, Any] = {_Tensor.cpu: CPU, _Tensor.pin_memory: CPU, _Tensor.cuda: CUDA}
WRITES_INTO = (_Tensor.copy_, _Tensor.__setitem__)
"""Functions that copy their last tensor into their first one."""
NUMBERS = ("item", "tolist", "is_nonzero", "__bool__", "__int__", "__float__", "__index__")
"""Methods of a tensor that copy all of its elements to the host, as numbers."""
FROM_DATA = (torch.tensor, torch.as_tensor, torch.asarray)
"""Constructors whose result is where their data are, if these are a tensor."""
OWN_OPERATORS = ("aten", "prim", "prims")
TORCH = Path(torch.__file__).parent
ASK_FOR_HOST_CODE = tuple(
    str(TORCH / name) for name in ("__init__.py", "amp/autocast_mode.py", "utils/checkpoint.py", "nn/modules", "optim")
)
"""Files of torch that hand the device on or act on tensors of the GPU alone.

`get_default_device` is an example of the first, and `custom_fwd` of the second.
"""
BETWEEN = (str(Path(__file__).parents[1]), str(TORCH / "utils/_device.py"), str(TORCH / "overrides.py"))
"""Files of function modes."""

TO_HOST, FROM_HOST = "copy to the host", "copy from the host"
_work: dict[str, Any] = {"is_host": False, "transfer": None}


def transfer() -> str | None:
    """Return the direction in which the operators of now copy.

    None where they copy nothing between the host and the GPU.
    """
    return _work["transfer"]


def is_host_work() -> bool:
    """Return whether the CPU would run the operators of now beside a GPU too."""
    return _work["is_host"]


@contextmanager
def host_work(*, is_host: bool = True, transfer: str | None = None) -> Generator[None]:
    """Say inside the block whose work the operators are.

    `transfer` is the direction in which they copy, if they do.
    """
    before = dict(_work)
    _work.update(is_host=is_host, transfer=transfer)
    try:
        yield
    finally:
        _work.update(before)


def record_read(operator: str, tensors: Iterable[Any]) -> None:
    """Let an operator that host code waits for read each of these tensors once.

    Those of the host are left out.
    """
    for tensor in tensors:
        if isinstance(tensor, torch.Tensor) and tensor.is_cuda:
            with host_work(is_host=False, transfer=operator):
                tensor.clone()


def all_on_gpu_note(error: IoawareError) -> str:
    """Return the note of a run that takes all tensors to be on the GPU.

    With those of the host it ends with `error`.
    """
    return f"tensors that host code leaves on the CPU are taken to be on the GPU: as written, {error.what}"


_READERS = frozenset({*(getattr(_Tensor, name) for name in NUMBERS), torch.is_nonzero})


class HostTensors:
    """The tensors of the host in a run of host code."""

    def __init__(self) -> None:
        self._pinned: Any = WeakTensorKeyDictionary()
        """Whether each tensor of the host is pinned."""
        self.mattered = False
        """Whether a run may have gone another way with those tensors on the GPU."""

    def asked(self, tensor: Any) -> bool:
        """Return whether a tensor is the host's, to host code that asks for it."""
        self.mattered |= tensor in self._pinned
        return tensor in self._pinned

    def asked_storage(self, storage: Any) -> bool:
        """Return whether memory is the host's, to host code that asks for it."""
        return any(self.asked(tensor) for tensor in list(self._pinned) if _in(tensor, storage))

    def is_pinned(self, tensor: Any) -> bool:
        """Return whether a tensor is in pinned memory of the host."""
        return self._pinned.get(tensor, False)

    def refuse(self, arguments: Iterable[Any]) -> None:
        """Raise `ValueError`, as Triton, for a kernel's argument on the host.

        Pinned memory is allowed.
        """
        for position, value in enumerate(arguments):
            leaves = (getattr(leaf, "base", leaf) for leaf in tree_leaves(value))
            for tensor in (leaf for leaf in leaves if isinstance(leaf, torch.Tensor)):
                if not self._pinned.get(tensor, True) and tensor.numel():
                    self.mattered = True
                    raise ValueError(f"Pointer argument (at {position}) cannot be accessed from Triton (cpu tensor?)")

    def follow(self, source: Any, new: Any) -> None:
        """Note that a tensor is now where another one is."""
        self._pinned.pop(new, None)
        if source is not None and source in self._pinned:
            self._pinned[new] = self._pinned[source]

    def add(self, tensor: Any) -> None:
        """Note that a tensor is the host's."""
        self._pinned[tensor] = False

    def adding(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function whose results are the host's."""

        def added(*args: Any, **kwargs: Any) -> Any:
            made = function(*args, **kwargs)
            self.add(made)
            return made

        return added

    def call(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], run: Callable[[], Any]) -> Any:
        """Run a function of torch by `run`, and note where its results are."""
        if function == _Tensor.data.__set__:
            self.follow(args[1], args[0])
            return run()
        operands = tensor_leaves((args, kwargs))
        if function in _READERS and operands and operands[0] not in self._pinned:
            _copy(operands[0], to_host=True, from_host=False)
        device = self._device(function, args, kwargs, operands)
        is_host = device is not None and device.type == "cpu"
        with host_work(is_host=is_host or _work["is_host"], transfer=self._transfer(function, device, operands)):
            outcome = run()
        known = set(map(id, operands))
        pins = function is _Tensor.pin_memory or bool(kwargs.get("pin_memory"))
        if isinstance(outcome, torch.Tensor) and id(outcome) in known and _is_conversion(function):
            if pins or (device is not None and (outcome in self._pinned) != is_host):
                outcome = _copy(outcome, to_host=is_host, from_host=outcome in self._pinned)
            else:
                return outcome
        for tensor in tensor_leaves(outcome) if is_host else ():
            if id(tensor) not in known:
                self._pinned[tensor] = pins or any(self.is_pinned(each) and _share(each, tensor) for each in operands)
        return outcome

    def _transfer(self, function: Any, device: Any, operands: list[Any]) -> str | None:
        """Return the direction of a copy between the host and the GPU.

        None where a function makes none.
        """
        if function in WRITES_INTO and len(operands) > 1:
            onto, source = operands[0] in self._pinned, operands[-1] in self._pinned
        elif _is_conversion(function) and operands and device is not None:
            onto, source = device.type == "cpu", operands[0] in self._pinned
        else:
            return _work["transfer"]
        return None if onto == source else TO_HOST if onto else FROM_HOST

    def _device(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], operands: list[Any]) -> Any:
        """Return where the results of a function are.

        None where it is not known to be the host.
        """
        if function in MOVES:
            return MOVES[function]
        named = kwargs.get("device")
        if function is _Tensor.to and len(args) > 1 and not isinstance(args[1], torch.dtype):
            named = args[1]
        elif function is _Tensor.to:
            named = kwargs.get("device", kwargs.get("other"))
        if isinstance(named, torch.Tensor):
            return CPU if named in self._pinned else CUDA
        if named is not None and _is_of_torch_itself():
            return self._where(operands)
        if named is not None:
            return named if isinstance(named, torch.device) else torch.device(named if isinstance(named, str) else "cuda")
        if kwargs.get("pin_memory"):
            return CPU
        if function in _devices._device_constructors():
            data = args[0] if function in FROM_DATA and args else None
            return self._where([data]) if isinstance(data, torch.Tensor) else _default_device()
        namespace = getattr(function, "_qualified_op_name", getattr(function, "_name", "aten::")).partition("::")[0]
        return self._where(operands) if namespace in OWN_OPERATORS else None

    def _where(self, operands: list[Any]) -> Any:
        """Return the CPU where all operands are the host's, numbers excepted."""
        deciding = [tensor for tensor in operands if tensor.dim()] or operands
        return CPU if deciding and all(tensor in self._pinned for tensor in deciding) else None


def _is_of_torch_itself() -> bool:
    """Return whether torch calls the function, and not host code.

    Fake tensors show torch the CPU.
    """
    caller: Any = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    while caller.f_back is not None and caller.f_code.co_filename.startswith(BETWEEN):
        caller = caller.f_back
    name = caller.f_code.co_filename
    return name.startswith(str(TORCH)) and not name.startswith(ASK_FOR_HOST_CODE)


def _is_conversion(function: Any) -> bool:
    """Return whether a function returns its operand where there is nothing to convert."""
    return function in MOVES or function is _Tensor.to or function in FROM_DATA


def _default_device() -> Any:
    """Return the device of `torch.set_default_device`, the CPU where there is none."""
    modes: list[Any] = overrides._get_current_function_mode_stack()
    return next((mode.device for mode in reversed(modes) if isinstance(mode, _devices.DeviceContext)), CPU)


def _copy(tensor: Any, *, to_host: bool, from_host: bool) -> Any:
    """Return a copy on the other side of the bus, which no kernel makes.

    One from the host to the host is in other memory.
    """
    if to_host:
        with host_work(transfer=None if from_host else TO_HOST):
            return tensor.clone()
    new: Any = torch.empty_like(tensor)
    with host_work(transfer=FROM_HOST):
        return new.copy_(tensor)


def _share(one: Any, other: Any) -> bool:
    """Return whether two tensors are in the same memory."""
    return other.layout == torch.strided and _in(one, other.untyped_storage())


def _in(tensor: Any, storage: Any) -> bool:
    return tensor.layout == torch.strided and tensor.untyped_storage()._cdata == storage._cdata


def tensor_leaves(values: object) -> list[Any]:
    """Return the tensors in nested lists, tuples and dictionaries.

    Lists of numbers are passed over as a whole: they may have millions.
    """
    kind = type(values)
    if isinstance(values, torch.Tensor):
        return [values]
    if kind in PLAIN_TYPES or _holds_numbers(values):
        return []
    if kind is tuple or kind is list:
        items: Any = values
    elif kind is dict:
        items = cast("dict[Any, Any]", values).values()
    else:  # named tuples and what else torch knows
        leaves: list[Any] = tree_leaves(values, is_leaf=_holds_numbers)
        return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
    return [leaf for item in items for leaf in tensor_leaves(item)]


def _holds_numbers(values: Any) -> bool:
    return type(values) in (list, tuple) and PLAIN_TYPES.issuperset(map(type, values))
