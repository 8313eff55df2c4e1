"""FlagGems' reductions, normalisations, scans and losses as targets.

`FOREIGN_FLAG_GEMS` names the checkout.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parent))
from gems import Work, operator, tensor
from gems import of_rows as _rows
from gems import pointwise as _flat

all_ = _flat("all", "bool")
all_of_rows = _rows("all_dim", 1, kind="bool")
amax = _rows("amax", (1,))
any_ = _flat("any", "bool")
any_of_rows = _rows("any_dim", 1, kind="bool")
argmax = _rows("argmax", 1)
argmin = _rows("argmin", 1)
count_nonzero = _flat("count_nonzero", "f32")
cummax = _rows("cummax", 1, kind="f32")
cummin = _rows("cummin", 1, kind="f32")
cumsum = _rows("cumsum", 1, kind="f32")
dot = _flat("dot", "f32", "f32")
log_softmax = _rows("log_softmax", 1)
max_ = _flat("max", "f32")
max_of_rows = _rows("max_dim", 1)
mean = _flat("mean", "f32")
mean_of_rows = _rows("mean_dim", [1])
min_ = _flat("min", "f32")
min_of_rows = _rows("min_dim", 1)
mse_loss = _flat("mse_loss", "f32", "f32")
normed_cumsum = _rows("normed_cumsum", 1, kind="positive")
prod = _flat("prod", "f32")
prod_of_rows = _rows("prod_dim", 1)
quantile = _rows("quantile", 0.5, 1, kind="f32")
softmax = _rows("softmax", 1)
softmax_of_columns = _rows("softmax", 0)
std = _rows("std", [1], kind="f32")
sum_ = _flat("sum", "f32")
sum_of_columns = _rows("sum_dim", [0])
sum_of_rows = _rows("sum_dim", [1])
var_mean = _rows("var_mean", [1], kind="f32")
vdot = _flat("vdot", "f32", "f32")
vector_norm = _rows("vector_norm", 2, [1], kind="f32")
vector_norm_of_all = _flat("vector_norm", "f32")


def softmax_backward(rows: int = 48, cols: int = 700, device: str = "cuda") -> Work:
    """Gradient of softmax."""
    grad, output = (tensor((rows, cols), "f32", device) for _ in range(2))
    return lambda: operator("softmax_backward")(grad, output, 1, torch.float32)


def log_softmax_backward(rows: int = 48, cols: int = 700, device: str = "cuda") -> Work:
    """Gradient of log_softmax."""
    grad, output = (tensor((rows, cols), "f32", device) for _ in range(2))
    return lambda: operator("log_softmax_backward")(grad, output, 1, torch.float32)


def layer_norm(rows: int = 48, cols: int = 700, device: str = "cuda") -> Work:
    """LayerNorm with weight and bias."""
    x, w, b = (tensor(shape, "f16", device) for shape in ((rows, cols), (cols,), (cols,)))
    return lambda: operator("layer_norm")(x, (cols,), w, b)


def layer_norm_backward(rows: int = 48, cols: int = 700, device: str = "cuda") -> Work:
    """Gradients of LayerNorm."""
    grad, x = (tensor((rows, cols), "f16", device) for _ in range(2))
    mean, rstd = (tensor((rows,), "f32", device) for _ in range(2))
    w, b = (tensor((cols,), "f16", device) for _ in range(2))
    return lambda: operator("layer_norm_backward")(grad, x, (cols,), mean, rstd, w, b, (True, True, True))


def rms_norm(rows: int = 48, cols: int = 700, device: str = "cuda") -> Work:
    """RMSNorm."""
    x, w = tensor((rows, cols), "f16", device), tensor((cols,), "f16", device)
    return lambda: operator("rms_norm")(x, (cols,), w)


def fused_add_rms_norm(rows: int = 48, cols: int = 700, device: str = "cuda") -> Work:
    """Residual addition and RMSNorm, in place."""
    x, r, w = (tensor(shape, "f16", device) for shape in ((rows, cols), (rows, cols), (cols,)))
    return lambda: operator("fused_add_rms_norm")(x, r, (cols,), w)


def skip_layer_norm(rows: int = 48, cols: int = 700, device: str = "cuda") -> Work:
    """Residual addition and LayerNorm."""
    x, r = (tensor((rows, cols), "f16", device) for _ in range(2))
    w, b = (tensor((cols,), "f16", device) for _ in range(2))
    return lambda: operator("skip_layer_norm")(x, r, (cols,), w, b)


def group_norm(batch: int = 4, pixels: int = 300, device: str = "cuda") -> Work:
    """GroupNorm of 32 channels in 8 groups."""
    x, w, b = (tensor(shape, "f32", device) for shape in ((batch, 32, pixels), (32,), (32,)))
    return lambda: operator("group_norm")(x, w, b, batch, 32, pixels, 8)


def group_norm_backward(batch: int = 4, pixels: int = 300, device: str = "cuda") -> Work:
    """Gradients of GroupNorm."""
    grad, x = (tensor((batch, 32, pixels), "f32", device) for _ in range(2))
    mean, rstd, w = tensor((batch, 8), "f32", device), tensor((batch, 8), "f32", device), tensor((32,), "f32", device)
    call = operator("group_norm_backward")
    return lambda: call(grad, x, mean, rstd, w, batch, 32, pixels, 8, (True, True, True))


def batch_norm(batch: int = 8, pixels: int = 300, device: str = "cuda") -> Work:
    """BatchNorm of 16 channels in training."""
    x, w, b = (tensor(shape, "f32", device) for shape in ((batch, 16, pixels), (16,), (16,)))
    mean, variance = tensor((16,), "f32", device), tensor((16,), "positive", device)
    return lambda: operator("batch_norm")(x, w, b, mean, variance, training=True)


def instance_norm(batch: int = 8, pixels: int = 300, device: str = "cuda") -> Work:
    """InstanceNorm of 16 channels."""
    x, w, b = (tensor(shape, "f32", device) for shape in ((batch, 16, pixels), (16,), (16,)))
    return lambda: operator("instance_norm")(x, w, b)


def weight_norm(rows: int = 48, cols: int = 700, device: str = "cuda") -> Work:
    """Weight normalisation by rows."""
    v, g = tensor((rows, cols), "f32", device), tensor((rows, 1), "f32", device)
    return lambda: operator("weight_norm")(v, g, 0)


def cross_entropy(rows: int = 48, classes: int = 700, device: str = "cuda") -> Work:
    """Cross entropy of class indices."""
    x, target = tensor((rows, classes), "f32", device), torch.zeros(rows, device=device, dtype=torch.int64)
    return lambda: operator("cross_entropy_loss")(x, target)


def nll_loss(rows: int = 48, classes: int = 700, device: str = "cuda") -> Work:
    """Negative log likelihood of class indices."""
    x, target = tensor((rows, classes), "f32", device), torch.zeros(rows, device=device, dtype=torch.int64)
    return lambda: operator("nll_loss_forward")(x, target)


def topk(rows: int = 48, cols: int = 700, device: str = "cuda") -> Work:
    """The 5 largest of each row."""
    x = tensor((rows, cols), "f32", device)
    return lambda: operator("topk")(x, 5)


def sort(rows: int = 4, cols: int = 300, device: str = "cuda") -> Work:
    """Radix sort of rows."""
    x = tensor((rows, cols), "f32", device)
    return lambda: operator("sort")(x)


def topk_softmax(rows: int = 48, experts: int = 64, device: str = "cuda") -> Work:
    """Softmax of gates and their 4 largest."""
    gates, weights = tensor((rows, experts), "f32", device), torch.empty(rows, 4, device=device)
    indices, sources = (torch.empty(rows, 4, device=device, dtype=torch.int32) for _ in range(2))
    return lambda: operator("topk_softmax")(weights, indices, sources, gates)
