"""What interpreting a kernel leaves behind: accesses and products of matrices, with the loops and conditions around them."""

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
    """The index runs from `low` up to `high`, exclusive. `source` is what the code says: start, stop and step."""

    index: Symbol
    low: Poly
    high: Poly
    source: tuple[Poly, Poly, Poly] | None = None


@dataclass(frozen=True, slots=True)
class Condition:
    """What is inside happens where `truth` is 1."""

    truth: Poly


Scope: TypeAlias = Loop | Condition


@dataclass(frozen=True, slots=True)
class Touch:
    """One instruction that touches memory: lanes of `shape` under `mask`, all in lane symbols."""

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
    """One `tt.dot` of so many FLOPs."""

    flops: int
    scopes: tuple[Scope, ...]
    frames: tuple[str, ...]


@dataclass
class Recorder:
    """Collects touches and products in program order, unless it only rehearses."""

    touches: list[Touch] = field(default_factory=list[Touch])
    products: list[Product] = field(default_factory=list[Product])
    notes: dict[str, None] = field(default_factory=dict[str, None])
    assumptions: dict[str, None] = field(default_factory=dict[str, None])
    scopes: tuple[Scope, ...] = ()
    rehearsing: int = 0

    @contextmanager
    def inside(self, scope: Scope) -> Generator[None]:
        """What is recorded in the block happens inside `scope`."""
        before = self.scopes
        self.scopes = (*before, scope)
        try:
            yield
        finally:
            self.scopes = before

    @contextmanager
    def rehearsal(self) -> Generator[None]:
        """Nothing is recorded in the block."""
        self.rehearsing += 1
        try:
            yield
        finally:
            self.rehearsing -= 1

    @property
    def unreachable(self) -> bool:
        """Whether a condition around is certainly false."""
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

    def product(self, flops: int, frames: tuple[str, ...]) -> None:
        if not self.rehearsing and not self.unreachable:
            self.products.append(Product(flops, self.scopes, frames))

    def assume(self, text: str) -> None:
        """What counts are exact under."""
        if not self.rehearsing:
            self.assumptions[text] = None

    def note(self, text: str) -> None:
        """What keeps counts from being exact."""
        if not self.rehearsing:
            self.notes[text] = None
