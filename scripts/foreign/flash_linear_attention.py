"""flash-linear-attention's modules and operators as targets.

`FOREIGN_FLA` names the checkout.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parent))
from checkout import Library
from inputs import backward, normal

FLA = Library("fla")
Work = Callable[[], object]
FLOAT = torch.float32


def _function(file: str, name: str) -> Any:
    return getattr(FLA.definitions(f"fla/{file}.py", name, given={"dispatch": _undispatched, "reduce": _reduced}), name)


def _reduced(x: torch.Tensor, _pattern: str, g: int, reduction: str) -> torch.Tensor:
    """einops' `reduce`, which may be missing, for the one pattern in use.

    The pattern is a sum over the heads that share keys.
    """
    if reduction != "sum":
        raise NotImplementedError(reduction)
    shape = (*x.shape[:2], x.shape[2] // g, g, x.shape[3])
    return torch.sum(x.view(shape), 3)


def _undispatched(_operation: str) -> Callable[[Any], Any]:
    """The library's choice between vendors: Triton's form is the one wanted."""
    return lambda function: function


def rms_norm(rows: int = 256, cols: int = 1000, device: str = "cuda") -> Work:
    """RMSNorm with a weight."""
    function = _function("modules/layernorm", "rms_norm")
    x, w = normal(rows, cols, device=device, grad=True), normal(cols, device=device, grad=True)
    return lambda: backward(function(x, w, None), x, w)


def layer_norm(rows: int = 256, cols: int = 1000, device: str = "cuda") -> Work:
    """LayerNorm with weight and bias."""
    function = _function("modules/layernorm", "layer_norm")
    x, w, b = (normal(*shape, device=device, grad=True) for shape in ((rows, cols), (cols,), (cols,)))
    return lambda: backward(function(x, w, b), x, w, b)


def rms_norm_gated(rows: int = 256, cols: int = 500, device: str = "cuda") -> Work:
    """RMSNorm times a swish gate."""
    function = _function("modules/fused_norm_gate", "rms_norm_gated")
    x, g, w = (normal(*shape, device=device, grad=True) for shape in ((rows, cols), (rows, cols), (cols,)))
    return lambda: backward(function(x, g, w, None), x, g, w)


def l2norm(rows: int = 500, cols: int = 100, device: str = "cuda") -> Work:
    """Rows divided by their length."""
    function = _function("modules/l2norm", "l2norm")
    x = normal(rows, cols, device=device, grad=True)
    return lambda: backward(function(x), x)


def rotary(batch: int = 2, seq_len: int = 100, heads: int = 3, device: str = "cuda") -> Work:
    """Rotary embedding, heads of 64."""
    function = _function("modules/rotary", "rotary_embedding")
    x = normal(batch, seq_len, heads, 64, device=device, grad=True)
    cos, sin = normal(seq_len, 32, device=device), normal(seq_len, 32, device=device)
    return lambda: backward(function(x, cos, sin), x)


def swish(rows: int = 256, cols: int = 1000, device: str = "cuda") -> Work:
    """x sigmoid(x)."""
    function = _function("modules/activations", "SwishFunction")
    x = normal(rows, cols, device=device, grad=True)
    return lambda: backward(function.apply(x), x)


def logsigmoid(rows: int = 256, cols: int = 1000, device: str = "cuda") -> Work:
    """log(sigmoid(x))."""
    function = _function("modules/activations", "logsigmoid")
    x = normal(rows, cols, device=device, grad=True)
    return lambda: backward(function(x), x)


def swiglu(rows: int = 256, cols: int = 1000, device: str = "cuda") -> Work:
    """swish(x) y."""
    function = _function("modules/activations", "SwiGLUFunction")
    x, y = (normal(rows, cols, device=device, grad=True) for _ in range(2))
    return lambda: backward(function.apply(x, y), x, y)


def powglu(rows: int = 256, cols: int = 1000, device: str = "cuda") -> Work:
    """A gate with a power."""
    function = _function("modules/activations", "powglu")
    x, y = (normal(rows, cols, device=device, grad=True) for _ in range(2))
    return lambda: backward(function(x, y), x, y)


def token_shift(batch: int = 2, seq_len: int = 100, cols: int = 500, device: str = "cuda") -> Work:
    """The difference to the token before."""
    function = _function("modules/token_shift", "token_shift")
    x = normal(batch, seq_len, cols, device=device, grad=True)
    return lambda: backward(function(x), x)


def cross_entropy(rows: int = 128, vocabulary: int = 5000, device: str = "cuda") -> Work:
    """Cross entropy; the targets are data."""
    function = _function("modules/fused_cross_entropy", "cross_entropy_loss")
    logits = normal(rows, vocabulary, device=device, grad=True)
    target = torch.zeros(rows, device=device, dtype=torch.long)
    return lambda: backward(function(logits, target)[0], logits)


def softmax(rows: int = 256, cols: int = 1000, device: str = "cuda") -> Work:
    """Softmax of rows, forward and backward."""
    forward, backward_of = _function("ops/utils/softmax", "softmax_fwd"), _function("ops/utils/softmax", "softmax_bwd")
    x, dp = normal(rows, cols, device=device), normal(rows, cols, device=device)
    return lambda: backward_of(forward(x), dp)


def logsumexp(rows: int = 256, cols: int = 3000, device: str = "cuda") -> Work:
    """log(sum(exp(x))) of rows."""
    function = _function("ops/utils/logsumexp", "logsumexp_fwd")
    x = normal(rows, cols, device=device)
    return lambda: function(x)


def local_cumsum(batch: int = 2, seq_len: int = 500, heads: int = 4, device: str = "cuda") -> Work:
    """Sums within chunks of 64 tokens, of vectors of 64."""
    function = _function("ops/utils/cumsum", "chunk_local_cumsum")
    g = normal(batch, seq_len, heads, 64, device=device, dtype=FLOAT)
    return lambda: function(g, 64)


def global_cumsum(batch: int = 2, seq_len: int = 500, heads: int = 4, device: str = "cuda") -> Work:
    """Sums over whole sequences, of vectors of 64."""
    function = _function("ops/utils/cumsum", "chunk_global_cumsum")
    g = normal(batch, seq_len, heads, 64, device=device, dtype=FLOAT)
    return lambda: function(g)


def mean_pooling(batch: int = 2, seq_len: int = 500, heads: int = 4, device: str = "cuda") -> Work:
    """Means over chunks of 64 tokens."""
    function = _function("ops/utils/pooling", "mean_pooling")
    x = normal(batch, seq_len, heads, 64, device=device, grad=True)
    return lambda: backward(function(x, 64), x)


def matmul(m: int = 256, n: int = 256, k: int = 128, device: str = "cuda") -> Work:
    """C = A B."""
    function = _function("ops/utils/matmul", "matmul")
    a, b = normal(m, k, device=device), normal(k, n, device=device)
    return lambda: function(a, b)


def _attention(file: str, name: str, inputs: int, batch: int, seq_len: int, heads: int, device: str, **options: Any) -> Work:
    """A linear attention of so many inputs of the queries' shape, heads of 64."""
    function = _function(file, name)
    tensors = [normal(batch, seq_len, heads, 64, device=device, grad=True) for _ in range(inputs)]
    return lambda: backward(function(*tensors, **options)[0], *tensors)


