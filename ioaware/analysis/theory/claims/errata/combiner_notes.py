"""List the errors of the notes on combining partial attention (S2, section 1)."""

# ruff: noqa: E741 - l is the papers' letter
from __future__ import annotations

import numpy as np

from ioaware.analysis.theory.claims.errata.erratum import Trial, Values, erratum, vector_text
from ioaware.analysis.theory.claims.numerics.attention import softmax


class Blocks:
    """Two blocks of scores and values with the notes' quantities.

    They are a, b, c, d, e, and Delta c of both.
    """

    def __init__(self, random: np.random.Generator) -> None:
        self.a = random.normal(size=3), random.normal(size=3) + 1
        self.v = random.normal(size=(3, 2)), random.normal(size=(3, 2))
        self.b = tuple(float(a.max()) for a in self.a)
        self.c = tuple(a - b for a, b in zip(self.a, self.b, strict=True))
        self.d = tuple(np.exp(c) for c in self.c)
        self.e = tuple(float(d.sum()) for d in self.d)
        self.whole: Values = np.concatenate(self.a)
        self.values: Values = np.concatenate(self.v)
        self.top = max(self.b)
        self.delta = tuple(b - self.top for b in self.b)

    @property
    def total(self) -> float:
        """Return e of both blocks, by definition."""
        return float(np.exp(self.whole - self.top).sum())

    def __str__(self) -> str:
        return f"a1={np.round(self.a[0], 2)} a2={np.round(self.a[1], 2)}"


@erratum("S2.1", "notes 1.2, second block", "f_2 = d_1 / e_1", "f_2 = d_2 / e_2")
def second_weights(random: np.random.Generator) -> Trial:
    x = Blocks(random)
    return Trial(str(x), softmax(x.a[1]), x.d[0] / x.e[0], x.d[1] / x.e[1])


@erratum("S2.2", "notes 1.2, combined d", "[d_1 e^(Dc1) : d_2 e^(Dc1)]", "[d_1 e^(Dc1) : d_2 e^(Dc2)]")
def combined_exponentials(random: np.random.Generator) -> Trial:
    x = Blocks(random)
    first, second = np.exp(x.delta[0]), np.exp(x.delta[1])
    printed, corrected = np.concatenate((x.d[0] * first, x.d[1] * first)), np.concatenate((x.d[0] * first, x.d[1] * second))
    return Trial(str(x), np.exp(x.whole - x.top), printed, corrected)


@erratum("S2.2b", "notes 1.2, first row of e", "[e_1 e^(Dc1) : d_2 e^(Dc1)], a sequence", "e_1 e^(Dc1) + e_2 e^(Dc2), a number")
def combined_sum(random: np.random.Generator) -> Trial:
    x = Blocks(random)
    printed = np.concatenate(([x.e[0] * np.exp(x.delta[0])], x.d[1] * np.exp(x.delta[0])))
    return Trial(str(x), x.total, printed, x.e[0] * np.exp(x.delta[0]) + x.e[1] * np.exp(x.delta[1]))


@erratum("S2.3", "notes 1.2, combined f", "numerators e^(c + Dc) + e_2 e^(Dc2)", "numerators e^(c + Dc)")
def combined_weights(random: np.random.Generator) -> Trial:
    x = Blocks(random)
    corrected = np.concatenate([np.exp(c + delta) for c, delta in zip(x.c, x.delta, strict=True)]) / x.total
    return Trial(str(x), softmax(x.whole), corrected + x.e[1] * np.exp(x.delta[1]) / x.total, corrected)


@erratum("S2.4", "notes 1.3, combined e", "e_1 e^(b - b_1) + e_2 e^(b_2 - b)", "e_1 e^(b_1 - b) + e_2 e^(b_2 - b)")
def exponent_sign(random: np.random.Generator) -> Trial:
    x = Blocks(random)
    second = x.e[1] * np.exp(x.delta[1])
    return Trial(str(x), x.total, x.e[0] * np.exp(-x.delta[0]) + second, x.e[0] * np.exp(x.delta[0]) + second)


@erratum("S2.5", "notes 1.3, f", "log(e_1 e^(Dc1) + e_2 e^(Dc1))", "log(e_1 e^(Dc1) + e_2 e^(Dc2))")
def second_delta(random: np.random.Generator) -> Trial:
    x = Blocks(random)
    first, second = np.exp(x.delta[0]), np.exp(x.delta[1])
    return Trial(str(x), np.log(x.total), np.log(x.e[0] * first + x.e[1] * first), np.log(x.e[0] * first + x.e[1] * second))


@erratum("S2.6", "notes 1.3, last line of o", "log(e_1 e^(Dc1) + e^(Dc2))", "log(e_1 e^(Dc1) + e_2 e^(Dc2))")
def lost_factor(random: np.random.Generator) -> Trial:
    x = Blocks(random)
    first, second = np.exp(x.delta[0]), np.exp(x.delta[1])
    return Trial(str(x), np.log(x.total), np.log(x.e[0] * first + second), np.log(x.e[0] * first + x.e[1] * second))


def _log_attention(scores: Values, values: Values) -> Values:
    """Return sum_i (x_i - lse) v_i."""
    return (scores - np.log(np.exp(scores).sum())) @ values


