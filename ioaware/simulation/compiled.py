"""Compile loops over millions of events to machine code, once for every machine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, cast

import numba

P = ParamSpec("P")
T = TypeVar("T")
JIT = cast("Callable[..., Any]", numba.njit)
"""Its types leave out the options used here."""


def compiled(function: Callable[P, T]) -> Callable[P, T]:
    """Return the function as Numba compiles it when it is first called.

    It may not allocate arrays: references to them are not counted, which took most of the time. The code is kept beside the
    file, or in the user's cache where that cannot be written. With `NUMBA_DISABLE_JIT=1` it runs as Python.
    Numba looks at the time of this function's file alone: delete `__pycache__/*.nb?` after a change in what it calls.
    """
    decorate = JIT(cache=True, error_model="numpy", _nrt=False)
    return cast("Callable[P, T]", decorate(function))


def inlined(function: Callable[P, T]) -> Callable[P, T]:
    """Return a function that becomes part of the compiled functions that call it."""
    decorate = JIT(forceinline=True, error_model="numpy", _nrt=False)
    return cast("Callable[P, T]", decorate(function))
