"""Which compiler turns Triton IR into machine code: Triton's own code, ptxas, and every setting that either heeds."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import triton
from triton import knobs as _knobs
from triton._C import libtriton as _libtriton
from triton.backends.compiler import GPUTarget

knobs: Any = _knobs
native: Any = _libtriton
GROUPS = {"cuda": ("compilation", "language", "runtime", "nvidia"), "hip": ("compilation", "language", "runtime", "amd")}
READERS = frozenset({"cuobjdump", "nvdisasm"})
"""Tools that make nothing, and take as long to be asked for their version as those that do."""


def toolchain(gpu: GPUTarget) -> str | None:
    """Names it; None where a hook of the user's takes part, of which nobody knows what it does."""
    if getattr(knobs.runtime, "add_stages_inspection_hook", None) is not None:
        return None
    settings = [setting for group in GROUPS[gpu.backend] for setting in _settings(group)]
    heeded = sorted(native.get_cache_invalidating_env_vars().items())
    return repr((triton.__version__, _files(), settings, heeded, str(gpu)))


def _settings(group: str) -> Iterator[tuple[str, Any]]:
    """The settings of one of Triton's groups. Programs that it runs are named with their size and date."""
    known = getattr(knobs, group)
    for name in known.knob_descriptors:
        if name not in READERS:
            value = getattr(known, name)
            path = getattr(value, "path", None)
            yield f"{group}.{name}", (path, _stamp(path)) if isinstance(path, str) else value


def _stamp(path: str | Path) -> tuple[int, int] | None:
    try:
        found = os.stat(path)  # noqa: PTH116 - of strings and paths
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns


@cache
def _files() -> tuple[Any, ...]:
    """Size and date of what lowers IR: to read its 400 MB takes as long as to compile a kernel."""
    root = Path(triton.__file__).parent
    code = [root / "compiler" / "compiler.py", root / "compiler" / "code_generator.py", *root.glob("backends/*/compiler.py")]
    return tuple((str(path), _stamp(path)) for path in sorted([*code, *root.glob("_C/libtriton*")]))
