"""Modes that are not left, and operators with another implementation, are named."""

from __future__ import annotations

import warnings
from typing import Any

import torch
import torch.library
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from ioaware.gate.untrusted.guarded_operators import MODES, GuardedOperators

_torch: Any = torch


class Function(TorchFunctionMode):
    """A mode that changes nothing."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


class Dispatch(TorchDispatchMode):
    """A mode that changes nothing, below the other."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


def active() -> list[int]:
    return [len(read()) for _, read, _ in MODES]


def test_modes_are_named_and_left() -> None:
    before = active()
    with Function(), GuardedOperators() as guard:
        assert guard.changed() == {}
        with Dispatch(), Function():
            torch.ones(1)
        assert guard.changed() == {}
        Function().__enter__()
        assert guard.changed() == {"torch.overrides.TorchFunctionMode": "a mode that is not left"}
        for _ in range(2):
            Dispatch().__enter__()
        assert guard.changed().keys() == {name for name, *_ in MODES}
        assert active() != before
    assert guard.changed() == {}
    assert active() == before


def test_operators_with_another_implementation() -> None:
    """Those of a library of one's own are none of torch's."""
    of_torch, own = _torch.library.Library("aten", "IMPL"), _torch.library.Library("of_a_test", "FRAGMENT")
    try:
        with GuardedOperators() as guard, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            own.define("isneginf(Tensor x) -> Tensor")
            own.impl("isneginf", lambda x: x, "CPU")
            of_torch.impl("isposinf", lambda x: x, "Meta")
            assert guard.changed() == {}
            of_torch.impl("isneginf", lambda x: x, "CPU")
            assert guard.changed() == {"torch.ops.aten.isneginf": "an implementation for CPU"}
    finally:
        of_torch._destroy()
        own._destroy()