@erratum(
    "S2.7", "notes 1.3, state of the combiner", "(b, e, o) is enough", "(b, e, o, w) with w = sum v: o_i + (Dc_i + f_i - f) w_i"
)
def closed_state(random: np.random.Generator) -> Trial:
    """Two prefixes with the same (b, e, o).

    What any function of that state gives for one, it gives for the other.
    """
    scores, more = np.array([0.0, -1.0]), random.normal(size=2)
    f = float(np.log(np.exp(scores).sum()))
    one = np.array([1.0, 2.0])
    shift = 1 + random.random()
    two = one + shift * np.array([1 + f, -f])  # (x - f) v is unchanged in the sum
    values, state = random.normal(size=2), (scores - f) @ two
    whole = float(np.logaddexp(f, np.log(np.exp(more).sum())))
    defined = _log_attention(np.concatenate((scores, more)), np.concatenate((two, values)))
    printed = _log_attention(np.concatenate((scores, more)), np.concatenate((one, values)))
    corrected = state + (f - whole) * two.sum() + (more - whole) @ values
    return Trial(
        f"prefixes with (b, e, o) = (0, {np.exp(f):.4f}, {state:.4f}) and w = {one.sum():.4g}, {two.sum():.4g}",
        defined,
        printed,
        corrected,
    )


@erratum(
    "S2.7b",
    "notes 1.3, combined o",
    "(c_1 + Dc1 - f) vs_1 + ..., which needs the blocks again",
    "o_1 + (Dc1 + f_1 - f) w_1 + ..., of the states alone",
)
def states_alone(random: np.random.Generator) -> Trial:
    x = Blocks(random)
    f = np.log(x.total)
    own = [np.log(e) for e in x.e]
    o = [(c - fi) @ v for c, fi, v in zip(x.c, own, x.v, strict=True)]
    w = [v.sum(axis=0) for v in x.v]
    corrected = sum(oi + (delta + fi - f) * wi for oi, delta, fi, wi in zip(o, x.delta, own, w, strict=True))
    return Trial(str(x), _log_attention(x.whole, x.values), sum(o), corrected)


@erratum(
    "S2.8", "notes 1.1, first line after eq. (12)", "e^(lse - m_ij) = e^(c_old + log sum - c_new) + l_ij", "without + l_ij"
)
def spurious_sum(random: np.random.Generator) -> Trial:
    x = Blocks(random)
    old, new, l = x.b[0], x.top, x.e[1]
    lse = old + np.log(x.e[0])
    corrected = np.exp(old + np.log(x.e[0]) - new)
    return Trial(str(x), np.exp(lse - new), corrected + l, corrected)


@erratum("S2.9", "notes 1.1, o_scale", "m_i - lse_i = e^(c - c - log sum)", "e^(m_i - lse_i) = e^(c - c - log sum)")
def lost_exponential(random: np.random.Generator) -> Trial:
    x = random.normal(size=4)
    m = x.max()
    lse = m + np.log(np.exp(x - m).sum())
    return Trial(f"x={vector_text(x)}", np.exp(-np.log(np.exp(x - m).sum())), m - lse, np.exp(m - lse))


def _lse_loop(scores: Values, values: Values, block: int, *, inside: bool) -> Values:
    """Run equations (1) to (12) with (11) and (12) inside or after the loop."""
    lse, m, o = -np.inf, -np.inf, np.zeros(values.shape[1])
    for start in range(0, len(scores), block):
        x, v = scores[start : start + block], values[start : start + block]
        new = max(float(x.max()), lse)
        p = np.exp(x - new)
        o = np.exp(m - new) * o + p @ v
        m, lse = new, new + np.log(np.exp(lse - new) + p.sum())
        if inside:
            o = o * np.exp(m - lse)
    return o if inside else o * np.exp(m - lse)


@erratum("S2.10", "notes 1.1, order of the steps", "(11) and (12) in the loop", "(11) and (12) after the loop")
def final_rescale(random: np.random.Generator) -> Trial:
    scores, values = random.normal(size=6), random.normal(size=(6, 2))
    printed, corrected = (_lse_loop(scores, values, 2, inside=inside) for inside in (True, False))
    return Trial("6 keys in blocks of 2", softmax(scores) @ values, printed, corrected)


@erratum("S2.11", "notes 1.1, o_scale", "o_scale is the denominator of softmax", "o_scale = e^(m - lse) is its reciprocal")
def reciprocal(random: np.random.Generator) -> Trial:
    x, v = random.normal(size=4), random.normal(size=(4, 2))
    m = x.max()
    o, l = np.exp(x - m) @ v, np.exp(x - m).sum()
    return Trial(f"x={vector_text(x)}", softmax(x) @ v, o * l, o * np.exp(m - (m + np.log(l))))


@erratum("S2.20", "notes 1.1, log-sum-exp", "c + log sum over n of e^(x_i - c)", "c + log sum over i of e^(x_i - c)")
def sum_index(random: np.random.Generator) -> Trial:
    x = random.normal(size=4)
    c, i = x.max(), 0
    return Trial(
        f"x={vector_text(x)}, i=0",
        np.log(np.exp(x).sum()),
        c + np.log(len(x) * np.exp(x[i] - c)),
        c + np.log(np.exp(x - c).sum()),
    )


ERRATA = (
    second_weights,
    combined_exponentials,
    combined_sum,
    combined_weights,
    exponent_sign,
    second_delta,
    lost_factor,
    closed_state,
    states_alone,
    spurious_sum,
    lost_exponential,
    final_rescale,
    reciprocal,
    sum_index,
)
