"""FlagGems' package, and what its targets are made with.

`FOREIGN_FLAG_GEMS` names the checkout.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parent))
from checkout import Library

Work = Callable[[], object]


def package(name: str) -> Any:
    """Return a module of the checkout.

    The library asks for no GPU when its vendor is given.
    """
    os.environ.setdefault("GEMS_VENDOR", "nvidia")
    root = str(Library("flag_gems", "src").root)
    if root not in sys.path:
        sys.path.append(root)
    entry = importlib.import_module("flag_gems.utils.libentry").LibEntry
    entry.run = _entered
    return importlib.import_module(name)


def _entered(entry: Any, *args: Any, **kwargs: Any) -> tuple[Any, dict[str, Any]]:
    """Launch as at the library's first launch.

    Why: its launch of a kept kernel leaves out the constexprs, which Triton 3.6 and later want.
    """
    return entry.fn.run(*args, **kwargs), {}


def operator(name: str) -> Callable[..., Any]:
    """Return `flag_gems.ops.NAME`, or that of `flag_gems.fused`."""
    ops = package("flag_gems.ops")
    return getattr(ops, name) if hasattr(ops, name) else getattr(package("flag_gems.fused"), name)


def tensor(shape: Sequence[int], kind: str, device: str) -> torch.Tensor:
    """Return numbers of a kind: `f16`, `f32`, `positive`, `i32`, `i64` or `bool`."""
    if kind == "bool":
        return torch.ones(*shape, device=device, dtype=torch.bool)
    if kind in ("i32", "i64"):
        return torch.ones(*shape, device=device, dtype=torch.int32 if kind == "i32" else torch.int64)
    numbers = torch.randn(*shape, device=device, dtype=torch.float16 if kind == "f16" else torch.float32)
    return numbers.abs() if kind == "positive" else numbers


def pointwise(name: str, *kinds: str, scalars: Sequence[Any] = (), **keywords: Any) -> Callable[..., Work]:
    """Return a target that applies an operator to tensors of n elements.

    It has a tensor for each kind, followed by scalars.
    """

    def target(n: int = 5000, device: str = "cuda") -> Work:
        given = [tensor((n,), kind, device) for kind in kinds]
        return lambda: operator(name)(*given, *scalars, **keywords)

    return target


def of_rows(name: str, *scalars: Any, kind: str = "f16", **keywords: Any) -> Callable[..., Work]:
    """Return a target that applies an operator to a matrix, then to scalars."""

    def target(rows: int = 48, cols: int = 700, device: str = "cuda") -> Work:
        x = tensor((rows, cols), kind, device)
        return lambda: operator(name)(x, *scalars, **keywords)

    return target


def of_sizes(name: str, *scalars: Any, **keywords: Any) -> Callable[..., Work]:
    """Return a target that makes a tensor of n elements."""

    def target(n: int = 5000, device: str = "cuda") -> Work:
        return lambda: operator(name)((n,), *scalars, device=torch.device(device), **keywords)

    return target
