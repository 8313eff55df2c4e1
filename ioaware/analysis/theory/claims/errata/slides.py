"""List the errors of the slides (S0)."""

# ruff: noqa: E741 - l is the papers' letter
from __future__ import annotations

import numpy as np

from ioaware.analysis.theory.claims.errata.erratum import Trial, Values, erratum, vector_text
from ioaware.analysis.theory.claims.io.orders import paper_flash1
from ioaware.analysis.theory.claims.numerics.attention import softmax
from ioaware.analysis.theory.counts import standard


def blocks_of_row(random: np.random.Generator) -> tuple[Values, Values, Values]:
    """Return x^(1), x^(2) and their concatenation.

    The second block has the larger maximum.
    """
    one, two = random.normal(size=3), random.normal(size=3) + 2
    return one, two, np.concatenate((one, two))


def shifted(x: Values) -> Values:
    """Return f(x) = e^(x - m(x))."""
    return np.exp(x - x.max())


@erratum("S0.1", "slides, softmax", "e^(x_i) / sum_j e^(x_i)", "e^(x_i) / sum_j e^(x_j)")
def denominator(random: np.random.Generator) -> Trial:
    x = random.normal(size=4)
    return Trial(f"x={vector_text(x)}", softmax(x), np.exp(x) / (len(x) * np.exp(x)), np.exp(x) / np.exp(x).sum())


@erratum(
    "S0.2", "slides, f of two blocks", "[e^(x1 - m) f(x1), e^(x2 - m) f(x2)]", "[e^(m(x1) - m) f(x1), e^(m(x2) - m) f(x2)]"
)
def decomposed_exponentials(random: np.random.Generator) -> Trial:
    one, two, x = blocks_of_row(random)
    printed = np.concatenate([np.exp(part - x.max()) * shifted(part) for part in (one, two)])
    corrected = np.concatenate([np.exp(part.max() - x.max()) * shifted(part) for part in (one, two)])
    return Trial(f"x={vector_text(x)}", shifted(x), printed, corrected)


@erratum("S0.3", "slides, l of two blocks", "e^(x1 - m) l(x1) + e^(x2 - m) l(x2)", "e^(m(x1) - m) l(x1) + e^(m(x2) - m) l(x2)")
def decomposed_sum(random: np.random.Generator) -> Trial:
    one, two, x = blocks_of_row(random)
    printed = sum(np.exp(part - x.max()) * shifted(part).sum() for part in (one, two))
    corrected = sum(np.exp(part.max() - x.max()) * shifted(part).sum() for part in (one, two))
    return Trial(f"x={vector_text(x)}", shifted(x).sum(), printed, corrected)


@erratum(
    "S0.4",
    "slides, third line of the induction",
    "diag(l) e^(m - m') diag(l) exp(S - m) V",
    "diag(l) e^(m - m') diag(l)^-1 exp(S - m) V",
)
def induction(random: np.random.Generator) -> Trial:
    s, fresh, v = random.normal(size=(2, 3)), random.normal(size=(2, 2)), random.normal(size=(5, 2))
    m = s.max(axis=1, keepdims=True)
    new = np.maximum(m, fresh.max(axis=1, keepdims=True))
    p = np.exp(s - m)
    l = p.sum(axis=1, keepdims=True)
    total = np.exp(np.hstack((s, fresh)) - new).sum(axis=1, keepdims=True)
    last = np.exp(fresh - new) @ v[3:]
    printed = (l * np.exp(m - new) * l * (p @ v[:3]) + last) / total
    corrected = (l * np.exp(m - new) / l * (p @ v[:3]) + last) / total
    return Trial("2 rows, blocks of 3 and 2 keys", softmax(np.hstack((s, fresh))) @ v, printed, corrected)


def _line12(random: np.random.Generator) -> tuple[Values, ...]:
    """Return O, l, m of earlier keys, S and V of a tile, and O after both.

    They are by definition.
    """
    s, tile, v = random.normal(size=(2, 3)), random.normal(size=(2, 4)), random.normal(size=(7, 2))
    m = s.max(axis=1, keepdims=True)
    return softmax(s) @ v[:3], np.exp(s - m).sum(axis=1, keepdims=True), m, tile, v[3:], softmax(np.hstack((s, tile))) @ v


@erratum("S0.5", "slides, comment on line 12", "... + e^(m~ - m_new) l~", "... + e^(m~ - m_new) P~ V_j, of shape (B_r, d)")
def comment12(random: np.random.Generator) -> Trial:
    o, l, m, tile, v, whole = _line12(random)
    local = tile.max(axis=1, keepdims=True)
    new = np.maximum(m, local)
    p = np.exp(tile - local)
    total = np.exp(m - new) * l + np.exp(local - new) * p.sum(axis=1, keepdims=True)
    printed = (l * np.exp(m - new) * o + np.exp(local - new) * p.sum(axis=1, keepdims=True)) / total
    corrected = (l * np.exp(m - new) * o + np.exp(local - new) * (p @ v)) / total
    return Trial("a tile of 4 keys after 3", whole, printed, corrected)


