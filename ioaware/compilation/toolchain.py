"""Identify the compiler of a kernel.

It is Triton's code, ptxas, and every setting that affects them.
"""

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
"""Tools that take no part in compilation; their versions are slow to query."""


def toolchain(gpu: GPUTarget) -> str | None:
    """Return a key of the compiler; None where a user's hook changes it."""
    if getattr(knobs.runtime, "add_stages_inspection_hook", None) is not None:
        return None
    settings = [setting for group in GROUPS[gpu.backend] for setting in _settings(group)]
    environment = sorted(native.get_cache_invalidating_env_vars().items())
    return repr((triton.__version__, _files(), settings, environment, str(gpu)))


def _settings(group: str) -> Iterator[tuple[str, Any]]:
    """Yield the settings of one group of Triton's knobs; programs with size and date."""
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
    """Return size and date of the compiler's files.

    Hashing their 400 MB takes as long as a compilation.
    """
    root = Path(triton.__file__).parent
    code = [root / "compiler" / "compiler.py", root / "compiler" / "code_generator.py", *root.glob("backends/*/compiler.py")]
    return tuple((str(path), _stamp(path)) for path in sorted([*code, *root.glob("_C/libtriton*")]))
