"""Skip kernels that a module launches while it is imported.

The module also refuses to use what they compute.

Many files end with a call of their own test. Kernels cannot run then, so that the tensors that they were given hold no results.
Such tensors, and all that operators compute from them, are known; reading their values raises, and module variables that hold
them become placeholders that raise.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from types import ModuleType
from typing import Any, NoReturn

import torch
from torch.utils._pytree import tree_leaves
from triton.runtime.autotuner import Autotuner, Heuristics
from triton.runtime.jit import JITFunction

from ioaware._monkeypatch import Patches
from ioaware.errors import UsageError
from ioaware.fakegpu.storages import OperatorMode, storages

Call = Callable[..., Any]
_Tensor: Any = torch.Tensor
READS = frozenset({torch.ops.aten._local_scalar_dense.default, torch.ops.aten.equal.default, torch.ops.aten.nonzero.default})
"""Operators whose result, or its size, is a value of the host code."""
WITHOUT_OPERATOR = ("numpy", "tolist", "__array__")
REMEDY = 'Move it below `if __name__ == "__main__":`, or into the target function.'


@contextmanager
def launches_skipped() -> Generator[None]:
    """Skip launches inside the block.

    At its end replace the variables of imported modules that hold their tensors.
    """
    before = set(sys.modules)
    with ExitStack() as stack:
        uncomputed = _Uncomputed()
        patches = stack.enter_context(Patches())
        entered: list[_Uncomputed] = []

        def skip(_: Any, *args: Any, **kwargs: Any) -> None:
            if not entered:  # a mode slows every operator
                entered.append(stack.enter_context(uncomputed))
            uncomputed.add((args, kwargs))

        for owner in (JITFunction, Autotuner, Heuristics):
            patches.set(owner, "run", skip)
        for name in WITHOUT_OPERATOR:
            patches.set(_Tensor, name, uncomputed.checked(getattr(_Tensor, name)))
        yield
        if entered:
            for name in sys.modules.keys() - before:
                uncomputed.replace_variables(sys.modules[name])


class _Uncomputed(OperatorMode):
    """Tensors of a skipped kernel, and all that operators compute from them.

    They are the tensors that the kernel was given, and are kept by their storages.
    """

    def __init__(self) -> None:
        super().__init__()  # pyright: ignore[reportUnknownMemberType]
        self._storages: set[int] = set()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        known = self.has((args, kwargs))
        if known and func in READS:
            _refuse()
        outcome = func(*args, **(kwargs or {}))
        if known:
            given = zip(func._schema.arguments, args, strict=False)
            self.add([outcome, *(value for argument, value in given if argument.alias_info and argument.alias_info.is_write)])
        return outcome

    def add(self, values: object) -> None:
        """Take the tensors in nested values as uncomputed."""
        for key, storage in storages(values).items():
            if key not in self._storages:
                self._storages.add(key)
                weakref.finalize(storage, self._storages.discard, key).atexit = False

    def has(self, values: object) -> bool:
        """Return whether a tensor in nested values is uncomputed."""
        return bool(self._storages) and not self._storages.isdisjoint(storages(values))

    def checked(self, method: Call) -> Call:
        """Return a method of tensors that raises for an uncomputed tensor."""

        def read(tensor: Any, *args: Any, **kwargs: Any) -> Any:
            if self.has(tensor):
                _refuse()
            return method(tensor, *args, **kwargs)

        return read

    def replace_variables(self, module: ModuleType) -> None:
        """Replace the module's variables that hold uncomputed tensors.

        This includes tensors in containers and attributes.
        """
        for name, value in list(vars(module).items()):
            attributes: Any = getattr(value, "__dict__", None)
            held: list[Any] = tree_leaves([value, attributes])
            if not isinstance(value, (type, ModuleType)) and self.has(held):
                setattr(module, name, _Placeholder(name))


class _Placeholder:
    """A module variable whose value a kernel would have computed; use of it raises."""

    def __init__(self, name: str) -> None:
        self.__dict__["message"] = f"{name} is what a kernel computes while its file is imported, which did not run"

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise UsageError(self.__dict__["message"], REMEDY)

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(self.__dict__["message"])  # not UsageError: `hasattr` and `getattr` with a default look, too

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> NoReturn:
        next(each for each in tree_leaves((args, kwargs)) if isinstance(each, cls))._refuse()

    __len__ = __iter__ = __getitem__ = __call__ = __bool__ = __int__ = __index__ = __float__ = _refuse
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __matmul__ = _refuse


def _refuse() -> NoReturn:
    raise UsageError("the file reads what a kernel computes while it is imported; kernels do not run then", REMEDY)
