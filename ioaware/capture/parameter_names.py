"""Find the names of the parameters and buffers of modules that a launch is given.

The modules are local variables of the host code that launches: `self` of a forward, or the model that a function calls.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from types import FrameType
from typing import Any

import torch

from ioaware.compilation.launches import is_tensor

OWN = str(Path(__file__).parents[1])
COMPILED = "_orig_mod."
"""What torch.compile adds to the names of a module."""


class ParameterNames:
    """Name parameters by their storage.

    A name is `model.layers.0.weight`, or `layers.0.weight` where the module itself is the target.
    """

    def __init__(self) -> None:
        self._names: dict[int, str] = {}
        self._modules: dict[int, Any] = {}
        """The modules that were read, kept alive so that ids and storages stay unique."""

    def of(self, arguments: Mapping[str, Any]) -> dict[str, str]:
        """Return the names of the arguments that are parameters or buffers.

        Views of them are included.
        """
        for name, module in _modules(sys._getframe(1)):  # pyright: ignore[reportPrivateUsage]
            if id(module) not in self._modules:
                self._modules[id(module)] = module
                self._add(name, module)
        places = {name: _storage(getattr(value, "base", value)) for name, value in arguments.items() if is_tensor(value)}
        return {name: self._names[place] for name, place in places.items() if place in self._names}

    def _add(self, owner: str, module: Any) -> None:
        tensors: Iterable[tuple[str, Any]] = chain(module.named_parameters(), module.named_buffers())
        for name, tensor in tensors:
            plain = name.replace(COMPILED, "")
            self._names.setdefault(_storage(tensor), plain if owner == "self" else f"{owner}.{plain}")


def _modules(frame: FrameType | None) -> Iterator[tuple[str, Any]]:
    """Return the modules among the variables of the calling code.

    The outermost call comes first. The package's own frames are left out.
    """
    frames: list[FrameType] = []
    while frame is not None:
        frames.append(frame)
        frame = frame.f_back
    for each in reversed(frames):
        if not each.f_code.co_filename.startswith(OWN):
            yield from ((name, value) for name, value in each.f_locals.items() if issubclass(type(value), torch.nn.Module))


def _storage(tensor: Any) -> int:
    return tensor.untyped_storage()._cdata


__all__ = ["ParameterNames"]