def linear_attention(batch: int = 1, seq_len: int = 200, heads: int = 2, device: str = "cuda") -> Work:
    """Chunked linear attention."""
    return _attention("ops/linear_attn/chunk", "chunk_linear_attn", 3, batch, seq_len, heads, device, normalize=False)


def retention(batch: int = 1, seq_len: int = 200, heads: int = 2, device: str = "cuda") -> Work:
    """Chunked retention."""
    return _attention("ops/retention/chunk", "chunk_retention", 3, batch, seq_len, heads, device)


def gated_linear_attention(batch: int = 1, seq_len: int = 128, heads: int = 2, device: str = "cuda") -> Work:
    """Chunked gated linear attention."""
    return _attention("ops/gla/chunk", "chunk_gla", 4, batch, seq_len, heads, device)


def softmax_attention(batch: int = 1, seq_len: int = 256, heads: int = 2, device: str = "cuda") -> Work:
    """Causal softmax attention."""
    function = _function("ops/attn/parallel", "parallel_attn")
    q, k, v = (normal(batch, seq_len, heads, 64, device=device, grad=True) for _ in range(3))
    return lambda: backward(function(q, k, v), q, k, v)


def hgrn(batch: int = 2, seq_len: int = 256, cols: int = 256, device: str = "cuda") -> Work:
    """A chunked gated recurrence."""
    function = _function("ops/hgrn/chunk", "chunk_hgrn")
    x, g = (normal(batch, seq_len, cols, device=device, grad=True) for _ in range(2))
    return lambda: backward(function(x, g)[0], x, g)
