"""Replay what host code reads from tensors.

It is recorded once with real data and returned in every other run.

The recording run has real CPU tensors and executes no kernel. Values that torch computes are right unless they depend on a
kernel's output. Dependence is followed from storage to storage. A read that depends on a kernel is refused unless it reads one
floating-point number. The other runs then get several values for that number, and all must make the same launches.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

import numpy as np
import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._pytree import tree_map_only
from torch.utils.weak import WeakTensorKeyDictionary

from ioaware._monkeypatch import Patches
from ioaware.fakegpu.aten_traffic import takes_shape_only
from ioaware.fakegpu.host_tensors import NUMBERS, record_read
from ioaware.fakegpu.storages import OperatorMode, storages, strided_tensors
from ioaware.symints.host_line import ReadsDataError, reads_data_error, user_line
from ioaware.symints.symbols import Symbols

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
    *(
        "fakegpu/fake_cuda.py",
        "fakegpu/host_tensors.py",
        "fakegpu/storages.py",
        "fakegpu/aten_traffic.py",
        "fakegpu/custom_ops.py",
    ),
    *("capture/fake_tensors.py", "capture/index_data.py", "torch/_ops.py", "torch/_subclasses/fake_tensor.py"),
)
"""Files of the dispatch modes between host code and an operator."""
WRAPPERS = ("torch/functional.py", "torch/_tensor.py", "torch/_jit_internal.py", "torch/overrides.py")
"""Files of torch whose functions only call an operator, as `torch.unique` does."""
NUMPY_REFUSED = ".numpy() is not supported for tensor subclasses"
"""What torch says of a fake tensor whose memory host code takes as an array."""
SHOWN = 60
"""Characters of a value shown in a note."""
PROBES = (1.0, 0.0, -1.0, 0.5, 2.0, 3.7, -0.013, 1e-30, 448.5, -65505.0, 1e30, -1e30, math.inf, -math.inf, math.nan)
"""Values substituted in turn for a number that a kernel computes.

A branch on it changes at one of them.
"""


MAX_READS = 5000
"""Most reads of one run: a derivation repeats each in several runs."""

Read = Callable[[Callable[..., Any], tuple[Any, ...], dict[str, Any], str], Any]
"""Read data by a function with arguments.

