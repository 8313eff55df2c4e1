"""`min` and `max` of symbolic integers in host code as expressions: Python's own would take a branch and forget the other side.

`grid = min(NUM_SMS, tiles)` is how persistent kernels are launched, at every size. What has no formula, as the
powers of two that blocks are rounded up to, is compared as Python does.
"""

from __future__ import annotations

import builtins
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import reduce
from typing import Any

import torch

from ioaware._monkeypatch import Patches
from ioaware.compilation.launches import items_of
from ioaware.symints.to_sympy import has_plain_form
from ioaware.targets.loading import is_library

_torch: Any = torch


@contextmanager
def symbolic_extremes() -> Generator[None]:
    """While it lasts, `min` and `max` called by the user's code with a `torch.SymInt` give one; else they are Python's."""
    with Patches() as patches:
        patches.set(builtins, "min", _extreme(builtins.min, _torch.sym_min))
        patches.set(builtins, "max", _extreme(builtins.max, _torch.sym_max))
        yield


def _extreme(plain: Callable[..., Any], symbolic: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def chosen(*args: Any, **kwargs: Any) -> Any:
        given = (items_of(args[0]) if len(args) == 1 else None) or args
        integers = not kwargs and all(isinstance(value, (int, torch.SymInt)) for value in given)
        if not integers or not any(isinstance(value, torch.SymInt) for value in given):
            return plain(*args, **kwargs)
        symbols: list[Any] = [value for value in given if isinstance(value, torch.SymInt)]
        caller = sys._getframe(1).f_code.co_filename  # pyright: ignore[reportPrivateUsage]
        if is_library(caller) or not all(has_plain_form(value.node.expr) for value in symbols):
            return plain(*args, **kwargs)
        return reduce(symbolic, given)

    return chosen
