"""Derive a call of a host function on tensors whose sizes have names.

The names are the parameters of the formulas.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from ioaware.errors import UsageError
from ioaware.gate.formulas.formula_reader import WORDS
from ioaware.targets.tensor_params import MAX_DIGITS

if TYPE_CHECKING:
    from ioaware.derivation.derived import Derived

DEFAULT_SIZES = (4096, 2048, 1024, 512, 256, 128, 64, 32)
"""Sizes of the names in order of appearance.

All are different: equal sizes would be taken for one by broadcasting.
"""


@dataclass(frozen=True, slots=True)
class SymbolicSize:
    """A size with a name, as an argument of the function."""

    name: str


@dataclass(frozen=True, slots=True)
class SymbolicTensor:
    """A tensor with named or plain sizes.

    It is contiguous without `strides`. They are in elements, each a number or the names and numbers that it is the product of.
    """

    sizes: tuple[str | int, ...]
    dtype: str
    strides: tuple[tuple[str | int, ...], ...] | None = None

    @property
    def names(self) -> list[str]:
        """Return the names of its sizes."""
        return [size for size in self.sizes if isinstance(size, str)]

    @property
    def names_of_strides(self) -> list[str]:
        """Return the names of its strides."""
        return [factor for stride in self.strides or () for factor in stride if isinstance(factor, str)]


def strides_of(given: object, rank: int) -> tuple[tuple[str | int, ...], ...]:
    """Return strides, each as its factors.

    A stride is a whole number, a name, or a product of these as text. Raises `UsageError`.
    """
    if not isinstance(given, (list, tuple)) or len(cast("Sequence[object]", given)) != rank:
        raise UsageError(f"strides are one for each of the {rank} sizes, not {given!r}", STRIDES)
    return tuple(_factors(stride) for stride in cast("Sequence[object]", given))


def _factors(stride: object) -> tuple[str | int, ...]:
    if type(stride) is int and stride >= 0:
        return (stride,)
    if not isinstance(stride, str):
        raise UsageError(f"a stride is a name, a product of names or a number of elements, not {stride!r}", STRIDES)
    parts = [part.strip() for part in stride.split("*")]
    return tuple(int(part) if part.isdecimal() and part.isascii() and len(part) <= MAX_DIGITS else part for part in parts)


class Sizes:
    """The named sizes of a test with their values at its first point."""

    def __init__(self) -> None:
        self.values: dict[str, int] = {}

    def add(self, sizes: Sequence[str], given: Mapping[str, int], strides: Sequence[str] = ()) -> None:
        """Add names with their values, or with the next of the default ones.

        A name that only strides have needs a value. Raises `UsageError`.
        """
        names = (*sizes, *strides)
        if unused := given.keys() - set(names):
            raise UsageError(f"no size of this tensor is named {', '.join(sorted(unused))}", EXAMPLE)
        for name in names:
            _check_name(name)
            value = given.get(name)
            if value is None and name not in (*sizes, *self.values):
                raise UsageError(f"the stride {name} has no value", STRIDES)
            if value is not None and (type(value) is not int or value < 1):
                raise UsageError(f"{name} must be a positive integer, not {value!r}", EXAMPLE)
            if value is not None and self.values.get(name, value) != value:
                raise UsageError(f"{name} is {self.values[name]} and {value}", "A name stands for one size.")
            if name not in self.values:
                self.values[name] = value if value is not None else self._next()

    def _next(self) -> int:
        free = [size for size in DEFAULT_SIZES if size not in self.values.values()]
        return free[0] if free else 7 * len(self.values)


EXAMPLE = 'For example traffic.tensor("rows", "cols", dtype="float16", rows=8192).'
STRIDES = 'For example traffic.tensor("rows", "cols", strides=("pitch", 1), pitch=4096).'


def _check_name(name: object) -> None:
    if not isinstance(name, str) or not name.isidentifier() or not name.isascii() or name in WORDS:
        raise UsageError(f"{name!r} cannot name a size in a formula", EXAMPLE)


def derive_call(
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    sizes: Mapping[str, int],
    *,
    gpu: str,
    machine_code: bool,
    autotune: Mapping[str, Any] | None = None,
) -> Derived:
    """Derive `function(*args, **kwargs)`, whose symbolic tensors have these sizes.

    `autotune` selects configurations of autotuned kernels. What host code does at a second call is seen without it alone.
    Warnings of torch and Triton are not those of the suite in which the gate runs. Raises `UsageError` as `derive` does.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from ioaware._deferred_gc import deferred_full_gc
        from ioaware.capture.host.second_call import second_calls_compared
        from ioaware.compilation.triton_ir import find_gpu
        from ioaware.derivation.derive import derive
        from ioaware.targets.loading import folder_of_function
        from ioaware.targets.sibling_modules import ImportingFrom
        from ioaware.targets.signature import Argument
        from ioaware.targets.target import Target

        used = dict.fromkeys(_names((*args, *kwargs.values())))
        params = {name: sizes[name] for name in used}

        def call(*, device: str, **values: Any) -> Callable[[], object]:
            given = [made(value, values, device) for value in args]
            named = {name: made(value, values, device) for name, value in kwargs.items()}
            return ImportingFrom(folder, lambda: function(*given, **named)) if folder else lambda: function(*given, **named)

        folder = folder_of_function(function)
        name = f"{getattr(function, '__module__', '?')}:{getattr(function, '__qualname__', type(function).__name__)}"
        target = Target(name, tuple(Argument(one, "int", value) for one, value in params.items()), call)
        with deferred_full_gc(), nullcontext() if autotune else second_calls_compared():
            return derive(target, params, gpu=find_gpu(gpu), machine_code=machine_code, autotune=autotune)


def _names(values: Sequence[Any]) -> Iterator[str]:
    for value in values:
        if isinstance(value, SymbolicTensor):
            yield from (*value.names, *value.names_of_strides)
        elif isinstance(value, SymbolicSize):
            yield value.name
        elif isinstance(value, (list, tuple)):
            yield from _names(value)  # pyright: ignore[reportUnknownArgumentType]
        elif isinstance(value, dict):
            yield from _names(tuple(value.values()))  # pyright: ignore[reportUnknownArgumentType, reportUnknownMemberType]


def made(value: Any, values: Mapping[str, Any], device: str) -> Any:
    """Return an argument with tensors and numbers for what is symbolic.

    `values` are those of the names.
    """
    if isinstance(value, SymbolicTensor):
        return _tensor(value, values, device)
    if isinstance(value, SymbolicSize):
        return values[value.name]
    if type(value) in (list, tuple):
        return type(value)(made(item, values, device) for item in value)
    if type(value) is dict:
        return {key: made(item, values, device) for key, item in value.items()}  # pyright: ignore[reportUnknownVariableType]
    return value


def _tensor(tensor: SymbolicTensor, values: Mapping[str, Any], device: str) -> Any:
    """Return a tensor of plausible values.

    One with strides is a view of a storage that just holds it.
    """
    from ioaware.targets.tensor_params import TensorParam, is_placeholder

    if tensor.strides is None:
        return TensorParam(tensor.dtype, tensor.sizes).make(values, device)
    sizes = [values[size] if isinstance(size, str) else size for size in tensor.sizes]
    strides = [math.prod(values[one] if isinstance(one, str) else one for one in stride) for stride in tensor.strides]
    reach = 1 + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))
    storage = TensorParam(tensor.dtype, ("reach",)).make({"reach": reach}, device)
    view = storage.as_strided(sizes, strides)
    if is_placeholder(storage):
        view.is_placeholder = True
    return view
