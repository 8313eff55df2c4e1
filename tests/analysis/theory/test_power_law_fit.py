"""Power-law fits recover exact laws and refuse degenerate inputs.

They have the stated coverage.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from ioaware.analysis.theory.power_law_fit import fit_power_law, student_t


def test_an_exact_law_is_recovered_with_a_narrow_interval() -> None:
    sizes = [512, 1024, 2048, 4096, 8192]
    fit = fit_power_law({"N": sizes}, [3 * n**2 for n in sizes])
    exponent = fit.exponents["N"]
    assert exponent.contains(2)
    assert not exponent.contains(2.001)
    assert exponent.high - exponent.low < 1e-10
    assert fit.coefficient == pytest.approx(3)
    assert fit.r_squared == 1
    assert fit.points == 5


def test_three_exponents_at_once() -> None:
    points = [(n, d, m) for n in (512, 2048, 8192) for d in (32, 64, 128) for m in (2**12, 2**14, 2**16)]
    n, d, m = zip(*points, strict=True)
    fit = fit_power_law({"N": n, "d": d, "M": m}, [12 * a**2 * b**2 / c for a, b, c in points])
    assert [round(e.value, 9) for e in fit.exponents.values()] == [2, 2, -1]
    assert all(fit.exponents[name].contains(power) for name, power in {"N": 2, "d": 2, "M": -1}.items())


def test_numbers_beyond_floats_of_64_bits_and_constants() -> None:
    huge = fit_power_law({"N": [10**300, 10**301, 10**302, 10**303]}, [10**600, 10**602, 10**604, 10**606])
    assert huge.exponents["N"].contains(2)
    constant = fit_power_law({"N": [1, 2, 3, 4]}, [7, 7, 7, 7])
    assert constant.exponents["N"].contains(0)
    assert constant.r_squared == 1


@pytest.mark.parametrize(
    ("confidence", "degrees", "quantile"),
    [(0.95, 1, 12.706205), (0.95, 4, 2.776445), (0.95, 10, 2.228139), (0.99, 3, 5.840909), (0.95, 10**6, 1.959966)],
)
def test_quantiles_of_student_s_t(confidence: float, degrees: int, quantile: float) -> None:
    """Quantiles from printed tables."""
    assert student_t(confidence, degrees) == pytest.approx(quantile, abs=2e-6)


@pytest.mark.parametrize("confidence", [0.95, 0.8])
def test_intervals_have_the_stated_coverage(confidence: float) -> None:
    """600 noisy samples of one law: the coverage is near the binomial's.

    It is within three standard deviations of the binomial.
    """
    dice, draws = np.random.default_rng(7), 600
    n, d = (axis.ravel() for axis in np.meshgrid([512, 1024, 2048, 4096], [32, 64, 128]))
    covered = {"N": 0, "d": 0}
    for _ in range(draws):
        noisy = 4 * n**2.0 * d * np.exp(dice.normal(0, 0.05, n.size))
        fit = fit_power_law({"N": list(n), "d": list(d)}, list(noisy), confidence=confidence)
        for name, truth in (("N", 2), ("d", 1)):
            covered[name] += fit.exponents[name].contains(truth)
    allowed = 3 * math.sqrt(confidence * (1 - confidence) / draws)
    for hits in covered.values():
        assert abs(hits / draws - confidence) < allowed


def test_r_squared_falls_with_noise() -> None:
    sizes = [2.0**power for power in range(4, 14)]
    wobble = [1.5 if power % 2 else 1 / 1.5 for power in range(10)]
    fit = fit_power_law({"N": sizes}, [n * w for n, w in zip(sizes, wobble, strict=True)])
    assert 0.9 < fit.r_squared < 0.999
    assert fit.exponents["N"].high - fit.exponents["N"].low > 0.01


@pytest.mark.parametrize(
    ("variables", "measured", "reason"),
    [
        ({}, [1, 2, 3], "no variable"),
        ({"N": [1, 2]}, [1, 2], "at least 3"),
        ({"N": [1, 2, 3], "d": [1, 2, 4]}, [1, 2, 3], "at least 4"),
        ({"N": [5, 5, 5, 5]}, [1, 2, 3, 4], "does not vary"),
        ({"N": [1, 2, 4, 8], "d": [3, 6, 12, 24]}, [1, 2, 3, 4], "vary together"),
        ({"N": [1, 2, 3]}, [1, 2, 3, 4], "3 values for 4 points"),
        ({"N": [1, 2, 0]}, [1, 2, 3], "positive"),
        ({"N": [1, 2, 3]}, [1, -2, 3], "positive"),
        ({"N": [1, 2, 3]}, [1, math.nan, 3], "finite"),
        ({"N": [1, 2, math.inf]}, [1, 2, 3], "finite"),
    ],
    ids=str,
)
def test_degenerate_inputs_are_refused(variables: dict[str, list[float]], measured: list[float], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        fit_power_law(variables, measured)


def test_refuses_an_impossible_confidence() -> None:
    with pytest.raises(ValueError, match="confidence"):
        fit_power_law({"N": [1, 2, 3]}, [1, 2, 3], confidence=1.0)


def test_the_interval_of_four_points_by_hand() -> None:
    """y = x with errors has slope 1, residual 4 e^2, and 2 degrees of freedom.

    The errors are +e, -e, -e, +e at log x = 0, 1, 2, 3.
    """
    e, quantile = 0.01, 4.302652730  # Student's t: 97.5 % with 2 degrees of freedom
    x = [math.exp(k) for k in range(4)]
    y = [math.exp(k + sign * e) for k, sign in zip(range(4), (1, -1, -1, 1), strict=True)]
    exponent = fit_power_law({"x": x}, y).exponents["x"]
    half = quantile * math.sqrt(4 * e * e / 2 / 5)  # the squared deviations of log x sum to 5
    assert exponent.value == pytest.approx(1.0)
    assert exponent.high - exponent.value == pytest.approx(half, rel=1e-6)
