"""Lower bounds on the traffic of exact attention per head, in elements.

Each has its condition and source.

Two kinds: bounds with their constants, which no execution may undercut (`compulsory`, `EXPLICIT`, `SEGMENTS`), and
leading terms, which describe growth without the constant (`THEOREM2_FLASH`, `SAHA_YE`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import sympy
from sympy import Expr

from ioaware.analysis.formulas.evaluate import evaluate
from ioaware.analysis.formulas.functions import arguments, ceil_div, largest, positive_symbols, smallest, square_root
from ioaware.analysis.theory.counting import Elements, M, N, N_k, Step, d


@dataclass(frozen=True)
class Bound:
    """A bound: `elements` moved per head, and what it rests on.

    It has its condition and source, and whether its constant counts.
    """

    name: str
    elements: Expr
    condition: str
    source: str
    constant: bool


@cache
def compulsory(causal: bool = False) -> Step:
    """Return the traffic that no algorithm avoids.

    It is every input element that the output needs, and the output.

    With a causal mask and N > N_k the first N - N_k rows of Q see no key, and their Q is not needed.
    """
    queries = smallest(N, N_k) if causal else N
    return Step("compulsory", reads=Elements(inputs=queries * d + 2 * N_k * d), writes=Elements(inputs=N * d))


@cache
def compulsory_backward(causal: bool = False) -> Step:
    """Return the traffic that no algorithm for the gradients avoids.

    It is Q, K, V and dO once, and dQ, dK and dV once.

    With a causal mask and N > N_k the first N - N_k rows of Q see no key, and their Q and dO are not needed.
    """
    queries = smallest(N, N_k) if causal else N
    return Step("compulsory", reads=Elements(inputs=2 * queries * d + 2 * N_k * d), writes=Elements(inputs=N * d + 2 * N_k * d))


def visible_pairs(causal: bool = False) -> Expr:
    """Return the pairs of a query and a key it sees.

    They are the dot products that must be computed.
    """
    if not causal:
        return N * N_k
    seeing = smallest(N, N_k)  # queries that see a key: the last of them sees all N_k, the one before N_k - 1, ...
    return seeing * (N_k - seeing) + seeing * (seeing + 1) / 2


EXPLICIT = Bound(
    "explicit",
    N * N_k * d**2 / (M + 4 * d**2) - M,
    condition="exact attention by the standard matrix product, one fast memory of M elements",
    source="constants of Saha and Ye 2024, arXiv 2402.07443, Lemma 3.3: a part of a 2M-partition of the red-blue pebble "
    "game holds at most (M/d)^2 dot products besides the 4M it touches",
    constant=True,
)

SEGMENTS = Bound(
    "segments",
    N * N_k * d / (M / d + square_root(3 * M)) - M,
    condition="exact attention by the standard matrix product, one fast memory of M elements",
    source="constants of the segments of M moves behind Saha and Ye 2024, arXiv 2402.07443, Lemma 2.7. In a segment at most 2M "
    "elements of Q and K are at hand: at most (M/d)^2 dot products begin and end there, and the at most 3M others that pass "
    "through it share sqrt(3) M^(3/2) products (Loomis and Whitney). Recomputation is free, and S need not be written",
    constant=True,
)
"""Explicit constants for both regimes of Saha and Ye.

