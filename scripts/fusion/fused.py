"""Kernels that `ioaware fuse` writes, as a target.

They run in one pass, or pass by pass as the program is written.

PYTHONPATH=. python -m ioaware measure scripts/fusion/fused.py:fused -p program=entropy -p form=separate
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch

from ioaware.analysis.fusion.answer import fuse
from ioaware.case import Work
from ioaware.errors import UsageError
from ioaware.fusion import exp, length, log, reduce_max, reduce_mean, reduce_sum, sqrt
from ioaware.targets.loading import load_file

TOLERANCE = 1e-4
FORMS = ("fused", "separate")


def attention(x: Any, v: Any) -> Any:
    """Softmax attention of one query and one column of V."""
    m = reduce_max(x)
    l = reduce_sum(exp(x - m))  # noqa: E741
    return reduce_sum(exp(x - m) / l * v)


def variance(x: Any) -> Any:
    """The mean square deviation."""
    mu = reduce_sum(x) / length(x)
    return reduce_mean((x - mu) ** 2)


def logsoftmax_attention(x: Any, v: Any) -> Any:
    """Attention with logarithms of softmax as weights, over the length."""
    m = reduce_max(x)
    lse = m + log(reduce_sum(exp(x - m)))
    return reduce_mean((x - lse) * v)


def entropy(x: Any) -> Any:
    """The entropy of softmax."""
    m = reduce_max(x)
    lse = m + log(reduce_sum(exp(x - m)))
    return reduce_sum(exp(x - lse) * (lse - x))


def layer_norm_dot(x: Any, w: Any) -> Any:
    """LayerNorm and the product with a row of weights, divided by the length."""
    mu = reduce_mean(x)
    sg = sqrt(reduce_mean((x - mu) ** 2) + 1e-5)
    return reduce_mean((x - mu) * w / sg)


PROGRAMS: Mapping[str, Callable[..., Any]] = {
    one.__name__: one for one in (attention, variance, logsoftmax_attention, entropy, layer_norm_dot)
}


def fused(program: str = "attention", form: str = "fused", rows: int = 2048, cols: int = 16384, device: str = "cuda") -> Work:
    """The generated kernel of a program on float32 [rows, cols] inputs.

    It is checked against the program in float64.
    """
    if program not in PROGRAMS or form not in FORMS:
        raise UsageError(
            f"there is no program {program!r} in form {form!r}", f"Programs: {', '.join(PROGRAMS)}; forms: {', '.join(FORMS)}."
        )
    run = getattr(_kernels(program), form)
    count = PROGRAMS[program].__code__.co_argcount
    inputs = tuple(torch.randn(rows, cols, device=device) + 0.5 for _ in range(count))
    return Work(lambda: run(*inputs), inputs, lambda: _reference(program, inputs), TOLERANCE)


@cache
def _kernels(program: str) -> ModuleType:
    """The module that `ioaware fuse` writes for a program.

    Its file lives as long as this process.
    """
    folder = Path(tempfile.mkdtemp(prefix="ioaware-fused-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = folder / f"{program}.py"
    fuse(PROGRAMS[program]).write_kernel(path)
    return load_file(path)


def _reference(program: str, inputs: tuple[torch.Tensor, ...]) -> torch.Tensor:
    """The program itself, by numpy in float64, row by row."""
    columns = [tensor.double().cpu().numpy() for tensor in inputs]
    rows = [PROGRAMS[program](*row) for row in zip(*columns, strict=True)]
    return torch.from_numpy(np.array(rows)).to(inputs[0].device)
