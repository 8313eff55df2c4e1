"""List the errors of the notebook (S1)."""

# ruff: noqa: E741 - l is the papers' letter
from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np

from ioaware.analysis.theory.claims.errata.erratum import Trial, Values, erratum
from ioaware.analysis.theory.claims.numerics.attention import attention, softmax

STEP = 1e-6


def gradient(loss: Callable[[Values], float], at: Values) -> Values:
    """Return the gradient by central differences."""
    result = np.zeros_like(at)
    for place in np.ndindex(*at.shape):
        moved = np.zeros_like(at)
        moved[place] = STEP
        result[place] = (loss(at + moved) - loss(at - moved)) / (2 * STEP)
    return result


@erratum(
    "S1.1",
    "notebook, dropout",
    "dropout before the row sum, l = sum(P_dropped)",
    "dropout on normalised P, l = sum(P): unbiased",
)
def dropout_before_sum(random: np.random.Generator) -> Trial:
    s = random.normal(size=3)
    p = np.exp(s - s.max())
    masks = [
        np.array(mask) * 2.0 for mask in itertools.product((0, 1), repeat=3)
    ]  # all masks of p = 1/2, scaled by 1 / (1 - p)
    with np.errstate(invalid="ignore"):
        printed = np.nanmean([p * mask / (p * mask).sum() for mask in masks], axis=0)
    corrected = np.mean([p / p.sum() * mask for mask in masks], axis=0)
    return Trial(f"expected weights of S={np.round(s, 2)}, p=0.5", softmax(s), printed, corrected)


@erratum("S1.1b", "notebook, dropout", "a row whose weights are all dropped is 0 / 0", "such a row is zero")
def dropped_row(random: np.random.Generator) -> Trial:
    p = np.exp(random.normal(size=3))
    with np.errstate(invalid="ignore"):
        printed = p * 0 / (p * 0).sum()
    return Trial("mask of zeros", np.zeros(3), printed, p / p.sum() * 0)


def _notebook(random: np.random.Generator) -> tuple[Values, Values, Values, Values, Values]:
    """Return Q, K, V, dO and a dropout mask, scaled, of which each row keeps a weight."""
    q, k, v, do = (random.normal(size=(3, 2)) for _ in range(4))
    mask = 2 * random.integers(0, 2, (3, 3)).astype(np.float64)
    np.fill_diagonal(mask, 2.0)
    return q, k, v, do, mask


def _forward(q: Values, k: Values, v: Values, mask: Values) -> Values:
    """Compute the notebook's forward pass: normalised after dropout."""
    s = q @ k.T
    dropped = np.exp(s - s.max(axis=1, keepdims=True)) * mask
    return dropped / dropped.sum(axis=1, keepdims=True) @ v


def _score_gradients(q: Values, k: Values, v: Values, do: Values, mask: Values) -> tuple[Values, Values]:
    """Return dS as the notebook computes it, and with the gradient through l.

    The notebook has an invented gradient through m instead.
    """
    s = q @ k.T
    dropped = np.exp(s - s.max(axis=1, keepdims=True)) * mask
    l = dropped.sum(axis=1, keepdims=True)
    da = do @ v.T
    dl = -(da * dropped / l**2).sum(axis=1, keepdims=True)
    printed = da / l * dropped
    printed = printed - printed.sum(axis=1, keepdims=True)
    return printed, (da / l + dl) * dropped


@erratum(
    "S1.2",
    "notebook, backward: dQ",
    "grad_l unused, grad_m = -sum(grad_S) broadcast",
    "grad_S = (grad_A / l + grad_l) P_dropped, no grad_m",
)
def query_gradient(random: np.random.Generator) -> Trial:
    q, k, v, do, mask = _notebook(random)
    printed, corrected = (ds @ k for ds in _score_gradients(q, k, v, do, mask))
    return Trial("dQ of 3 rows", gradient(lambda x: float((_forward(x, k, v, mask) * do).sum()), q), printed, corrected)


