"""Inputs of a walk from a file: copied if they fit.

Otherwise they are refused with the expected shapes.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import ioaware
from ioaware.errors import DataError, UsageError
from tests.walkthrough.test_walk import launch_values

TOY = {"seq_len": 4, "head_dim": 2, "block_m": 2, "block_n": 2, "dtype": "float32"}
Q, K, V = (np.arange(8.0).reshape(4, 2) * factor for factor in (0.1, 0.2, 0.3))


def walk_case(path: Path, case: str = "flash2", **params: object) -> ioaware.api.Walk:
    return ioaware.walk(case, source=str(path), values=True, **{**TOY, **params})


def test_arrays_become_the_inputs_and_a_scale_the_kernels(tmp_path: Path) -> None:
    np.savez(tmp_path / "in.npz", q=Q, k=K, v=V, scale=0.25)
    walk = walk_case(tmp_path / "in.npz")
    np.testing.assert_allclose(launch_values(walk, "K"), K, rtol=1e-6)
    np.testing.assert_allclose(walk.steps[1].on_chip["s"], 0.25 * Q[:2] @ K[:2].T, rtol=1e-6)
    assert walk.traced.check is not None
    assert walk.traced.check.passed  # the reference has the scale too


def test_softmax_has_one_input_array(tmp_path: Path) -> None:
    np.savez(tmp_path / "in.npz", x=np.ones((2, 3)))
    walk = ioaware.walk("softmax_one_read", source=str(tmp_path / "in.npz"), values=True, rows=2, cols=3)
    assert launch_values(walk, "X").tolist() == [[1, 1, 1], [1, 1, 1]]


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"q": Q, "k": K}, r"the file has k, q\n.*q \[1, 1, 4, 2\], k \[1, 1, 4, 2\], v"),
        ({"q": Q, "k": K, "v": V[:3]}, r"v has the shape \[3, 2\], not \[1, 1, 4, 2\]"),
        ({"q": Q, "k": K, "v": V.astype(str)}, "v holds <U"),
    ],
)
def test_arrays_that_do_not_fit(tmp_path: Path, arrays: dict[str, np.ndarray], message: str) -> None:
    np.savez(tmp_path / "in.npz", **arrays)
    with pytest.raises(UsageError, match=message):
        walk_case(tmp_path / "in.npz")


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no file"):
        walk_case(tmp_path / "missing.npz")
    (tmp_path / "text.npz").write_text("no archive")
    with pytest.raises(DataError, match=r"is no \.npz file of plain arrays"):
        walk_case(tmp_path / "text.npz")
    np.savez(tmp_path / "objects.npz", q=np.array([{}], object), k=K, v=V)  # needs pickle, which is never loaded
    with pytest.raises(DataError, match=r"is no \.npz file of plain arrays"):
        walk_case(tmp_path / "objects.npz")
    np.save(tmp_path / "one.npy", Q)
    with pytest.raises(DataError, match=r"is no \.npz file of plain arrays"):
        walk_case(tmp_path / "one.npy")


def test_the_seed_is_one_head_and_forward_only() -> None:
    with pytest.raises(UsageError, match="one head"):
        ioaware.walk("flash2", source="seed", heads=2, **TOY)
    with pytest.raises(UsageError, match="cannot be chosen"):
        ioaware.walk("flash2_bwd", source="seed", **TOY)
    with pytest.raises(UsageError, match="one head"):
        ioaware.walk("softmax_lse", source="seed", rows=2, cols=2)
