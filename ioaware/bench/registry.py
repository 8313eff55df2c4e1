"""Who races: a table of back ends, each of which says for a point how it computes attention, or why it cannot."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from ioaware.bench.attention_points import Point
from ioaware.errors import UsageError

if TYPE_CHECKING:
    from torch import Tensor

Forward = Callable[["Tensor", "Tensor", "Tensor"], "Tensor"]


class UnsupportedError(Exception):
    """This back end does not do this point; the message says why."""


@dataclass(frozen=True, slots=True)
class Contestant:
    """`forward` (q, k, v) -> o, differentiable; called inside `within()`, whose cost is not the call's. `ran` says after a
    call what was chosen to run. Layouts are those of `Point`."""

    forward: Forward
    within: Callable[[], AbstractContextManager[object]] = nullcontext
    ran: Callable[[], str] = lambda: ""


@dataclass(frozen=True, slots=True)
class BackEnd:
    """`enter` (point) -> Contestant, or UnsupportedError. `compiles`: whether it compiles kernels of its own when first
    called. `needs`: the package it is part of, where that may be missing."""

    name: str
    enter: Callable[[Point], Contestant]
    compiles: bool = False
    needs: str = ""
    family: Literal["own", "other"] = "other"

    @property
    def present(self) -> bool:
        try:
            return not self.needs or importlib.util.find_spec(self.needs) is not None
        except ModuleNotFoundError:  # the package around it
            return False


OWN, PLAIN, TUTORIAL, TUTORIAL_FILE = "ioaware", "ioaware-triton", "tutorial", "tutorial-file"


def back_ends(tutorial: Path | None = None) -> Mapping[str, BackEnd]:
    """Every back end by name, ours first. `tutorial`: the tutorial's own file, to run beside our rendition of it."""
    from ioaware.bench.backends import flex, libraries, own, sdpa, tutorials

    every = (
        BackEnd(OWN, own.chosen, compiles=True, family="own"),
        BackEnd(PLAIN, own.plain, compiles=True, family="own"),
        BackEnd("cudnn", sdpa.back_end("CUDNN_ATTENTION")),
        BackEnd("flash", sdpa.back_end("FLASH_ATTENTION")),
        BackEnd("efficient", sdpa.back_end("EFFICIENT_ATTENTION")),
        BackEnd("flex", flex.flex, compiles=True),
        BackEnd(TUTORIAL, tutorials.rendition, compiles=True),
        *([BackEnd(TUTORIAL_FILE, tutorials.from_file(tutorial), compiles=True)] if tutorial else ()),
        *(BackEnd(name, enter, compiles=True, needs=needs) for name, needs, enter in libraries.LIBRARIES),
    )
    return {one.name: one for one in every}


def chosen(names: tuple[str, ...], tutorial: Path | None = None) -> list[BackEnd]:
    """Those named, or all without any names. Raises `UsageError` for a name that there is not."""
    every = back_ends(tutorial)
    unknown = [name for name in names if name not in every]
    if unknown:
        raise UsageError(f"--backends {unknown[0]}: there is no such back end", f"Back ends: {', '.join(every)}.")
    return [every[name] for name in names or every]
