"""Represent values of the IR as expressions in lane indices.

The values are integers, truth values and pointer targets.

A lane index is a symbol named by dimension and size: one expression serves all elements of a tensor. A tensor that varies along
one dimension only has that dimension's symbol alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod

from ioaware.analysis.ir.algebra.constructors import floor_div, mod, substitute
from ioaware.analysis.ir.algebra.poly import ONE, ZERO, Poly, Symbol, Unknown, parts, poly
from ioaware.analysis.ir.algebra.predicates import choice
from ioaware.analysis.ir.mlir.types import Type

UNDEFINED = "it is undefined in the compiled kernel, as a loop's index is after its loop"
"""Reason of an unknown that nothing defines."""
CARRIED = ":carried"
"""Suffix of the name of a loop-carried value while its loop is solved."""


@dataclass(frozen=True, slots=True)
class Target:
    """Target of a pointer when `condition` is 1.

    It lies `offset` bytes after the start of an argument.
    """

    argument: str
    offset: Poly
    condition: Poly = ONE


@dataclass(frozen=True, slots=True)
class TensorDescriptor:
    """Tensor in memory as the TMA addresses it; shape and strides in elements."""

    target: Target
    shape: tuple[Poly, ...]
    strides: tuple[Poly, ...]
    block: Type


@dataclass(frozen=True, slots=True)
class Value:
    """`number` for integers and truth values, `targets` for pointers.

    Floats have neither. All in lane symbols.
    """

    type: Type
    number: Poly | None = None
    targets: tuple[Target, ...] = ()
    descriptor: TensorDescriptor | None = None

    def mapped(self, kind: Type, change: Callable[[Poly], Poly]) -> Value:
        """Return a value of type `kind` with every expression changed."""
        return Value(
            kind,
            None if self.number is None else change(self.number),
            tuple(replace(t, offset=change(t.offset), condition=change(t.condition)) for t in self.targets),
            self.descriptor,
        )


@lru_cache(maxsize=256)
def lane_symbol(dimension: int, size: int) -> Symbol:
    """Return the index along a dimension of a tensor."""
    return Symbol(f"lane{dimension}", ZERO, poly(size - 1))


def lane(dimension: int, size: int) -> Poly:
    """Return the index along a dimension, 0 where it has one lane."""
    return ZERO if size == 1 else poly(lane_symbol(dimension, size))


def lanes(shape: Sequence[int]) -> list[Poly]:
    """Return the indices of a tensor of this shape."""
    return [lane(dimension, size) for dimension, size in enumerate(shape)]


def relabel(value: Value, kind: Type, indices: Sequence[Poly]) -> Value:
    """Return the tensor of type `kind` with the elements of `value` at `indices`.

    `indices` holds one expression for each dimension of `value`.
    """
    by = {
        lane_symbol(dimension, size).key: index
        for dimension, (size, index) in enumerate(zip(value.type.shape, indices, strict=True))
        if size > 1
    }
    return value.mapped(kind, lambda expression: substitute(expression, by))


def index_symbols(values: Sequence[Value]) -> list[Symbol]:
    """Return the indices that these values vary with.

    They are those of lanes, loops and programs, and symbols of carried values.
    """
    found: dict[str, Symbol] = {}
    for value in values:
        expressions = [value.number] if value.number is not None else []
        for expression in (*expressions, *(part for t in value.targets for part in (t.offset, t.condition))):
            found.update((symbol.key, symbol) for symbol in _indices(expression))
    return [found[key] for key in sorted(found)]


@lru_cache(maxsize=20_000)
def _indices(expression: Poly) -> tuple[Symbol, ...]:
    found: dict[str, Symbol] = {}
    for atom in expression.atoms:
        if isinstance(atom, Symbol):
            counts = atom.upper is not None or atom.lower == ZERO  # the index of a while loop has no end yet
            inside = (atom,) if counts or atom.name.endswith(CARRIED) else ()
        else:
            inner = atom.args if isinstance(atom, Unknown) else parts(atom)
            inside = tuple(symbol for part in inner for symbol in _indices(part))
        found.update((symbol.key, symbol) for symbol in inside)
    return tuple(found.values())


def reshape(value: Value, kind: Type) -> Value:
    """Return the same elements in row-major order under another shape."""
    flat = ZERO
    for size, index in zip(kind.shape, lanes(kind.shape), strict=True):
        flat = flat * size + index
    indices: list[Poly] = []
    for dimension in range(len(value.type.shape)):
        inner = prod(value.type.shape[dimension + 1 :])
        indices.append(mod(floor_div(flat, poly(inner)), poly(value.type.shape[dimension])))
    return relabel(value, kind, indices)


def is_undefined(value: Value) -> bool:
    """Return whether a value is undefined in the compiled kernel.

    Any other value may take the place of an undefined one.
    """
    expressions = [value.number] if value.number is not None else [target.offset for target in value.targets]
    atoms = [expression.atom for expression in expressions]
    return bool(atoms) and all(isinstance(atom, Unknown) and atom.why == UNDEFINED for atom in atoms)


def select(condition: Poly, then: Value, other: Value) -> Value:
    """Return `then` where the condition is 1, else `other`.

    An undefined value gives way to the other.
    """
    if is_undefined(then) or is_undefined(other):
        return other if is_undefined(then) else then
    number = None
    if then.number is not None and other.number is not None:
        number = choice(condition, then.number, other.number)
    if then.targets == other.targets:
        return Value(then.type, number, then.targets, then.descriptor)
    if len(then.targets) == len(other.targets) == 1 and then.targets[0].argument == other.targets[0].argument:
        offset = choice(condition, then.targets[0].offset, other.targets[0].offset)
        return Value(then.type, number, (replace(then.targets[0], offset=offset),), then.descriptor)
    targets = [replace(t, condition=t.condition * condition) for t in then.targets]
    targets += [replace(t, condition=t.condition * (1 - condition)) for t in other.targets]
    return Value(then.type, number, tuple(t for t in targets if t.condition != ZERO), then.descriptor)
