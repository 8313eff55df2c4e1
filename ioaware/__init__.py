"""Memory traffic of GPU kernels: predicted, derived, traced, simulated, measured.

Importing this package imports neither torch, triton nor sympy. Each public name is loaded when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ioaware.api import advise, derive, explain, fuse, measure, predict, simulate, trace, verdict, verify, walk

__version__ = "0.1.0"
__all__ = [
    "__version__",
    "advise",
    "derive",
    "explain",
    "fuse",
    "measure",
    "predict",
    "simulate",
    "trace",
    "verdict",
    "verify",
    "walk",
]


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(importlib.import_module("ioaware.api"), name)
    raise AttributeError(f"module 'ioaware' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
