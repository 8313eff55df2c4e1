"""A cache of results that later derivations leave as it is.

A derivation clears the `functools.cache` of host code, which the tests' modules are.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any


class lasting_cache:  # noqa: N801 - a decorator
    """Call a function once for each of its arguments."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._cached = cache(function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._cached(*args, **kwargs)
