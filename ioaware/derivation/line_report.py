"""Attribute the bytes of a kernel to its source lines."""

from __future__ import annotations

import ast
import linecache
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

import sympy

from ioaware.analysis.ir import Access, Count, KernelTraffic
from ioaware.derivation.derived import Derived
from ioaware.symints.guards import Condition

KINDS = {"read": "reads", "write": "writes", "atomic": "atomics"}


@dataclass(frozen=True, slots=True)
class Line:
    """A source line and its memory instructions.

    Those in functions that it calls are included.
    """

    number: int
    text: str
    accesses: tuple[Access, ...] = ()

    @property
    def bytes(self) -> Count:
        """Bytes of the instructions together."""
        return _total(access.bytes for access in self.accesses)

    @property
    def executions(self) -> tuple[Count, ...]:
        """Distinct execution counts of the instructions per launch."""
        return tuple(dict.fromkeys(access.executions for access in self.accesses))

    @property
    def beyond(self) -> str:
        """Tensors that the instructions leave, and when; empty for none."""
        return "; ".join(dict.fromkeys(access.beyond for access in self.accesses if access.beyond))

    @property
    def kinds(self) -> str:
        """`reads`, `writes`, `atomics`, or several of them."""
        return ", ".join(KINDS[kind] for kind in KINDS if any(access.kind == kind for access in self.accesses))


@dataclass(frozen=True, slots=True)
class Section:
    """The kernel, or a function that it calls, with its source lines."""

    function: str
    path: str
    lines: tuple[Line, ...]


@dataclass(frozen=True, slots=True)
class Explanation:
    """One kernel launch: its functions, the kernel first, and its total bytes."""

    kernel: str
    sections: tuple[Section, ...]
    bytes: Count
    unplaced: tuple[Access, ...] = field(default=())
    """Instructions without a line of a readable file."""
    conditions: tuple[Condition, ...] = ()
    """The conditions of the formulas."""
    launches: int = 1
    """Number of identical launches in the work."""


def explain(result: Derived) -> list[Explanation]:
    """Return the distinct kernels of a derived result, line by line."""
    kernels = {kernel: held for kernel, held in zip(result.kernels, result.holds, strict=True) if kernel is not None}
    times = Counter(kernel for kernel in result.kernels if kernel is not None)
    return [replace(_explanation(kernel), conditions=held, launches=times[kernel]) for kernel, held in kernels.items()]


def value(count: Count, values: Mapping[str, int]) -> int | None:
    """Return a count at the given values; None where it depends on data."""
    return None if count.symbols - values.keys() else cast(int, count.evaluate(values))


def share(part: Count, whole: Count, values: Mapping[str, int]) -> float | None:
    """Return `part` as a fraction of `whole` at the given values.

    None where it depends on data.
    """
    bytes_, total = value(part, values), value(whole, values)
    return None if bytes_ is None or total is None else bytes_ / total if total else 0.0


def _explanation(kernel: KernelTraffic) -> Explanation:
    placed: dict[_Function, dict[int, list[Access]]] = {}
    unplaced: list[Access] = []
    for access in sorted(kernel.accesses, key=lambda access: -len(access.frames)):
        frames = [(function, number) for path, number in map(_split, access.frames) if (function := enclosing(path, number))]
        if not frames:
            unplaced.append(access)
        for function, number in reversed(frames):  # callers first, so that the kernel itself comes first
            there = placed.setdefault(function, {}).setdefault(number, [])
            if access not in there:
                there.append(access)
    sections = tuple(Section(function.name, function.path, _lines(function, at)) for function, at in placed.items())
    first = sorted(sections, key=lambda section: section.function != kernel.kernel)
    return Explanation(kernel.kernel, tuple(first), _total(a.bytes for a in kernel.accesses), tuple(unplaced))


@dataclass(frozen=True, slots=True)
class _Function:
    path: str
    name: str
    first: int
    last: int


def _lines(function: _Function, accesses: dict[int, list[Access]]) -> tuple[Line, ...]:
    return tuple(
        Line(number, linecache.getline(function.path, number).rstrip("\n"), tuple(accesses.get(number, ())))
        for number in range(function.first, function.last + 1)
    )


def _split(frame: str) -> tuple[str, int]:
    path, _, number = frame.rpartition(":")
    return path, int(number) if number.isdecimal() else 0


def enclosing(path: str, number: int) -> _Function | None:
    """Return the innermost function around a line.

    None where there is none or the file is unreadable.
    """
    around = [function for function in _functions(path) if function.first <= number <= function.last]
    return max(around, key=lambda function: function.first, default=None)


@lru_cache(maxsize=64)
def _functions(path: str) -> tuple[_Function, ...]:
    try:
        tree = ast.parse(Path(path).read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError):
        return ()
    return tuple(
        _Function(path, node.name, node.lineno, node.end_lineno or node.lineno)
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
    )


def _total(parts: Iterator[Count] | Sequence[Count] | Any) -> Count:
    return sum(parts, Count(sympy.S.Zero))
