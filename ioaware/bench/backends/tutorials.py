"""Race Triton's tutorial 06: our version of its design, or its own file."""

from __future__ import annotations

import importlib.util
import inspect
import math
import sys
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ioaware.bench.attention_points import Point
from ioaware.bench.backend import Candidate, UnsupportedError
from ioaware.errors import UsageError

if TYPE_CHECKING:
    from torch import Tensor

ROWS = 128
MODULE = "ioaware_bench_tutorial"


def _check(point: Point) -> None:
    if point.what == "decode" or point.seq_len != point.kv_len or point.heads != point.kv_heads:
        raise UnsupportedError("the tutorial's kernel needs as many keys as queries and a key head for each head")
    if point.seq_len % ROWS:
        raise UnsupportedError(f"the tutorial's kernel needs seq_len to be a multiple of {ROWS}")
    if point.head_dim not in (16, 32, 64, 128, 256):
        raise UnsupportedError("the tutorial's kernel needs a head_dim that is a power of two from 16 to 256")


def rendition(point: Point) -> Candidate:
    """Return our kernels of that design."""
    _check(point)
    function = _function()
    scale = 1 / math.sqrt(point.head_dim)

    def ran() -> str:
        from ioaware.bench.backends.tutorial_forward import tutorial_forward_kernel

        best: Any = getattr(tutorial_forward_kernel, "best_config", None)
        return f"forward blocks: {best}" if best else ""

    return Candidate(lambda q, k, v: function.apply(q, k, v, point.causal, scale), ran=ran)


@lru_cache
def _function() -> Any:
    """Return the differentiable function, created at first use.

    torch is thereby not imported sooner.
    """
    import torch
    from torch.autograd.function import once_differentiable

    from ioaware.bench.backends.tutorial_backward import tutorial_backward
    from ioaware.bench.backends.tutorial_forward import tutorial_forward

    class Tutorial(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, causal: bool, scale: float) -> Tensor:
            o, lse = tutorial_forward(q, k, v, causal, scale)
            ctx.save_for_backward(q, k, v, o, lse)
            ctx.causal, ctx.scale = causal, scale
            return o

        @staticmethod
        @once_differentiable
        def backward(ctx: Any, do: Tensor) -> Any:
            q, k, v, o, lse = ctx.saved_tensors
            return (*tutorial_backward(q, k, v, o, lse, do, ctx.causal, ctx.scale), None, None)

    return Tutorial


def from_file(path: Path) -> Callable[[Point], Candidate]:
    """Return a back end for the file's own `attention`.

    Raises `UsageError` where there is none.
    """
    if not path.is_file():
        raise UsageError(f"--tutorial {path}: no such file", "Name 06-fused-attention.py of a checkout of Triton.")

    def prepare(point: Point) -> Candidate:
        _check(point)
        module = _load(path)
        call: Any = module.attention
        arguments: list[Any] = [point.causal, 1 / math.sqrt(point.head_dim)]
        if "warp_specialize" in inspect.signature(module._attention.forward).parameters:
            arguments.append(False)  # which its own benchmark passes on Hopper
        return Candidate(lambda q, k, v: call(q, k, v, *arguments), ran=lambda: path.name)

    return prepare


@lru_cache
def _load(path: Path) -> Any:
    """Import the file as a module once; the user named it."""
    spec = importlib.util.spec_from_file_location(MODULE, path)
    if spec is None or spec.loader is None:
        raise UsageError(f"--tutorial {path}: not a Python file", "Name a file that ends with .py.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[MODULE] = module
    spec.loader.exec_module(module)
    if not hasattr(module, "attention") or not hasattr(module, "_attention"):
        raise UsageError(f"--tutorial {path}: it defines no attention", "Name 06-fused-attention.py of a checkout of Triton.")
    return module
