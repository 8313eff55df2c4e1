"""Emulate flash attention's roundings: float16 inputs, P, dS and outputs.

Float32 products, sums and statistics.
"""

# ruff: noqa: E741 - l is the papers' letter
from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ioaware.analysis.theory.claims.numerics.attention import Matrix

Single = npt.NDArray[np.float32]
HALF_UNIT, SINGLE_UNIT = 2.0**-11, 2.0**-24
"""Unit roundoff of float16 and of float32."""
HALF_TINY = 2.0**-25
"""Half the spacing of float16's subnormal numbers.

It is the absolute error of rounding a number below 2^-14.
"""


def half(x: npt.NDArray[np.floating]) -> Single:
    """Return x rounded to float16, in float32."""
    return x.astype(np.float16).astype(np.float32)


class Inputs(NamedTuple):
    """Q, K, V and dO [N, d], each a float16 number in float32."""

    q: Single
    k: Single
    v: Single
    do: Single

    @property
    def scale(self) -> np.float32:
        return np.float32(1 / np.sqrt(self.q.shape[1]))

    def double(self) -> tuple[Matrix, Matrix, Matrix, Matrix]:
        """Return the same numbers in float64, of which references are computed."""
        q, k, v, do = (x.astype(np.float64) for x in self)
        return q, k, v, do


def draw(n: int, d: int, *, key_offset: float = 0.0, value_mean: float = 0.0, seed: int = 0) -> Inputs:
    """Return normal random inputs.

    Every key has the same offset added in every dimension.
    """
    generator = np.random.default_rng(seed)
    q, k, v, do = (generator.normal(size=(n, d)) for _ in range(4))
    return Inputs(half(q), half(k + key_offset), half(v + value_mean), half(do))


@dataclass(frozen=True)
class Forward:
    """O before and after its last rounding, and the log-sum-exp of each row [N, 1]."""

    unrounded: Single
    o: Single
    lse: Single


def flash2(inputs: Inputs, block: int) -> Forward:
    """Compute FlashAttention-2's forward pass in column blocks.

    O stays in float32 until the end.
    """
    q, k, v, _ = inputs
    m, l, o = np.full((len(q), 1), -np.inf, np.float32), np.zeros((len(q), 1), np.float32), np.zeros(q.shape, np.float32)
    for start in range(0, len(k), block):
        columns = slice(start, start + block)
        s = inputs.scale * (q @ k[columns].T)
        new = np.maximum(m, s.max(axis=1, keepdims=True))
        p, decay = np.exp(s - new), np.exp(m - new)
        l = l * decay + p.sum(axis=1, keepdims=True)
        o = o * decay + half(p) @ v[columns]
        m = new
    return Forward(o / l, half(o / l), m + np.log(l))


def flash1(inputs: Inputs, block: int) -> Forward:
    """Compute FlashAttention's forward pass.

    O goes to memory, in float16, after every column block.
    """
    q, k, v, _ = inputs
    m, l, o = np.full((len(q), 1), -np.inf, np.float32), np.zeros((len(q), 1), np.float32), np.zeros(q.shape, np.float32)
    for start in range(0, len(k), block):
        columns = slice(start, start + block)
        s = inputs.scale * (q @ k[columns].T)
        local = s.max(axis=1, keepdims=True)
        p = np.exp(s - local)
        new = np.maximum(m, local)
        old, fresh = np.exp(m - new), np.exp(local - new)
        total = old * l + fresh * p.sum(axis=1, keepdims=True)
        o = half((old * l * o + fresh * (half(p) @ v[columns])) / total)
        m, l = new, total
    return Forward(o, o, m + np.log(l))


@dataclass(frozen=True)
class Backward:
    """dQ, and each row's sum of dS [N, 1] before dS is rounded for the products.

    It is zero in exact arithmetic.
    """

    dq: Single
    residue: Single


def backward(inputs: Inputs, lse: Single, delta: Single, block: int) -> Backward:
    """Compute dQ from the rows' log-sum-exp and D, in column blocks."""
    q, k, v, do = inputs
    dq, residue = np.zeros(q.shape, np.float32), np.zeros((len(q), 1), np.float32)
    for start in range(0, len(k), block):
        columns = slice(start, start + block)
        p = np.exp(inputs.scale * (q @ k[columns].T) - lse)
        ds = p * (do @ v[columns].T - delta)
        residue += ds.sum(axis=1, keepdims=True)
        dq += half(ds) @ k[columns]
    return Backward(inputs.scale * dq, residue)


def delta_of(do: Single, o: Single) -> Single:
    """Return D = rowsum(dO O) [N, 1]."""
    return (do * o).sum(axis=1, keepdims=True)


def delta_of_weights(inputs: Inputs, lse: Single) -> Single:
    """Return D = rowsum(P dP) [N, 1].

    Standard attention's backward pass computes it in a separate pass.
    """
    p = np.exp(inputs.scale * (inputs.q @ inputs.k.T) - lse)
    return (p * (inputs.do @ inputs.v.T)).sum(axis=1, keepdims=True)


def centred(inputs: Inputs) -> Inputs:
    """Return the same problem with the mean key subtracted from every key.

    The mean key is rounded to float16, and softmax and dQ are the same.
    """
    return inputs._replace(k=half(inputs.k - half(inputs.k.mean(axis=0, keepdims=True))))


def relative_error(computed: Single, exact: Matrix) -> float:
    """Return the relative Frobenius error."""
    return float(np.linalg.norm(computed - exact) / np.linalg.norm(exact))