@erratum("S0.6", "slides, comment on line 10", "axis 1 takes the maximum per column", "axis 1 takes the maximum per row")
def maximum_axis(random: np.random.Generator) -> Trial:
    s = random.normal(size=(3, 4))
    by_hand = np.array([max(row) for row in s.tolist()])
    return Trial("S of 3 rows, 4 columns", by_hand, s.max(axis=0), s.max(axis=1))


@erratum("S0.7", "slides, cost of a block of Q", "block Q_j of the column loop", "block Q_i of the row loop")
def query_block(random: np.random.Generator) -> Trial:
    q, k, rows, columns = random.normal(size=(6, 2)), random.normal(size=(6, 2)), 2, 3
    i, j = 2, 1
    tile = (q @ k.T)[i * rows : (i + 1) * rows, j * columns : (j + 1) * columns]
    keys = k[j * columns : (j + 1) * columns].T
    return Trial("B_r=2 B_c=3 i=2 j=1", tile, q[j * rows : (j + 1) * rows] @ keys, q[i * rows : (i + 1) * rows] @ keys)


@erratum("S0.8", "slides, lines 6 and 9", "load K_i, V_i; S = Q_i K_i^T", "load K_j, V_j; S = Q_i K_j^T")
def key_block(random: np.random.Generator) -> Trial:
    q, k, rows, columns = random.normal(size=(4, 2)), random.normal(size=(6, 2)), 2, 3
    i, j = 0, 1
    tile = (q @ k.T)[i * rows : (i + 1) * rows, j * columns : (j + 1) * columns]
    query = q[i * rows : (i + 1) * rows]
    return Trial(
        "B_r=2 B_c=3 i=0 j=1", tile, query @ k[i * columns : (i + 1) * columns].T, query @ k[j * columns : (j + 1) * columns].T
    )


@erratum("S0.9", "slides, lines 10 to 12", "exponents m_i m_new and m~ m_new", "exponents m_i - m_new and m~ - m_new")
def lost_signs(random: np.random.Generator) -> Trial:
    o, l, m, tile, v, whole = _line12(random)
    local = tile.max(axis=1, keepdims=True)
    new, p = np.maximum(m, local), np.exp(tile - local)

    def line12(old: Values, fresh: Values) -> Values:
        return (old * l * o + fresh * (p @ v)) / (old * l + fresh * p.sum(axis=1, keepdims=True))

    return Trial(
        "a tile of 4 keys after 3",
        whole,
        line12(np.exp(m * new), np.exp(local * new)),
        line12(np.exp(m - new), np.exp(local - new)),
    )


@erratum("S0.10", "slides, line 4", "O in blocks O_i, ..., O_Tr", "O in blocks O_1, ..., O_Tr")
def output_blocks(random: np.random.Generator) -> Trial:
    rows, n = 2, 2 * int(random.integers(3, 6))
    count = n // rows
    i = 2
    return Trial(f"N={n} B_r={rows} i={i}", n, sum(rows for _ in range(i, count + 1)), sum(rows for _ in range(1, count + 1)))


@erratum("S0.11", "slides, induction", "block j of S as S_(j:j+1)", "block j of S as S_(:, j:j+1)")
def score_block(random: np.random.Generator) -> Trial:
    q, k, j, columns = random.normal(size=(4, 2)), random.normal(size=(6, 2)), 1, 3
    s = q @ k.T
    tile = slice(j * columns, (j + 1) * columns)
    return Trial("S of 4 rows, 6 columns, B_c=3", q @ k[tile].T, s[tile], s[:, tile])


@erratum("S0.12", "slides, standard attention's cost", "Omega(N d + N^2): does it exclude N^3?", "Theta(N d + N^2): it does")
def standard_cost(random: np.random.Generator) -> Trial:
    d, n = 64, int(2 ** random.integers(12, 20))
    count, unit = standard.idealised().total_elements({"N": n, "N_k": n, "d": d}), n * d + n * n
    return Trial(f"N={n} d={d}", count < n**3, n**3 < unit, n**3 > 4 * unit)


@erratum("S0.13", "slides, FlashAttention's cost", "O(N^2 d^2 / M): does it exclude N d?", "Theta(N^2 d^2 / M): it does")
def flash_cost(random: np.random.Generator) -> Trial:
    d, n = 64, int(2 ** random.integers(12, 20))
    m = d * d
    unit = n * n * d * d / m
    return Trial(f"N={n} d={d} M={m}", paper_flash1(n, d, m) > n * d, n * d > 20 * unit, n * d < 3 * unit)


@erratum("S0.14", "slides, why M / 4d", "four blocks q, k, v, o fill M", "S, l and m are on chip too: more than M")
def four_blocks(random: np.random.Generator) -> Trial:
    d = int(2 ** random.integers(1, 7))
    m = 4 * d * d
    side = -(-m // (4 * d))
    live = sum(np.empty(shape).size for shape in [(side, d)] * 4 + [(side, side), (side,), (side,)])
    return Trial(f"d={d} M={m}", live, 4 * side * d, 4 * side * d + side * side + 2 * side)


ERRATA = (
    denominator,
    decomposed_exponentials,
    decomposed_sum,
    induction,
    comment12,
    maximum_axis,
    query_block,
    key_block,
    lost_signs,
    output_blocks,
    score_block,
    standard_cost,
    flash_cost,
    four_blocks,
)
