"""Let Python's functions of numbers keep symbolic numbers symbolic.

`int(n)` and `math.sqrt(n)` are plain numbers, and `min(n, 64)` takes a branch and drops the other side. Each specialises n.
Libraries have Python's own functions.
"""

from __future__ import annotations

import builtins
import inspect
import math
import operator
import sys
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from functools import reduce
from types import CodeType
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._sympy import functions as _functions

from ioaware.compilation.launches import items_of
from ioaware.fakegpu.replaced_names import replaced_names
from ioaware.symints.number_types import STAND_INS, replaceable_types
from ioaware.symints.to_sympy import has_plain_form
from ioaware.targets.loading import is_library

_torch: Any = torch
FUNCTIONS = ("sqrt", "exp", "log", "log2")
"""Functions of `math` on symbols. Others specialise."""
LARGEST_DIVISOR = 2**16
"""Greatest plain number of a `math.gcd` that is a condition on the symbolic one."""
MODULES_OF_TORCH = ("nn/init.py", "nn/functional.py", "modules/linear.py", "modules/conv.py", "modules/rnn.py")
"""Code of torch that takes roots of widths.

They are bounds of random numbers, which have no values here, or the scale of attention.
"""


@contextmanager
def symbolic_builtins(executed: Mapping[CodeType, dict[str, Any]]) -> Generator[None]:
    """Keep numbers symbolic inside the block.

    `executed` has the host code that runs, with its global variables. Its `int`, `float`, `abs` and `len` are replaced.
    """
    functions = {name: _of_symbols(name) for name in FUNCTIONS}
    replaced = {getattr(math, name): function for name, function in functions.items()}
    replaced |= {operator.index: _index, math.gcd: _gcd}
    with replaced_names(replaced, (math, operator)) as patches:
        patches.set(builtins, "min", _or_symbolic(builtins.min, _torch.sym_min))
        patches.set(builtins, "max", _or_symbolic(builtins.max, _torch.sym_max))
        patches.set(torch.SymInt, "__divmod__", _divmod)
        patches.set(torch.SymInt, "__rdivmod__", _rdivmod)
        patches.set(FakeTensor, "nbytes", property(_bytes))
        for kind in (torch.SymInt, torch.SymFloat):
            for name, function in functions.items():  # numpy calls the method of an object
                patches.set(kind, name, function)
        for module, name in _number_types(executed):
            patches.set(module, name, STAND_INS[name])
        yield


def _number_types(executed: Mapping[CodeType, dict[str, Any]]) -> Iterable[tuple[Any, str]]:
    """Yield modules of host code, with the names that stand-ins replace.

    Code that a library generates (as a dataclass of torch) has no file of its own, and is none of them. Nor is a module that
    the run imported and called no function of: large libraries have hundreds, and finding their names takes seconds.
    """
    functions = {code: names for code, names in executed.items() if code.co_flags & inspect.CO_OPTIMIZED}
    for path, names in {code.co_filename: names for code, names in functions.items()}.items():
        module = sys.modules.get(str(names.get("__name__")))
        if module is not None and vars(module) is names and names.get("__file__") == path:
            yield from ((module, name) for name in replaceable_types(path) if name not in names)


def _of_symbols(name: str) -> Callable[..., Any]:
    """Return a function of `math` that keeps symbols, to host code and torch modules."""
    plain: Any = getattr(math, name)
    kind: Any = getattr(_functions, f"OpaqueUnaryFn_{name}")

    def function(*args: Any) -> Any:
        if len(args) != 1 or not isinstance(args[0], (torch.SymInt, torch.SymFloat)):
            return plain(*args)
        caller = sys._getframe(1).f_code.co_filename  # pyright: ignore[reportPrivateUsage]
        if is_library(caller) and not caller.endswith(MODULES_OF_TORCH):
            return plain(*args)
        node: Any = _torch.sym_float(args[0]).node
        return node.shape_env.create_symfloatnode(kind(node.expr), hint=None)

    return function


_plain_index: Callable[[Any], int] = operator.index


def _index(value: Any) -> Any:
    return value if isinstance(value, torch.SymInt) else _plain_index(value)


_plain_gcd: Callable[..., int] = math.gcd


def _gcd(*numbers: Any) -> int:
    """Return the greatest common divisor, a condition on one symbolic number."""
    symbols: list[Any] = [one for one in numbers if isinstance(one, torch.SymInt)]
    others = _plain_gcd(*(one for one in numbers if not isinstance(one, torch.SymInt)))
    if len(symbols) != 1 or not 0 < others <= LARGEST_DIVISOR:
        return _plain_gcd(*numbers)
    return next(divisor for divisor in range(others, 0, -1) if others % divisor == 0 and symbols[0] % divisor == 0)


def _divmod(number: Any, divisor: Any) -> tuple[Any, Any]:
    return number // divisor, number % divisor


def _rdivmod(divisor: Any, number: Any) -> tuple[Any, Any]:
    return _divmod(number, divisor)


def _bytes(tensor: Any) -> Any:
    return tensor.numel() * tensor.element_size()


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
