"""The numbers of the seed notebook equal those of the kernels.

The kernels run under `--input seed`.

Sizes: M = 20, N = 6, d = 2. The notebook prints every expected number with two decimals (seed 001: its direct computation
in numpy, "Flash Attention 1" and "2"). Its errors are in dropout, mask and backward, which are not used here.
"""

from __future__ import annotations

import numpy as np
import pytest

import ioaware
from ioaware.walkthrough.walk import Walk
from tests.walkthrough.test_walk import final, launch_values

TOY = {"seq_len": 6, "head_dim": 2, "sram_elements": 20, "dtype": "float32"}
ROUNDING = 0.00501
"""Largest difference from a number printed with two decimals."""
Q = [[0.5, -0.14], [0.65, 1.52], [-0.23, -0.23], [1.58, 0.77], [-0.47, 0.54], [-0.46, -0.47]]
K = [[0.24, -1.91], [-1.72, -0.56], [-1.01, 0.31], [-0.91, -1.41], [1.47, -0.23], [0.07, -1.42]]
V = [[-0.54, 0.11], [-1.15, 0.38], [-0.6, -0.29], [-0.6, 1.85], [-0.01, -1.06], [0.82, -1.22]]
S = [
    [0.38, -0.78, -0.55, -0.26, 0.76, 0.23],
    [-2.76, -1.97, -0.18, -2.74, 0.61, -2.13],
    [0.39, 0.54, 0.16, 0.54, -0.29, 0.32],
    [-1.09, -3.16, -1.36, -2.52, 2.14, -0.99],
    [-1.15, 0.5, 0.65, -0.34, -0.81, -0.8],
    [0.78, 1.06, 0.32, 1.08, -0.57, 0.63],
]
ROW_MAX, ROW_SUM = [0.76, 0.61, 0.54, 2.14, 0.65, 1.08], [3.13, 1.67, 4.77, 1.13, 2.87, 4.03]
WEIGHTS = [
    [0.22, 0.07, 0.09, 0.12, 0.32, 0.19],
    [0.02, 0.05, 0.27, 0.02, 0.6, 0.04],
    [0.18, 0.21, 0.14, 0.21, 0.09, 0.17],
    [0.04, 0.0, 0.03, 0.01, 0.89, 0.04],
    [0.06, 0.3, 0.35, 0.13, 0.08, 0.08],
    [0.18, 0.24, 0.12, 0.25, 0.05, 0.16],
]
OUTPUT = [[-0.17, -0.33], [-0.22, -0.7], [-0.41, 0.14], [-0.03, -0.97], [-0.6, 0.07], [-0.47, 0.29]]


def assert_printed(values: object, expected: object) -> None:
    np.testing.assert_allclose(np.asarray(values, float), np.asarray(expected, float), rtol=0, atol=ROUNDING)


@pytest.fixture(scope="module")
def walks() -> dict[str, Walk]:
    return {name: ioaware.walk(name, source="seed", values=True, **TOY) for name in ("standard", "flash1", "flash2")}


def test_inputs(walks: dict[str, Walk]) -> None:
    for name, expected in (("Q", Q), ("K", K), ("V", V)):
        assert_printed(launch_values(walks["flash2"], name), expected)


def test_standard_attention_writes_the_printed_s_and_weights(walks: dict[str, Walk]) -> None:
    walk = walks["standard"]
    assert_printed(final(walk, "S"), S)
    assert_printed(final(walk, "P"), WEIGHTS)
    assert_printed(final(walk, "O"), OUTPUT)
    rows = [step for step in walk.steps if walk.launches[step.launch].kernel == "standard_softmax"]
    assert_printed([float(step.on_chip["m"]) for step in rows], ROW_MAX)
    assert_printed([float(step.on_chip["l"]) for step in rows], ROW_SUM)


def test_flash1_has_the_first_steps_local_values(walks: dict[str, Walk]) -> None:
    """Blocks K1 V1 Q1: S11, m11, P11, l11, then the updated m1 and l1.

    O, m, l are 0, -inf, 0 in HBM.
    """
    step = next(step for step in walks["flash1"].steps if step.loop_text == "j=0, i=0")
    assert_printed(step.on_chip["s"], [[0.38, -0.78, -0.55], [-2.76, -1.97, -0.18]])
    assert_printed(step.on_chip["m_block"], [0.38, -0.18])
    assert_printed(step.on_chip["p"], [[1.0, 0.31, 0.39], [0.08, 0.17, 1.0]])
    assert_printed(step.on_chip["p"].sum(1), [1.71, 1.24])
    assert_printed(step.on_chip["m_new"], [0.38, -0.18])
    assert_printed(step.on_chip["l_new"], [1.71, 1.24])
    assert step.on_chip["m"].tolist() == [-np.inf, -np.inf]
    assert step.on_chip["l"].tolist() == [0, 0]


def test_flash1_leaves_the_printed_output_maxima_and_sums_in_hbm(walks: dict[str, Walk]) -> None:
    walk = walks["flash1"]
    assert_printed(final(walk, "O"), OUTPUT)
    assert_printed(final(walk, "M")[:, 0], ROW_MAX)
    assert_printed(final(walk, "L")[:, 0], ROW_SUM)


def test_flash2_ends_each_row_block_with_the_printed_maxima_and_sums(walks: dict[str, Walk]) -> None:
    """Its loops are swapped, so the blocks are too: B_r = 3, B_c = 2.

    The notebook keeps B_r = 2.
    """
    walk = walks["flash2"]
    ends = [step for step in walk.steps if step.loop_text == "j=2"]
    assert_printed(np.concatenate([step.on_chip["m"] for step in ends]), ROW_MAX)
    assert_printed(np.concatenate([step.on_chip["l"] for step in ends]), ROW_SUM)
    assert_printed(final(walk, "O"), OUTPUT)


def test_split_kv_combines_to_the_printed_output() -> None:
    sizes = {"seq_len": 6, "head_dim": 2, "block_m": 2, "block_n": 3, "splits": 2, "dtype": "float32"}
    walk = ioaware.walk("split_kv", source="seed", values=True, **sizes)
    assert_printed(final(walk, "O"), OUTPUT)
    np.testing.assert_allclose(final(walk, "Lse")[:, 0], np.log(ROW_SUM) + ROW_MAX, rtol=0, atol=2 * ROUNDING)
