"""Count the ways to compute softmax by rows exactly.

They are for a matrix of R rows and C columns, G = R C.

Each is named by its total in matrix accesses, as in Milakov and Gimelshein 2018, arXiv 1805.02867. They count 4 per element for
the safe form and 3 for the online one. Row statistics (m, l, log-sum-exp) are fp32, everything else has the input's dtype.
"""

from __future__ import annotations

from functools import cache

import sympy

from ioaware.analysis.formulas.functions import positive_symbols
from ioaware.analysis.theory.counting import Counts, Elements, Step

R, C = positive_symbols("R C")
G = R * C

SOURCE = "Milakov and Gimelshein 2018, arXiv 1805.02867"
MATRIX, ROWS, NOTHING = Elements(inputs=G), Elements(fp32=R), Elements()
FORWARD = Step("compulsory", reads=MATRIX, writes=MATRIX)
BACKWARD = Step("compulsory", reads=Elements(inputs=2 * G), writes=MATRIX)


def _counts(name: str, steps: tuple[Step, ...], *, extra: Elements = NOTHING, compulsory: Step = FORWARD) -> Counts:
    return Counts(name, SOURCE, steps, extra=extra, instances=sympy.S.One, compulsory=compulsory)


def _one_kernel(name: str, reads: int, compulsory: Step = FORWARD) -> Counts:
    """Count a kernel that reads the matrix so many times and writes it once."""
    return _counts(name, (Step(name, reads=Elements(inputs=reads * G), writes=MATRIX),), compulsory=compulsory)


@cache
def eager(_causal: bool) -> Counts:
    """Count five kernels: 8 G + 4 R."""
    steps = (
        Step("m = rowmax X", reads=MATRIX, writes=ROWS),
        Step("T = X - m", reads=MATRIX + ROWS, writes=MATRIX),
        Step("E = exp T", reads=MATRIX, writes=MATRIX),
        Step("l = rowsum E", reads=MATRIX, writes=ROWS),
        Step("Y = E / l", reads=MATRIX + ROWS, writes=MATRIX),
    )
    return _counts("softmax_eager", steps, extra=Elements(inputs=2 * G, fp32=2 * R))


@cache
def materialised(_causal: bool) -> Counts:
    """Count maximum, exponentials to HBM, their sum, and the quotient: 6 G."""
    step = Step("softmax", reads=Elements(inputs=4 * G), writes=Elements(inputs=2 * G))
    return _counts("softmax_materialised", (step,), extra=MATRIX)


@cache
def cub(_causal: bool) -> Counts:
    """Count maximum, exponentials, their sum, and exponentials again: 6 G.

    The first exponentials go to HBM, and the second are over the sum.
    """
    step = Step("softmax", reads=Elements(inputs=4 * G), writes=Elements(inputs=2 * G))
    return _counts("softmax_cub", (step,), extra=MATRIX)


@cache
def safe(_causal: bool) -> Counts:
    """Count maximum, sum and output in a pass each: 4 G."""
    return _one_kernel("softmax_safe", 3)


@cache
def online(_causal: bool) -> Counts:
    """Count maximum and sum in one pass, output in another: 3 G."""
    return _one_kernel("softmax_online", 2)


@cache
def one_read(_causal: bool) -> Counts:
    """Count a row that stays on chip: 2 G."""
    return _one_kernel("softmax_one_read", 1)


@cache
def lse(_causal: bool) -> Counts:
    """Count the log-sum-exp alone: G + R."""
    step = Step("log-sum-exp", reads=MATRIX, writes=ROWS)
    return _counts("softmax_lse", (step,), compulsory=step)


@cache
def backward(_causal: bool) -> Counts:
    """Count rowsum(Y dY) in one pass over Y and dY, dX in another: 5 G."""
    return _one_kernel("softmax_bwd", 4, BACKWARD)


@cache
def backward_one_read(_causal: bool) -> Counts:
    """Count rows of Y and dY that stay on chip: 3 G."""
    return _one_kernel("softmax_bwd_one_read", 2, BACKWARD)