The last argument is the operator that computed what is read.
"""


@dataclass(frozen=True)
class KernelFloat:
    """Marker of a floating-point number that a kernel computes."""


@dataclass
class DataReads:
    """Values that host code read, in order."""

    values: list[tuple[str, str, Any]] = field(default_factory=list[tuple[str, str, Any]])
    """Source line, operator that computed what is read, and the value."""
    probe: float = PROBES[0]
    """Value returned for a `KernelFloat`."""
    invented: dict[str, None] = field(default_factory=dict[str, None])
    """Lines that read what follows from integers without given values."""
    random: bool = False
    """Whether a value follows from numbers that torch draws."""

    @property
    def kernel_floats(self) -> tuple[str, ...]:
        """Lines that read a number computed by a kernel."""
        return tuple(where for where, _, value in self.values if isinstance(value, KernelFloat))


@contextmanager
def recording(reads: DataReads, written: StorageMarks, placeholders: StorageMarks, random: StorageMarks) -> Generator[None]:
    """Inside the block, append every value that host code reads to `reads`.

    `written` marks what follows from a kernel's output, `placeholders` what follows from values that were not given, `random`
    what follows from numbers that torch draws.
    """

    def record(plain: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], made_by: str) -> Any:
        where, inside_torch = user_line(_modes(plain))
        if inside_torch:
            return plain(*args, **kwargs)
        if written.holds((args, kwargs)):
            if _reads_float(plain, args):
                reads.values.append((where, made_by, KernelFloat()))
                return reads.probe
            raise ReadsDataError(
                f"the host function reads what a kernel computed at {where}, and a derivation runs no kernel",
                "Return the tensor instead of its data, or trace the function.",
            )
        if placeholders.holds((args, kwargs)):
            reads.invented[where] = None
        reads.random |= random.holds((args, kwargs))
        if len(reads.values) == MAX_READS:
            raise ReadsDataError(
                f"the host function reads tensors more than {MAX_READS:,} times, the last time at {where}",
                "Read a tensor as a whole, by tolist(), or trace the function.",
            )
        value = plain(*args, **kwargs)
        reads.values.append((where, made_by, _copied(value)))
        return value

    with _reading_through(record):
        yield


@contextmanager
def replaying(reads: DataReads, symbols: Symbols, exposed: Callable[[Any], None]) -> Generator[None]:
    """Inside the block, return recorded values to host code that reads a tensor.

    They are returned in order. `exposed` is called with a tensor whose memory host code has as an array, and may write.

    Recorded values of another operator on the same line are passed over: on a CPU torch reads more, for its own checks.
    """
    left, assumptions = deque(reads.values), _assumptions(reads)

    def replay(plain: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], made_by: str) -> Any:
        line, inside_torch = user_line(_modes(plain))
        if not inside_torch:
            _record_bytes(plain, args)
        here = takewhile(lambda read: read[0] == line, left)
        at = next((at for at, read in enumerate(here) if read[1] == made_by), None)
        if not inside_torch and at is None and getattr(plain, "__name__", "") == "tolist" and _is_large(args[0]):
            raise reads_data_error()  # as the plain function does, but once it has a tensor for each element
        if inside_torch or at is None:
            return plain(*args, **kwargs)
        for _ in range(at):
            left.popleft()
        where, _, value = left.popleft()
        if isinstance(value, KernelFloat):
            symbols.assume(
                f"the number read at {where} is a kernel's result; the launches are the same at {len(PROBES)} values of it"
            )
            return reads.probe
        symbols.assume(assumptions[where])
        if isinstance(value, np.ndarray):
            exposed(args[0])
        return _copied(value)

    with _reading_through(replay):
        yield


def _record_bytes(plain: Callable[..., Any], args: tuple[Any, ...]) -> None:
    """Record the bytes that a read moves, which is not run."""
    name = getattr(plain, "__name__", "")
    if name in NUMBERS:
        args[0].cpu()
    elif name in COMPARISONS:
        record_read(f"aten.{name}.default", args)


def _assumptions(reads: DataReads) -> dict[str, str]:
    """Return a sentence for each source line that reads data, with the first values."""
    values: dict[str, list[Any]] = {}
    for where, _, value in reads.values:
        values.setdefault(where, []).append(value)
    return {where: f"assumes that the data read at {where} {_shown(read)}" for where, read in values.items()}


def _shown(values: Sequence[Any]) -> str:
    """Return the first characters of the values that one source line reads."""
    starts: list[Any] = [value[:SHOWN] if isinstance(value, list) else value for value in values[:SHOWN]]
    texts = dict.fromkeys(map(repr, starts))
    text = ", ".join(texts)
    times = f" in {len(values):,} reads" if len(values) > 1 else ""
    return f"{'are' if len(texts) > 1 else 'is'} {text if len(text) <= SHOWN else text[:SHOWN] + '...'}{times}"


def _is_large(tensor: Any) -> bool:
    """Return whether a tensor has many elements.

    Symbolic sizes are not evaluated.
    """
    return all(type(size) is int for size in tensor.shape) and tensor.numel() > SHOWN


def _copied(value: Any) -> Any:
    """Return a copy of an array, into which host code may write.

    Anything else is returned itself.
    """
    return value.copy() if isinstance(value, np.ndarray) else value  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]


def _reads_float(plain: Any, args: tuple[Any, ...]) -> bool:
    """Return whether a read gives one floating-point number."""
    is_scalar = getattr(plain, "__name__", "") in ("item", "__float__") or plain is NUMBER
    return is_scalar and bool(args) and isinstance(args[0], torch.Tensor) and args[0].is_floating_point()


def _modes(plain: Callable[..., Any]) -> tuple[str, ...]:
    """Return the files between host code and a read.

    They are those of the modes, where torch itself reads.
    """
    if isinstance(plain, _Dynamic):
        return (*MODE_FILES, *WRAPPERS)
    return MODE_FILES if plain in OPERATORS else ()


@contextmanager
def _reading_through(read: Read) -> Generator[None]:
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
            return tree_map_only(
                torch.Tensor, lambda tensor: _Shape(tuple(tensor.shape), tensor.stride(), tensor.dtype), made[0]
            )

        told = self._read(_Dynamic(shapes), deciding, {}, func._schema.name)
        return made[0] if made else tree_map_only(_Shape, _Shape.empty, told)


def _deciding_shape(func: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the arguments whose data decide the output's shape.

    Of an index those are masks, not its numbers nor what it takes elements of.
    """
    if func._schema.name == "aten::index":
        return tuple(index for index in args[1] if index is not None and index.dtype in (torch.bool, torch.uint8))
    return args[1:] if func._schema.name == "aten::masked_select" else args


class _Dynamic:
    """Marker of a read that torch makes below an operator."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._function(*args, **kwargs)


@dataclass(frozen=True)
class _Shape:
    """Result of an operator, without its data."""

    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: Any

    def empty(self) -> Any:
        """Return a tensor of this shape; `nonzero` returns a transposed one."""
        return torch.empty_strided(self.sizes, self.strides, dtype=self.dtype)

    def __repr__(self) -> str:
        return f"of shape {list(self.sizes)}"


class StorageMarks(OperatorMode):
    """Inside the block, track marked storages, as those that kernels wrote.

    Those that torch computed from them are tracked too.
    """

    def __init__(self) -> None:
        super().__init__()  # pyright: ignore[reportUnknownMemberType]
        self._storages: dict[int, Any] = {}

    def add(self, tensors: Iterable[Any]) -> None:
        """Mark the storages of these tensors."""
        self._storages |= storages(list(tensors))

    def holds(self, values: object) -> bool:
        """Return whether any tensor among the values depends on a marked one."""
        return not self._storages.keys().isdisjoint(storages(values))

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        outcome = func(*args, **(kwargs or {}))
        if self.holds((args, kwargs)) and not takes_shape_only(func._schema.name):
            written = [value for argument, value in zip(func._schema.arguments, args, strict=False) if _is_written(argument)]
            self.add([outcome, *written])
        return outcome


class RandomMarks(StorageMarks):
    """Inside the block, track storages of numbers that torch draws."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        outcome = super().__torch_dispatch__(func, types, args, kwargs)
        if torch.Tag.nondeterministic_seeded in func.tags:
            self.add(strided_tensors(outcome))
        return outcome


def _is_written(argument: Any) -> bool:
    return argument.alias_info is not None and argument.alias_info.is_write
