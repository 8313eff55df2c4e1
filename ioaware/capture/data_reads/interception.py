"""Intercept reads of tensors by host code, and by torch on its behalf.

Host code reads by functions that are patched. Torch reads by operators: a scalar of a tensor that is passed as a number, and
the sizes of a result that data decide.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._pytree import tree_map_only
from torch.utils.weak import WeakTensorKeyDictionary

from ioaware._monkeypatch import Patches
from ioaware.fakegpu.storages import OperatorMode
from ioaware.symints.host_line import ReadsDataError, user_line

READS: Sequence[tuple[Any, Sequence[str]]] = (
    (torch, ("is_nonzero",)),
    (torch.Tensor, ("is_nonzero", "item", "tolist", "__bool__", "__int__", "__float__", "__index__")),
    (torch.Tensor, ("numpy", "__array__")),
    (FakeTensor, ("tolist",)),
)
"""Functions with which host code reads data.

They are patched: a torch function mode does not reach into a backward.
"""
COMPARISONS = ("equal", "allclose")
"""Functions among them that compare tensors on the GPU."""
NUMBER: Any = torch.ops.aten._local_scalar_dense.default
"""Operator with which torch reads a tensor passed where a number is expected.

Such a number is, for example, a size.
"""
OPERATORS: frozenset[Any] = frozenset({NUMBER, torch.ops.aten.equal.default, torch.ops.aten.allclose.default})
"""Operators that return a number or boolean to the host.

A comparison moves bytes and is listed as in a trace.
"""


MODE_FILES = (
    *(f"fakegpu/{name}.py" for name in ("fake_cuda", "host_tensors", "storages", "aten/aten_traffic", "custom_ops")),
    *(f"capture/{name}.py" for name in ("fake_tensors", "index_data", "data_reads/storage_marks")),
    *("torch/_ops.py", "torch/_subclasses/fake_tensor.py"),
)
"""Files of the dispatch modes between host code and an operator."""
WRAPPERS = ("torch/functional.py", "torch/_tensor.py", "torch/_jit_internal.py", "torch/overrides.py")
"""Files of torch whose functions only call an operator, as `torch.unique` does."""
LAUNCHING = (
    *("capture/interceptor.py", "fakegpu/autotuning.py"),
    *("triton/runtime/jit.py", "triton/runtime/autotuner.py"),
)
"""Files between host code and the sizes of a grid, which may be tensors."""
MAX_READS = 5000
"""Most reads of one run: a derivation repeats each in several runs."""

Read = Callable[[Callable[..., Any], tuple[Any, ...], dict[str, Any], str], Any]
"""Read data by a function with arguments.

