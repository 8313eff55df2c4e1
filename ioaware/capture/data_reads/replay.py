"""Replay what host code reads from tensors.

It is recorded once with real data and returned in every other run.

The recording run has real CPU tensors and executes no kernel. Values that torch computes are right unless they depend on a
kernel's output. A read that depends on a kernel is refused, but for two. Of a floating-point number the other runs get several
values, and of the number of elements that a mask selects one run gets an unknown. All must make the same launches.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from contextlib import contextmanager
from itertools import takewhile
from typing import Any

import numpy as np
import torch
from torch.utils._pytree import tree_map

from ioaware.capture.data_reads.interception import COMPARISONS, MAX_READS, NUMBER, DynamicShape, Shape, modes, reading_through
from ioaware.capture.data_reads.read_values import PROBES, SHOWN, DataRead, DataReads, KernelFloat, KernelShape, assumptions
from ioaware.capture.data_reads.storage_marks import StorageMarks
from ioaware.fakegpu.host_tensors import NUMBERS, record_read
from ioaware.symints.host_line import ReadsDataError, reads_data_error, user_line
from ioaware.symints.symbols import Symbols

NUMPY_REFUSED = ".numpy() is not supported for tensor subclasses"
"""What torch says of a fake tensor whose memory host code takes as an array."""


@contextmanager
def recording(reads: DataReads, written: StorageMarks, placeholders: StorageMarks, random: StorageMarks) -> Generator[None]:
    """Inside the block, append every value that host code reads to `reads`.

    `written` marks what follows from a kernel's output, `placeholders` what follows from values that were not given, `random`
    what follows from numbers that torch draws.
    """

    def record(plain: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], made_by: str) -> Any:
        where, inside_torch = user_line(modes(plain))
        if inside_torch:
            return plain(*args, **kwargs)
        if written.holds((args, kwargs)):
            if _reads_float(plain, args):
                reads.values.append(DataRead(where, made_by, KernelFloat()))
                return reads.probe
            if isinstance(plain, DynamicShape) and (shapes := plain.extremes()):
                reads.values.append(DataRead(where, made_by, KernelShape(*shapes)))
                return plain(*args, **kwargs)
            raise ReadsDataError(
                f"the host function reads what a kernel computed at {where}, and a derivation runs no kernel",
                "Return the tensor instead of its data, or trace the function.",
            )
        if placeholders.holds((args, kwargs)):
            reads.invented[where] = None
        if len(reads.values) == MAX_READS:
            raise ReadsDataError(
                f"the host function reads tensors more than {MAX_READS:,} times, the last time at {where}",
                "Read a tensor as a whole, by tolist(), or trace the function.",
            )
        value = plain(*args, **kwargs)
        reads.values.append(DataRead(where, made_by, _copied(value), random.holds((args, kwargs))))
        return value

    with reading_through(record):
        yield


@contextmanager
def replaying(reads: DataReads, symbols: Symbols, exposed: Callable[[Any], None]) -> Generator[None]:
    """Inside the block, return recorded values to host code that reads a tensor.

    They are returned in order. `exposed` is called with a tensor whose memory host code has as an array, and may write.

    Recorded values of another operator on the same line are passed over: on a CPU torch reads more, for its own checks.
    """
    left, said = deque(reads.values), assumptions(reads)

    def replay(plain: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], made_by: str) -> Any:
        line, inside_torch = user_line(modes(plain))
        if not inside_torch:
            _record_bytes(plain, args)
        here = takewhile(lambda read: read.where == line, left)
        at = next((at for at, read in enumerate(here) if read.made_by == made_by), None)
        if not inside_torch and at is None and getattr(plain, "__name__", "") == "tolist" and _is_large(args[0]):
            raise reads_data_error()  # as the plain function does, but once it has a tensor for each element
        if inside_torch or at is None:
            return plain(*args, **kwargs)
        for _ in range(at):
            left.popleft()
        read = left.popleft()
        where, value = read.where, read.value
        if isinstance(value, KernelFloat):
            symbols.assume(
                f"the number read at {where} is a kernel's result; the launches are the same at {len(PROBES)} values of it"
            )
            return reads.probe
        if isinstance(value, KernelShape):
            symbols.assume(
                f"a kernel decides how many elements are selected at {where}: no launch depends on it, and torch's bytes are "
                "those for all elements"
            )
            return _selected(value, symbols) if reads.unknown_sizes else value.of_all
        symbols.assume(said[where])
        if isinstance(value, np.ndarray):
            exposed(args[0])
        return _copied(value)

    with reading_through(replay):
        yield


def _record_bytes(plain: Callable[..., Any], args: tuple[Any, ...]) -> None:
    """Record the bytes that a read moves, which is not run."""
    name = getattr(plain, "__name__", "")
    if name in NUMBERS:
        args[0].cpu()
    elif name in COMPARISONS:
        record_read(f"aten.{name}.default", args)


def _is_large(tensor: Any) -> bool:
    """Return whether a tensor has many elements.

    Symbolic sizes are not evaluated.
    """
    return all(type(size) is int for size in tensor.shape) and tensor.numel() > SHOWN


def _selected(value: KernelShape, symbols: Symbols) -> Any:
    """Return results of a size that host code cannot know."""
    size: Any = symbols.shapes.create_unbacked_symint()

    def tensor(one: Shape, other: Shape) -> Any:
        return one.with_unknown_size(other, size)

    return tree_map(tensor, value.of_all, value.of_none)


def _copied(value: Any) -> Any:
    """Return a copy of an array, into which host code may write.

    Anything else is returned itself.
    """
    return value.copy() if isinstance(value, np.ndarray) else value  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]


def _reads_float(plain: Any, args: tuple[Any, ...]) -> bool:
    """Return whether a read gives one floating-point number."""
    is_scalar = getattr(plain, "__name__", "") in ("item", "__float__") or plain is NUMBER
    return is_scalar and bool(args) and isinstance(args[0], torch.Tensor) and args[0].is_floating_point()
