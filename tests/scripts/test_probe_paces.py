"""Launches that show how fast each SM is."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ioaware.targets.loading import load_file

SCRIPT = Path(__file__).parents[2] / "scripts" / "probe_paces.py"


def test_means_are_in_the_order_of_the_first_programs() -> None:
    means = load_file(SCRIPT)._means
    sm, values = np.array([7, 2, 7, 2, 9]), np.array([10, 1, 30, 2, 5])
    assert means(values, sm, np.array([7, 2, 9])) == [20.0, 1.5, 5.0]