The last argument is the operator that computed what is read.
"""


def modes(plain: Callable[..., Any]) -> tuple[str, ...]:
    """Return the files between host code and a read.

    They are those of the modes, where torch itself reads, or those of a launch.
    """
    if isinstance(plain, DynamicShape):
        return (*MODE_FILES, *WRAPPERS)
    return MODE_FILES if plain in OPERATORS else LAUNCHING


@contextmanager
def reading_through(read: Read) -> Generator[None]:
    operators = _OperatorReads(read)
    with Patches() as patches:
        for owner, names in READS:
            for name in names:
                plain: Any = getattr(owner, name)

                def through(*args: Any, plain: Any = plain, **kwargs: Any) -> Any:
                    with operators.suspended():
                        return read(plain, args, kwargs, operators.maker(args))

                patches.set(owner, name, through)
        plainly = torch.Tensor.__iter__

        def iterate(tensor: torch.Tensor) -> Any:
            return _iterate(plainly, tensor)

        patches.set(torch.Tensor, "__iter__", iterate)
        with operators:
            yield


def _iterate(plain: Callable[..., Any], tensor: torch.Tensor) -> Any:
    """Iterate over the rows of a tensor, at most `MAX_READS`.

    Raises `ReadsDataError` for more: torch makes a tensor of each.
    """
    rows = tensor.shape[0] if tensor.dim() else 0
    if type(rows) is int and rows > MAX_READS:
        raise ReadsDataError(
            f"the host function iterates over the {rows:,} rows of a tensor at {user_line()[0]}",
            f"A derivation takes at most {MAX_READS:,}: use tolist(), or trace the function.",
        )
    return plain(tensor)


class _OperatorReads(OperatorMode):
    """Intercept torch's own reads of a scalar with `read`.

    Those below a read by host code are excepted.
    """

    def __init__(self, read: Read) -> None:
        super().__init__()  # pyright: ignore[reportUnknownMemberType]
        self._read = read
        self._silent = 0
        self._makers: Any = WeakTensorKeyDictionary()
        """The operator that computed each tensor of one element."""

    def maker(self, args: tuple[Any, ...]) -> str:
        """Return the operator that computed the first argument; empty where it is unknown."""
        tensor = args[0] if args else None
        return self._makers.get(tensor, "") if isinstance(tensor, torch.Tensor) else ""

    @contextmanager
    def suspended(self) -> Generator[None]:
        """Do not intercept reads inside the block."""
        self._silent += 1
        try:
            yield
        finally:
            self._silent -= 1

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func in OPERATORS and not self._silent:
            return self._read(func, args, kwargs or {}, self.maker(args))
        if torch.Tag.dynamic_output_shape in func.tags and not self._silent and (deciding := _deciding_shape(func, args)):
            return self._read_shapes(func, args, kwargs or {}, deciding)
        outcome = func(*args, **(kwargs or {}))
        if isinstance(outcome, torch.Tensor) and outcome.dim() == 0:
            self._makers[outcome] = func._schema.name
        return outcome

    def _read_shapes(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], deciding: tuple[Any, ...]) -> Any:
        """Intercept with `read` the output shapes of an operator.

        They depend on the data of `deciding`.
        """
        made: list[Any] = []

        def shapes(*_: Any) -> Any:
            made.append(func(*args, **kwargs))
            return _shapes(made[0])

        def shape_of_mask(mask: Callable[[torch.Tensor], torch.Tensor]) -> Any:
            masks = {id(tensor): mask(tensor) for tensor in deciding}
            return _shapes(func(*tree_map_only(torch.Tensor, lambda one: masks.get(id(one), one), args), **kwargs))

        def extremes() -> tuple[Any, ...]:
            return tuple(map(shape_of_mask, (torch.ones_like, torch.zeros_like))) if func._schema.name in SELECTIONS else ()

        told = self._read(DynamicShape(shapes, extremes), deciding, {}, func._schema.name)
        return made[0] if made else tree_map_only(Shape, Shape.empty, told)


def _deciding_shape(func: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the arguments whose data decide the output's shape.

    Of an index those are masks, not its numbers nor what it takes elements of.
    """
    if func._schema.name == "aten::index":
        return tuple(index for index in args[1] if index is not None and index.dtype in (torch.bool, torch.uint8))
    return args[1:] if func._schema.name == "aten::masked_select" else args


SELECTIONS = frozenset({"aten::index", "aten::masked_select", "aten::nonzero"})
"""Operators that keep what a mask selects.

Their largest and smallest results are known.
"""


class DynamicShape:
    """Read of an output's shape that torch makes below an operator."""

    def __init__(self, function: Callable[..., Any], extremes: Callable[[], tuple[Any, ...]]) -> None:
        self._function = function
        self.extremes = extremes
        """Return the results of all elements and of none, as `Shape`s.

        Empty for an operator of which they are not known.
        """

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._function(*args, **kwargs)


def _shapes(outcome: Any) -> Any:
    """Return an operator's result with a `Shape` in place of each tensor."""
    return tree_map_only(torch.Tensor, lambda tensor: Shape(tuple(tensor.shape), tensor.stride(), tensor.dtype), outcome)


@dataclass(frozen=True)
class Shape:
    """Result of an operator, without its data."""

    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: Any

    def empty(self) -> Any:
        """Return a tensor of this shape; `nonzero` returns a transposed one."""
        return torch.empty_strided(self.sizes, self.strides, dtype=self.dtype)

    def with_unknown_size(self, other: Shape, size: Any) -> Any:
        """Return a tensor with this size in the dimensions in which another shape differs."""
        sizes = [size if one != two else one for one, two in zip(self.sizes, other.sizes, strict=True)]
        order = sorted(range(len(sizes)), key=lambda at: -self.strides[at])
        plain = torch.empty([sizes[at] for at in order], dtype=self.dtype)
        return plain.permute([order.index(at) for at in range(len(sizes))])

    def __repr__(self) -> str:
        return f"of shape {list(self.sizes)}"
