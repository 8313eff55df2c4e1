"""attorch's layers as targets, forward and backward.

`FOREIGN_ATTORCH` names the checkout.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parent))
from checkout import Library
from inputs import backward, normal

Work = Callable[[], object]


def _layer(name: str, *arguments: Any, device: str, **keywords: Any) -> Any:
    root = str(Library("attorch").root)
    if root not in sys.path:
        sys.path.append(root)
    return getattr(importlib.import_module("attorch"), name)(*arguments, **keywords).to(device)


def _rows(name: str, *arguments: Any, of_cols: Sequence[int] = (), **keywords: Any) -> Callable[..., Work]:
    """Return a target of a layer applied to a matrix.

    `of_cols` are arguments in multiples of the matrix's columns.
    """

    def target(rows: int = 40, cols: int = 300, device: str = "cuda") -> Work:
        layer = _layer(name, *(times * cols for times in of_cols), *arguments, device=device, **keywords)
        x = normal(rows, cols, device=device, dtype=torch.float32, grad=True)
        return lambda: backward(layer(x), x)

    return target


def _loss(name: str) -> Callable[..., Work]:
    """Return a target of a loss of two matrices."""

    def target(rows: int = 40, cols: int = 300, device: str = "cuda") -> Work:
        layer = _layer(name, device=device)
        x = normal(rows, cols, device=device, dtype=torch.float32, grad=True)
        y = normal(rows, cols, device=device, dtype=torch.float32)
        return lambda: backward(layer(x, y), x)

    return target


sigmoid = _rows("Sigmoid")
tanh = _rows("Tanh")
relu = _rows("ReLU")
gelu = _rows("GELU")
hardswish = _rows("Hardswish")
mish = _rows("Mish")
glu = _rows("GLU", 1)
layer_norm = _rows("LayerNorm", of_cols=(1,))
rms_norm = _rows("RMSNorm", of_cols=(1,))
softmax = _rows("Softmax", 1)
log_softmax = _rows("LogSoftmax", 1)
batch_norm = _rows("BatchNorm1d", of_cols=(1,))
l1_loss = _loss("L1Loss")
mse_loss = _loss("MSELoss")
smooth_l1_loss = _loss("SmoothL1Loss")
huber_loss = _loss("HuberLoss")


def linear(rows: int = 40, cols: int = 300, device: str = "cuda") -> Work:
    """A linear layer with a bias."""
    layer = _layer("Linear", cols, 64, device=device)
    x = normal(rows, cols, device=device, dtype=torch.float32, grad=True)
    return lambda: layer(x)


def conv2d(batch: int = 2, size: int = 16, device: str = "cuda") -> Work:
    """A convolution of images."""
    layer = _layer("Conv2d", 16, 32, 3, padding=1, device=device)
    x = normal(batch, 16, size, size, device=device, dtype=torch.float32)
    return lambda: layer(x)


def cross_entropy(rows: int = 40, classes: int = 300, device: str = "cuda") -> Work:
    """Cross entropy of class indices."""
    layer, x = _layer("CrossEntropyLoss", device=device), normal(rows, classes, device=device, dtype=torch.float32, grad=True)
    target = torch.zeros(rows, device=device, dtype=torch.int64)
    return lambda: backward(layer(x, target), x)
