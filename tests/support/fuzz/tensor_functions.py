"""Functions of Triton's language on whole tensors of integers, in numpy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tests.support.fuzz.numbers import Number, number


def tensor_functions() -> dict[str, Callable[..., Any]]:
    """Return the functions by their names in `triton.language`."""
    return {
        "associative_scan": _scan,
        "cumsum": lambda x, axis: Number(np.cumsum(x.data, axis)),
        "gather": lambda x, index, axis: Number(np.take_along_axis(x.data, index.data, axis)),
        "flip": lambda x, axis: Number(np.flip(x.data, axis)),
        "reshape": lambda x, shape: Number(x.data.reshape(tuple(map(int, shape)))),
        "join": lambda a, b: Number(np.stack([a.data, b.data], -1)),
        "interleave": lambda a, b: Number(np.stack([a.data, b.data], -1).reshape(-1)),
        "cat": lambda a, b, can_reorder: Number(np.concatenate([a.data, b.data])),
        "split": lambda x: (Number(x.data[..., 0]), Number(x.data[..., 1])),
        "histogram": lambda x, bins: Number(np.bincount(x.data.astype(int), minlength=bins)[:bins]),
        "ravel": lambda x: Number(x.data.reshape(-1)),
        "reduce": _reduce,
        "argmax": lambda x, axis: Number(np.argmax(x.data, axis)),
        "max": lambda x, axis: Number(np.max(x.data, axis)),
        "min": lambda x, axis: Number(np.min(x.data, axis)),
        "inline_asm_elementwise": lambda text, constraints, values, **_: values[0],
        "swizzle2d": _swizzle2d,
    }


def _scan(x: Number, axis: int, combine: Callable[[Number, Number], Number]) -> Number:
    """Return the inclusive scan of a tensor of one dimension."""
    assert axis == 0
    found: list[Any] = []
    for value in x.data:
        found.append(number(value) if not found else combine(found[-1], number(value)))
    return Number(np.array([each.data for each in found]))


def _reduce(x: Number | Sequence[Number], axis: int, combine: Callable[..., Any]) -> Any:
    """Return the reduction of a tensor, or of several at once, along an axis."""
    parts = x if isinstance(x, tuple) else (x,)
    slices = zip(*(np.moveaxis(part.data, axis, 0) for part in parts), strict=True)
    found, *others = [tuple(map(number, each)) for each in slices]
    for other in others:
        combined = combine(*found, *other)
        found = combined if isinstance(combined, tuple) else (combined,)
    return found if isinstance(x, tuple) else found[0]


def _swizzle2d(i: Any, j: Any, size_i: Any, size_j: Any, size_g: int) -> Sequence[Number]:
    """Return the tile of a pair of indices, as in Triton's documentation.

    Rows are in groups of `size_g`; within a group, columns come first.
    """
    at = number(i) * size_j + j
    in_group = number(size_j) * size_g
    group = at // in_group
    first = group * size_g
    rows = Number(np.minimum((number(size_i) - first).data, size_g))
    at = at % in_group
    return first + at % rows, at // rows
