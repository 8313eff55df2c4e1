"""Compute attention and its gradients by their definitions, in float64."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Matrix = npt.NDArray[np.float64]


class Gradients(NamedTuple):
    """Gradients of a loss with respect to Q, K and V."""

    dq: Matrix
    dk: Matrix
    dv: Matrix


def softmax(scores: Matrix) -> Matrix:
    """Return softmax by rows; the maximum is subtracted first."""
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


def attention(q: Matrix, k: Matrix, v: Matrix, scale: float = 1.0) -> Matrix:
    """Return softmax(scale Q K^T) V."""
    return softmax(scale * q @ k.T) @ v


def attention_gradients(q: Matrix, k: Matrix, v: Matrix, do: Matrix, scale: float = 1.0) -> Gradients:
    """Return the gradients for dO, by softmax's Jacobian diag(p) - p p^T."""
    p = softmax(scale * q @ k.T)
    dp = do @ v.T
    ds = p * (dp - (p * dp).sum(axis=1, keepdims=True))
    return Gradients(scale * ds @ k, scale * ds.T @ q, p.T @ do)
