"""Make `min` and `max` of symbolic integers symbolic.

Python's own take a branch and drop the other side.

Persistent kernels are launched with `grid = min(NUM_SMS, tiles)`. Expressions without a plain formula, such as powers of two,
are compared as Python does.
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
def symbolic_minmax() -> Generator[None]:
    """Inside the block, make `min` and `max` of `torch.SymInt`s symbolic.

    In user code they return a `torch.SymInt`.
    """
    with Patches() as patches:
        patches.set(builtins, "min", _or_symbolic(builtins.min, _torch.sym_min))
        patches.set(builtins, "max", _or_symbolic(builtins.max, _torch.sym_max))
        yield


def _or_symbolic(plain: Callable[..., Any], symbolic: Callable[[Any, Any], Any]) -> Callable[..., Any]:
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
