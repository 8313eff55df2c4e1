"""Calls are tried: the first that works is taken.

A call of the wrong shape leaves its tensor.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from ioaware.gate.setup.call_guesses import first_guesses
from ioaware.gate.setup.call_trial import try_calls
from ioaware.gate.setup.host_functions import find_host_functions
from tests.support.gate_runs import REPOSITORY


def tried(root: Path, *chosen: object) -> dict[str, Any]:
    """Try the calls of the example's function.

    Its second tensor has one of the shapes.
    """
    function = find_host_functions(root)[0]
    calls = [guess for guess in first_guesses(function) if len(guess.arguments["x"]) == 2]
    found = [next(guess for guess in calls if guess.arguments["w"] == w) for w in chosen]
    questions = [{"params": guess.params(), "sizes": guess.sizes, "small": guess.small} for guess in found]
    return try_calls(f"{root / 'scale.py'}:scale", root, "cuda:90", questions)


@pytest.mark.slow
def test_the_first_call_that_works(tmp_path: Path) -> None:
    shutil.copy(REPOSITORY / "scale.py", tmp_path)
    wrong = tried(tmp_path, ("rows",))
    assert "loads 32 elements past w" in wrong["why"]
    assert tried(tmp_path, ("rows",), ("cols",), ("rows", "cols")) == {
        "guess": 1,
        "reads": "4*cols*rows",
        "writes": "2*cols*rows",
        "kernels": ["scale.py:scale_kernel"],
    }


def test_a_function_that_does_not_load(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("raise ValueError('at import')\n")
    assert "at import" in try_calls(f"{tmp_path / 'broken.py'}:f", tmp_path, "cuda:90", [])["why"]
