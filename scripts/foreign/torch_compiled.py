"""Functions of `torch.compile` as targets.

Their kernels are those that PyTorch's compiler writes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own name for it

sys.path.insert(0, str(Path(__file__).parent))
from inputs import normal

Work = Callable[[], object]
Tensor = torch.Tensor


@cache
def _compile(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the compiled function, whose sizes are constants.

    A target that is built again does not compile it again.
    """
    return torch.compile(function, fullgraph=True, dynamic=False)


def _compiled(function: Callable[..., Any], inputs: Sequence[Tensor]) -> Work:
    """Return a call of the compiled function."""
    compiled = _compile(function)
    return lambda: compiled(*inputs)


def _rows(
    function: Callable[..., Any], matrices: int = 1, vectors: int = 0, dtype: Any = torch.bfloat16
) -> Callable[..., Work]:
    """Return a target that applies a function to matrices, then to vectors.

    A vector is as long as a row.
    """

    def target(rows: int = 256, cols: int = 1000, device: str = "cuda") -> Work:
        shapes = [(rows, cols)] * matrices + [(cols,)] * vectors
        return _compiled(function, [normal(*shape, device=device, dtype=dtype) for shape in shapes])

    return target


def _rms_norm(x: Tensor, w: Tensor) -> Tensor:
    wide = x.float()
    return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-6)).to(x.dtype) * w


def _residual_rms_norm(x: Tensor, r: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
    total = x + r
    return _rms_norm(total, w), total


def _layer_norm(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return F.layer_norm(x, (x.shape[-1],), w, b)


def _swiglu(x: Tensor, y: Tensor) -> Tensor:
    return F.silu(x) * y


def _bias_gelu(x: Tensor, b: Tensor) -> Tensor:
    return F.gelu(x + b, approximate="tanh")


def _quantised(x: Tensor) -> tuple[Tensor, Tensor]:
    scale = x.abs().amax(-1, keepdim=True).float() / 127
    return (x / scale).round().clamp(-128, 127).to(torch.int8), scale


def _adam(p: Tensor, g: Tensor, m: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
    return p - 1e-3 * m / (v.sqrt() + 1e-8), m, v


def _softmax(x: Tensor) -> Tensor:
    return torch.softmax(x, -1)


def _transposed(x: Tensor) -> Tensor:
    return (x.t() * 2).contiguous()


def _column_sums(x: Tensor) -> Tensor:
    return x.float().sum(0)


def _rotary(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    first, second = x.chunk(2, -1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), -1)


def _cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    return F.cross_entropy(logits.float(), labels, reduction="none")


rms_norm = _rows(_rms_norm, 1, 1)
residual_rms_norm = _rows(_residual_rms_norm, 2, 1)
layer_norm = _rows(_layer_norm, 1, 2)
swiglu = _rows(_swiglu, 2)
bias_gelu = _rows(_bias_gelu, 1, 1)
quantised = _rows(_quantised)
adam = _rows(_adam, 4, dtype=torch.float32)
softmax = _rows(_softmax)
transposed = _rows(_transposed)
column_sums = _rows(_column_sums)


def rotary(batch: int = 2, seq_len: int = 100, heads: int = 6, device: str = "cuda") -> Work:
    """Rotary embedding, heads of 64."""
    x = normal(batch, heads, seq_len, 64, device=device)
    return _compiled(_rotary, [x, normal(seq_len, 32, device=device), normal(seq_len, 32, device=device)])


def cross_entropy(rows: int = 128, vocabulary: int = 5000, device: str = "cuda") -> Work:
    """Cross entropy of class indices; the labels are data."""
    labels = torch.zeros(rows, device=device, dtype=torch.long)
    return _compiled(_cross_entropy, [normal(rows, vocabulary, device=device), labels])
