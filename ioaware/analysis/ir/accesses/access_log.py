"""Log the accesses and matrix products of one interpreted kernel.

The loops around them are logged too.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeAlias

from ioaware.analysis.ir.accesses.kernel_traffic import AccessKind
from ioaware.analysis.ir.accesses.values import Target
from ioaware.analysis.ir.algebra.poly import ZERO, Poly, Symbol


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop over `index` from `low` to `high`, exclusive.

    `source` is (start, stop, step) of the code.
    """

    index: Symbol
    low: Poly
    high: Poly
    source: tuple[Poly, Poly, Poly] | None = None


@dataclass(frozen=True, slots=True)
class Condition:
    """A branch that is taken where its condition is 1."""

    truth: Poly


Scope: TypeAlias = Loop | Condition


@dataclass(frozen=True, slots=True)
class Touch:
    """One memory instruction: lanes of `shape` under `mask`, in lane symbols."""

    kind: AccessKind
    operation: str
    target: Target
    shape: tuple[int, ...]
    element_bytes: int
    mask: Poly
    scopes: tuple[Scope, ...]
    frames: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Product:
    """One `tt.dot` with its FLOPs, and its first operand's element type in MLIR."""

    flops: int
    element: str
    scopes: tuple[Scope, ...]
    frames: tuple[str, ...]


@dataclass
class Recorder:
    """Collect accesses and products in program order; a dry run records nothing."""

    touches: list[Touch] = field(default_factory=list[Touch])
    products: list[Product] = field(default_factory=list[Product])
    notes: dict[str, None] = field(default_factory=dict[str, None])
    assumptions: dict[str, None] = field(default_factory=dict[str, None])
    widths: dict[tuple[Poly, int], str] = field(default_factory=dict[tuple[Poly, int], str])
    """Integers that must fit in so many bits, and the line that uses them."""
    steps: dict[Poly, str] = field(default_factory=dict[Poly, str])
    """Steps of loops, which must be positive, and the line of each loop."""
    scopes: tuple[Scope, ...] = ()
    rehearsing: int = 0

    @contextmanager
    def inside(self, scope: Scope) -> Generator[None]:
        """Put the records of the block inside `scope`."""
        before = self.scopes
        self.scopes = (*before, scope)
        try:
            yield
        finally:
            self.scopes = before

    @contextmanager
    def rehearsal(self) -> Generator[None]:
        """Record nothing in the block."""
        self.rehearsing += 1
        try:
            yield
        finally:
            self.rehearsing -= 1

    @property
    def unreachable(self) -> bool:
        """Return whether a surrounding condition is always false."""
        return any(isinstance(scope, Condition) and scope.truth == ZERO for scope in self.scopes)

    def touch(
        self,
        kind: AccessKind,
        operation: str,
        target: Target,
        shape: tuple[int, ...],
        width: int,
        mask: Poly,
        frames: tuple[str, ...],
    ) -> None:
        if not self.rehearsing and not self.unreachable:
            self.touches.append(Touch(kind, operation, target, shape, width, mask * target.condition, self.scopes, frames))

    def product(self, flops: int, element: str, frames: tuple[str, ...]) -> None:
        if not self.rehearsing and not self.unreachable:
            self.products.append(Product(flops, element, self.scopes, frames))

    def assume(self, text: str) -> None:
        """Add an assumption under which counts are exact."""
        if not self.rehearsing:
            self.assumptions[text] = None

    def note(self, text: str) -> None:
        """Add a reason why counts are not exact."""
        if not self.rehearsing:
            self.notes[text] = None