Below d^2 the bound is of order N^2 d / sqrt(M), above of order N^2 d^2 / M.
"""

THEOREM2_FLASH = Bound(
    "Theorem 2, FlashAttention",
    N**2 * d**2 / M,
    condition="d <= M <= N d; Theta, the constant is 12 for Algorithm 1 with the paper's blocks",
    source="Dao et al. 2022, arXiv 2205.14135, Theorem 2",
    constant=False,
)

THEOREM2_STANDARD = Bound(
    "Theorem 2, standard attention",
    N * d + N**2,
    condition="M = Omega(d^2), M <= N d; Theta. The paper says d <= M, but it charges each operand of a matrix product once: "
    "for M = o(d^2) any algorithm moves Omega(N^2 d / sqrt(M)), which is more than N^2 (Saha and Ye, Theorem 3.7)",
    source="Dao et al. 2022, arXiv 2205.14135, Theorem 2",
    constant=False,
)

SAHA_YE_SMALL = Bound(
    "Saha-Ye, M < d^2",
    N**2 * d / square_root(M),
    condition="M = o(d^2), standard matrix product",
    source="Saha and Ye 2024, arXiv 2402.07443, Theorem 3.7",
    constant=False,
)

SAHA_YE_LARGE = Bound(
    "Saha-Ye, M >= d^2",
    N**2 * d**2 / M,
    condition="M = Omega(d^2), standard matrix product",
    source="Saha and Ye 2024, arXiv 2402.07443, Theorem 3.1",
    constant=False,
)

SAHA_YE = Bound(
    "Saha-Ye",
    smallest(SAHA_YE_SMALL.elements, SAHA_YE_LARGE.elements),
    condition="exact attention by the standard matrix product; Theta; the two terms cross at M = d^2",
    source="Saha and Ye 2024, arXiv 2402.07443, Theorem 3.1",
    constant=False,
)

BOUNDS = (EXPLICIT, SEGMENTS, THEOREM2_FLASH, THEOREM2_STANDARD, SAHA_YE, SAHA_YE_SMALL, SAHA_YE_LARGE)


def saha_ye(memory: int, head_dim: int) -> Bound:
    """Return the bound for M: N^2 d / sqrt(M) below d^2, N^2 d^2 / M from there on."""
    return SAHA_YE_SMALL if memory < head_dim**2 else SAHA_YE_LARGE


def leading_term(bound: Bound, values: Mapping[str, int]) -> float:
    """Return the value of a bound at N, N_k, d, M, as a float.

    Leading terms hold square roots.
    """
    return _float(bound.elements, values)


def _float(expr: Any, values: Mapping[str, int]) -> float:
    """Evaluate sums, products, powers and minima in floats.

    Sympy's substitution takes a hundred times as long.
    """
    if expr.is_Symbol:
        return float(values[str(expr)])
    if expr.is_Number:
        return float(expr)
    terms = [_float(term, values) for term in arguments(expr)]
    if expr.is_Add:
        return math.fsum(terms)
    if expr.is_Mul:
        return math.prod(terms)
    if expr.is_Pow:
        return math.sqrt(terms[0]) if terms[1] == 0.5 else terms[0] ** terms[1]
    if isinstance(expr, sympy.Min):
        return min(terms)
    raise TypeError(f"{expr.func} has no rule in a leading term")


def lower_bound_elements(values: Mapping[str, int], *, causal: bool = False, heads: int = 1, processors: int = 1) -> int:
    """Return max(4 N d, N^2 d^2 / (M + 4 d^2) - M), rounded up.

    It is for `heads` heads at N, N_k, d, M.

    `processors` fast memories of M elements each share the work (the SMs of a GPU). Each may end with a part that has
    not cost its M moves, so M is subtracted once per processor. With a causal mask only visible pairs count.
    """
    return evaluate(_lower_bound(causal), {**values, "heads": heads, "processors": processors})


@cache
def _lower_bound(causal: bool) -> Expr:
    """Return the formula, cached: building it in sympy is slower than evaluating it."""
    heads, processors = positive_symbols("heads processors")
    must_touch = compulsory(causal)
    pairs = ceil_div(heads * visible_pairs(causal) * d**2, M + 4 * d**2) - processors * M
    return largest(heads * (must_touch.reads.count + must_touch.writes.count), pairs)


def lower_bound_bytes(values: Mapping[str, int], *, causal: bool = False, heads: int = 1, processors: int = 1) -> int:
    """Return the same in bytes, elements being `e` bytes wide."""
    return values["e"] * lower_bound_elements(values, causal=causal, heads=heads, processors=processors)
