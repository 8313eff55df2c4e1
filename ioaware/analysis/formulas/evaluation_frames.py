"""Evaluate each part of a formula once per set of points over which it varies.

Such a set is a frame: the requested points, the terms of a sum over them, or the points of a branch. Parts that do not vary
with a sum's index are computed in the surrounding frame and repeated for the terms.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from ioaware.analysis.formulas.exact_ratio import Array, Ratio, Whole


class Node(Protocol):
    """Part of a formula: its symbols, summation index, parts, and whether shared.

    The index that it sums over may be none.
    """

    names: frozenset[str]
    index: str | None
    parts: Sequence[Node]
    shared: bool

    def compute(self, frame: Frame) -> Ratio:
        """Compute the value in a frame from those of its parts."""
        ...


class Frame:
    """Points with symbol values: `size` of them, or None for one point of plain ints."""

    __slots__ = ("_around", "_at", "_found", "_own", "size")

    def __init__(
        self, size: int | None, own: Mapping[str, Whole], around: Frame | None = None, at: Array | None = None
    ) -> None:
        self.size, self._own, self._around, self._at = size, own, around, at
        self._found: dict[Node, Ratio] = {}

    def of(self, node: Node) -> Ratio:
        """Return the value of a node, computed in the outermost frame that it varies in."""
        around = self._around
        if around is None or not node.parts or not node.names.isdisjoint(self._own):
            return self._here(node)
        return self._repeated(node, around)

    def _here(self, node: Node) -> Ratio:
        if not node.shared:
            return node.compute(self)
        found = self._found.get(node)
        if found is None:
            found = self._found[node] = node.compute(self)
        return found

    def _repeated(self, node: Node, around: Frame) -> Ratio:
        found = self._found.get(node)
        if found is None:
            above, below = around.kept(node)
            found = self._found[node] = self._taken(above), self._taken(below)
        return found

    def kept(self, node: Node) -> Ratio:
        """Return `of`, memoised: it is used for each chunk of a sum's terms."""
        found = self._found.get(node)
        if found is None:
            found = self._found[node] = self.of(node)
        return found

    def symbol(self, name: str) -> Whole:
        """Return the values of a symbol."""
        if name in self._own or self._around is None:
            return self._own[name]
        return self._taken(self._around.symbol(name))

    def _taken(self, value: Whole) -> Whole:
        return value if isinstance(value, int) or self._at is None else value.taken(self._at)

    def part(self, at: Array, names: Iterable[str]) -> Frame:
        """Return a frame of some of the points, with the values of these symbols."""
        values = {name: self.symbol(name) for name in names}
        own = {name: value if isinstance(value, int) else value.taken(at) for name, value in values.items()}
        return Frame(len(at), own)
