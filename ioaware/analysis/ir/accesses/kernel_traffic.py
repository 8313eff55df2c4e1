"""Define inputs and results of the analysis.

They are launch arguments, and each access with its formulas and source line.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, TypeAlias

import numpy as np
import sympy
from sympy import Expr

from ioaware.analysis.formulas.evaluate import compile_expression
from ioaware.analysis.formulas.exact_ratio import Number
from ioaware.analysis.formulas.functions import free_symbols
from ioaware.analysis.formulas.printing import show


@dataclass(frozen=True, slots=True)
class Pointer:
    """Pointer argument into `tensor`: `offset_bytes` after an aligned address.

    The address is aligned to 32 bytes, as torch's allocations are.
    """

    name: str
    tensor: str = ""
    offset_bytes: Expr | int = 0
    memory: str = ""
    """Name of its memory, equal for arguments that share memory.

    Empty where it shares none.
    """
    size_bytes: Expr | int | None = None
    """Bytes of the memory that `offset_bytes` counts in; None where unknown."""
    elements: Expr | int | None = None
    """Elements of the tensor; one without elements is passed as a null pointer.

    None where unknown.
    """


@dataclass(frozen=True, slots=True)
class Scalar:
    """Number argument, in the caller's symbols.

    Declare `positive=True` on a symbol that is never 0.
    """

    name: str
    value: Expr | int | float | bool


@dataclass(frozen=True, slots=True)
class Descriptor:
    """Tensor descriptor made on the host: shape and strides in elements.

    Both are in the caller's symbols.
    """

    name: str
    shape: Sequence[Expr | int]
    strides: Sequence[Expr | int]
    tensor: str = ""
    memory: str = ""


Argument: TypeAlias = Pointer | Scalar | Descriptor
AccessKind: TypeAlias = Literal["read", "write", "atomic"]


@dataclass(frozen=True)
class Count:
    """A number as a formula. Equal formulas are equal counts.

    `at_most` marks an upper bound: data mask lanes, or skip what is counted.
    """

    expr: Expr
    at_most: bool = False

    @property
    def closed(self) -> bool:
        """Return whether no sum is left unevaluated."""
        return not self.expr.has(sympy.Sum)  # pyright: ignore[reportUnknownMemberType]

    @property
    def symbols(self) -> frozenset[str]:
        """Return the names that `evaluate` needs, including unknowns that data decide."""
        return frozenset(map(str, free_symbols(self.expr)))

    def evaluate(self, values: Mapping[str, Number]) -> Number:
        """Return the exact value, at one point of ints or at many points of int64 arrays.

        Raises as `compile_expression` does.
        """
        return compile_expression(self.expr)(values)

    def __add__(self, other: Count) -> Count:
        return Count(self.expr + other.expr, self.at_most or other.at_most)

    def __str__(self) -> str:
        return f"<= {show(self.expr)}" if self.at_most else show(self.expr)


@dataclass(frozen=True)
class Access:
    """One memory instruction, over all programs of the launch.

    `elements` counts active lanes.

    `sectors` counts the 32-byte sectors of each execution; None for atomics and where they depend on data. `executions` is how
    often the launch runs it. `frames` are `file:line`, the instruction's own line first, then its callers. `beyond` says when
    it leaves its tensor, as `x unless n % 256 == 0`.
    """

    kind: AccessKind
    operation: str
    tensor: str
    elements: Count
    element_bytes: int
    executions: Count
    sectors: Count | None
    frames: tuple[str, ...]
    exact: bool = True
    sectors_exact: bool = True
    notes: tuple[str, ...] = ()
    beyond: str = ""

    @cached_property
    def bytes(self) -> Count:
        """Return the bytes of the active lanes."""
        return replace(self.elements, expr=self.element_bytes * self.elements.expr)

    @property
    def source(self) -> str:
        """Return `file:line` of the instruction; empty where the compiler left none."""
        return self.frames[0] if self.frames else ""


@dataclass(frozen=True)
class Limit:
    """Condition of the counts: `value` <= `most`.

    `reason` is what happens elsewhere, a clause with its line.
    """

    value: Count
    most: int
    reason: str

    def broken(self, values: Mapping[str, Number]) -> bool:
        """Return whether the condition fails at these values.

        Where they are arrays, it fails at one of them.
        """
        return bool(np.any(np.asarray(self.value.evaluate(values)) > self.most))

    def __str__(self) -> str:
        return f"{self.value} <= {self.most}"


@dataclass(frozen=True)
class KernelTraffic:
    """Requests of one launch.

    `exact` is False where a count depends on data; the notes give the reason.
    """

    kernel: str
    accesses: tuple[Access, ...]
    read_bytes: Count
    write_bytes: Count
    atomic_bytes: Count
    read_sector_bytes: Count | None
    write_sector_bytes: Count | None
    flops: Count
    exact: bool = True
    sectors_exact: bool = True
    notes: tuple[str, ...] = ()
    limits: tuple[Limit, ...] = ()
    """Conditions on the parameters under which the counts are exact.

    They say that integers of 32 bits do not wrap around, and that loops step upwards.
    """
    matmul_types: tuple[str, ...] = ()
    """Element types of the products' first operands, by MLIR's names."""
