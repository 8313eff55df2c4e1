"""List the race's back ends."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ioaware.bench.backend import BackEnd
from ioaware.bench.backends import flex, libraries, own, sdpa, tutorials
from ioaware.errors import UsageError

OWN, PLAIN, TUTORIAL, TUTORIAL_FILE = "ioaware", "ioaware-triton", "tutorial", "tutorial-file"


def back_ends(tutorial: Path | None = None) -> Mapping[str, BackEnd]:
    """Return every back end by name, ours first.

    `tutorial`: the tutorial's own file, raced beside our version of it.
    """
    every = (
        BackEnd(OWN, own.chosen, compiles=True, family="own"),
        BackEnd(PLAIN, own.plain, compiles=True, family="own"),
        BackEnd("cudnn", sdpa.sdpa_backend("CUDNN_ATTENTION")),
        BackEnd("flash", sdpa.sdpa_backend("FLASH_ATTENTION")),
        BackEnd("efficient", sdpa.sdpa_backend("EFFICIENT_ATTENTION")),
        BackEnd("flex", flex.flex, compiles=True),
        BackEnd(TUTORIAL, tutorials.rendition, compiles=True),
        *([BackEnd(TUTORIAL_FILE, tutorials.from_file(tutorial), compiles=True)] if tutorial else ()),
        *(BackEnd(name, prepare, compiles=True, needs=needs) for name, needs, prepare in libraries.LIBRARIES),
    )
    return {one.name: one for one in every}


def chosen(names: tuple[str, ...], tutorial: Path | None = None) -> list[BackEnd]:
    """Return the back ends of these names, or all without any.

    Raises `UsageError` for an unknown name.
    """
    every = back_ends(tutorial)
    unknown = [name for name in names if name not in every]
    if unknown:
        raise UsageError(f"--backends {unknown[0]}: there is no such back end", f"Back ends: {', '.join(every)}.")
    return [every[name] for name in names or every]
