"""Keep runs of the package's own cases on disk.

They are derivations and traces, named by a hash of what computes them: this package's code, the versions of Python, torch,
Triton, NumPy and SymPy, the processor, and the environment variables of Triton, torch and ioaware. A change to any of them
is a cache miss. Only results with status "ok" are kept.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping

from ioaware import disk_cache
from ioaware.environment import installed_version
from ioaware.sweep.points import Point
from ioaware.sweep.pool import Answer, make_record_answer

SOURCES = ("derive", "trace")
LIBRARIES = ("torch", "triton", "numpy", "sympy")
PREFIXES = ("IOAWARE_", "TRITON_", "TORCH")
_PLACES = "IOAWARE_CACHE_DIR"


def find(point: Point) -> Answer | None:
    """Return the kept answer of this point, or None."""
    name = _name(point)
    record = None if name is None else disk_cache.load(name)
    return make_record_answer(point, record) if isinstance(record, str) else None


def keep(answer: Answer) -> None:
    """Store the answer of a case's run that ended well."""
    name = _name(answer.point)
    if name is not None and answer.status == "ok":
        disk_cache.store(name, answer.record)


def _name(point: Point) -> str | None:
    """Return the key of a point; None for one whose code is not this package's."""
    if point.source not in SOURCES or ":" in point.target or point.autotune:
        return None
    return disk_cache.cache_key(("run", disk_cache.own_code(), *_setting(os.environ), point.key))


def _setting(environment: Mapping[str, str]) -> list[str]:
    versions = [f"{name} {installed_version(name)}" for name in LIBRARIES]
    given = sorted(f"{name}={value}" for name, value in environment.items() if name.startswith(PREFIXES) and name != _PLACES)
    return [*versions, platform.python_version(), platform.machine(), *given]
