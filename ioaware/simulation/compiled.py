"""Compile loops over millions of events to machine code, once for every machine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, cast

import numba

P = ParamSpec("P")
T = TypeVar("T")


def compiled(function: Callable[P, T]) -> Callable[P, T]:
    """Return the function as Numba compiles it when it is first called.

    The code is kept beside the file, or in the user's cache where that cannot be written. With `NUMBA_DISABLE_JIT=1` it runs as
    Python.
    """
    decorate: Any = numba.njit(cache=True)
    return cast("Callable[P, T]", decorate(function))