@erratum(
    "S1.3",
    "notebook, backward: dK",
    "grad_l unused, grad_m = -sum(grad_S) broadcast",
    "grad_S = (grad_A / l + grad_l) P_dropped, no grad_m",
)
def key_gradient(random: np.random.Generator) -> Trial:
    q, k, v, do, mask = _notebook(random)
    printed, corrected = (ds.T @ q for ds in _score_gradients(q, k, v, do, mask))
    return Trial("dK of 3 rows", gradient(lambda x: float((_forward(q, x, v, mask) * do).sum()), k), printed, corrected)


@erratum("S1.4", "notebook, backward of the mask", "grad_S * (S != -inf)", "grad_S * (S_masked != -inf)")
def masked_gradient(random: np.random.Generator) -> Trial:
    s, v, do = random.normal(size=(3, 3)), random.normal(size=(3, 2)), random.normal(size=(3, 2))
    seen = np.tril(np.ones((3, 3), bool))

    def loss(scores: Values) -> float:
        return float((softmax(np.where(seen, scores, -np.inf)) @ v * do).sum())

    masked = np.where(seen, s, -np.inf)
    p, da = softmax(masked), do @ v.T
    broadcast = p * da - (p * da).sum(axis=1, keepdims=True)  # grad_m reaches every entry
    return Trial(
        "dS of masked entries",
        gradient(loss, s)[~seen],
        (broadcast * (s != -np.inf))[~seen],
        (broadcast * (masked != -np.inf))[~seen],
    )


