"""Define the types of the race's back ends.

A type says how one computes attention at a point, or why it cannot.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from ioaware.bench.attention_points import Point

if TYPE_CHECKING:
    from torch import Tensor

Forward = Callable[["Tensor", "Tensor", "Tensor"], "Tensor"]


class UnsupportedError(Exception):
    """A back end does not support this point; the message is the reason."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A back end at a point: `forward` (q, k, v) -> o, differentiable.

    It is called inside `within()`.

    The cost of `within` is not measured. `ran` returns, after a call, which kernel was chosen. Layouts are those of `Point`.
    """

    forward: Forward
    within: Callable[[], AbstractContextManager[object]] = nullcontext
    ran: Callable[[], str] = lambda: ""


@dataclass(frozen=True, slots=True)
class BackEnd:
    """Back end: `prepare` (point) -> Candidate, or UnsupportedError.

    `compiles`: it compiles its kernels at the first call.

    `needs`: the package it is part of, where that may be missing.
    """

    name: str
    prepare: Callable[[Point], Candidate]
    compiles: bool = False
    needs: str = ""
    family: Literal["own", "other"] = "other"

    @property
    def present(self) -> bool:
        """Whether the package it needs is installed."""
        try:
            return not self.needs or importlib.util.find_spec(self.needs) is not None
        except ModuleNotFoundError:  # the package around it
            return False
