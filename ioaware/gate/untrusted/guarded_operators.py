"""Find what changes torch's operators for the code that runs next, and undo it.

A mode that is entered and never left sees every later call, and a registered implementation stands for an operator of torch. An
evaluator compares through both.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import overrides
from torch.utils import _python_dispatch

_torch: Any = torch
_overrides: Any = overrides
_dispatch: Any = _python_dispatch
MODES: tuple[tuple[str, Callable[[], list[Any]], Callable[[], Any]], ...] = (
    ("torch.overrides.TorchFunctionMode", _overrides._get_current_function_mode_stack, _overrides._pop_mode),
    ("torch.utils._python_dispatch.TorchDispatchMode", _dispatch._get_current_dispatch_mode_stack, _dispatch._pop_mode),
)
"""The kinds of modes: how to read the active ones, and how to leave the last."""
NAMESPACES = ("aten", "prims")
BACKENDS = ("CPU", "CUDA", "Autograd", "AutogradCPU", "AutogradCUDA", "CompositeImplicitAutograd", "CompositeExplicitAutograd")
"""Dispatch keys that decide a result.

Torch itself registers others when they are first used, such as Meta.
"""


class GuardedOperators:
    """The active modes and the registered implementations as they are now.

    Modes are left at the end of the block. An implementation stays.
    """

    def __init__(self) -> None:
        self._modes = [len(read()) for _, read, _ in MODES]
        self._implementations = set(_torch.library._impls)

    def changed(self) -> dict[str, str]:
        """Return what is another one now, by name, and how.

        That is a kind of mode, or an operator.
        """
        # The name of its class would be wrong: the block of another mode left that one in its place.
        kinds = zip(MODES, self._modes, strict=True)
        found = {name: "a mode that is not left" for (name, read, _), before in kinds if len(read()) > before}
        for registered in sorted(_torch.library._impls - self._implementations):
            namespace, _, rest = registered.partition("/")
            name, _, key = rest.rpartition("/")
            if namespace in NAMESPACES and key in BACKENDS:
                found[f"torch.ops.{namespace}.{name}"] = f"an implementation for {key}"
        return found

    def __enter__(self) -> GuardedOperators:
        return self

    def __exit__(self, *_: object) -> None:
        for (_name, read, leave), before in zip(MODES, self._modes, strict=True):
            for _mode in read()[before:]:
                leave()