@erratum("S1.5", "notebook, toy example", "M = 20 holds one step at d = 2", "one step of its blocks holds 30 elements")
def toy_memory(random: np.random.Generator) -> Trial:
    del random
    m, d = 20, 2
    columns = -(-m // (4 * d))
    rows = min(columns, d)
    live = sum(np.empty(shape).size for shape in [(columns, d)] * 2 + [(rows, d)] * 2 + [(rows, columns), (rows,), (rows,)])
    return Trial("M=20 d=2: B_c=3 B_r=2", live, m, 2 * d * (rows + columns) + rows * columns + 2 * rows)


def flash_rows(q: Values, k: Values, v: Values, rows: int, columns: int, *, state_of_block: bool) -> Values:
    """Run the notebook's loop with Q outside.

    The state has the rows of Q's block, or B_r. NaN where shapes clash.
    """
    output = np.full(q.shape, np.nan)
    for i in range(0, len(q), rows):
        qi = q[i : i + rows]
        height = len(qi) if state_of_block else rows
        o, l, m = np.zeros((height, q.shape[1])), np.zeros((height, 1)), np.full((height, 1), -np.inf)
        for j in range(0, len(k), columns):
            s = qi @ k[j : j + columns].T
            try:
                new = np.maximum(m, s.max(axis=1, keepdims=True))
                p, decay = np.exp(s - new), np.exp(m - new)
                o, l, m = o * decay + p @ v[j : j + columns], l * decay + p.sum(axis=1, keepdims=True), new
                output[i : i + rows] = o / l
            except ValueError:
                output[i : i + rows] = np.nan
                break
    return output


@erratum("S1.6", "notebook, FA2 loop", "state of (B_r, d) for every block", "state of (rows of Q_i, d)")
def last_block(random: np.random.Generator) -> Trial:
    q, k, v, rows = random.normal(size=(5, 2)), random.normal(size=(7, 2)), random.normal(size=(7, 2)), 3
    printed, corrected = (flash_rows(q, k, v, rows, 2, state_of_block=own) for own in (False, True))
    return Trial("N=5 B_r=3", attention(q, k, v), printed, corrected)


@erratum("S1.7", "notebook, masked tiles", "e^(S - m) with m = -inf", "e^(S - 0) where m = -inf: the tile adds nothing")
def masked_tile(random: np.random.Generator) -> Trial:
    del random
    s = np.full((1, 3), -np.inf)
    m = s.max(axis=1, keepdims=True)
    with np.errstate(invalid="ignore"):
        printed = np.exp(s - m)
    return Trial("a tile whose keys are all masked", np.zeros((1, 3)), printed, np.exp(s - np.maximum(m, 0)))


@erratum(
    "S1.8", "notebook, cell named FlashAttention-2", "divides O by l in every column block", "divides once, after the loop"
)
def divisions(random: np.random.Generator) -> Trial:
    n, d, columns = 8, 2, int(random.integers(1, 4))
    passes = -(-n // columns)
    after_loop = sum(1 for _ in np.ndindex(n, d))
    return Trial(f"N={n} d={d} T_c={passes}", n * d, sum(1 for _ in np.ndindex(n, d, passes)), after_loop)


@erratum(
    "S1.11",
    "notebook, cell named FlashAttention-2",
    "writes O alone: a backward pass has e^S and no row sums",
    "writes L = m + log l too: P = e^(S - L)",
)
def stored_statistics(random: np.random.Generator) -> Trial:
    s = random.normal(size=(2, 3))
    m = s.max(axis=1, keepdims=True)
    stored = m + np.log(np.exp(s - m).sum(axis=1, keepdims=True))
    return Trial("P of 2 rows, 3 keys, recomputed from S", softmax(s), np.exp(s), np.exp(s - stored))


@erratum(
    "S1.12",
    "notebook, cell named FlashAttention-2",
    "Algorithm 1's blocks with Q outside: B_r = min(ceil(M / 4d), d)",
    "B_r = ceil(M / 4d): half the reads of K and V for twice the M",
)
def swapped_blocks(random: np.random.Generator) -> Trial:
    n, d = 4096, 2 ** int(random.integers(3, 6))
    m = 8 * d * d

    def reads(rows: int) -> int:
        return sum(2 * n * d for _ in range(0, n, rows))

    def capped(elements: int) -> int:
        return min(elements // (4 * d), d)

    printed, corrected = reads(capped(2 * m)) / reads(capped(m)), reads(2 * m // (4 * d)) / reads(m // (4 * d))
    return Trial(f"N={n} d={d} M={m}: reads at 2M over those at M", m / (2 * m), printed, corrected)


@erratum(
    "S1.9",
    "notebook, caption of the scaled output",
    "Q_0 .. Q_(i-1) with K_j and V_j",
    "Q_i with K_1 .. K_(j-1) and V_1 .. V_(j-1)",
)
def scaled_output(random: np.random.Generator) -> Trial:
    q, k, v = (random.normal(size=(6, 2)) for _ in range(3))
    i, j, rows, columns = 1, 1, 2, 3
    qi, earlier, now = q[i * rows : (i + 1) * rows], slice(0, j * columns), slice(j * columns, (j + 1) * columns)
    s = qi @ k[earlier].T
    m = s.max(axis=1, keepdims=True)
    new = np.maximum(m, (qi @ k[now].T).max(axis=1, keepdims=True))
    l = np.exp(s - m).sum(axis=1, keepdims=True)
    computed = l * np.exp(m - new) * (softmax(s) @ v[earlier])
    printed = np.exp(q[: i * rows] @ k[now].T - new) @ v[now]
    return Trial("N=6 B_r=2 B_c=3 i=1 j=1", computed, printed, np.exp(s - new) @ v[earlier])


@erratum("S1.10", "notebook, running the cell again", "O, l, m of the last run go on", "O, l, m start from 0, 0, -inf")
def second_run(random: np.random.Generator) -> Trial:
    s = random.normal(size=4)

    def accumulated(l: float, m: float) -> float:
        for x in s:
            new = max(m, float(x))
            l, m = l * float(np.exp(m - new)) + float(np.exp(x - new)), new
        return l

    l = float(np.exp(s - s.max()).sum())
    return Trial("l of 4 scores, second run", l, accumulated(l, float(s.max())), accumulated(0.0, -np.inf))


ERRATA = (
    dropout_before_sum,
    dropped_row,
    query_gradient,
    key_gradient,
    masked_gradient,
    toy_memory,
    last_block,
    masked_tile,
    divisions,
    stored_statistics,
    swapped_blocks,
    scaled_output,
    second_run,
)
