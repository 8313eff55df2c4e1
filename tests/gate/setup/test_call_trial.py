"""Calls are tried: the first that works is taken.

A call of the wrong shape leaves its tensor.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from ioaware.errors import UsageError
from ioaware.gate.setup import call_trial, first_tests
from ioaware.gate.setup.call_guesses import first_guesses
from ioaware.gate.setup.call_trial import MOST_WORKING, try_calls
from ioaware.gate.setup.gated_calls import GatedCall
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


@pytest.mark.slow
def test_a_device_is_passed_and_is_no_parameter(tmp_path: Path) -> None:
    source = (REPOSITORY / "scale.py").read_text()
    source = source.replace("def scale(x, w", "def scale(x, w, device").replace("empty_like(x)", "empty_like(x, device=device)")
    (tmp_path / "scale.py").write_text(source)
    (function,) = find_host_functions(tmp_path)
    chosen = next(one for one in first_guesses(function) if (len(one.arguments["x"]), one.arguments["w"]) == (2, ("cols",)))
    assert chosen.arguments["device"] == "cuda"
    question = {"params": chosen.params(), "sizes": chosen.sizes, "small": chosen.small}
    seen: list[Any] = []
    found = try_calls(f"{tmp_path / 'scale.py'}:scale", tmp_path, "cuda:90", [question], report=seen.append)
    assert found["reads"] == "4*cols*rows"
    assert seen == [found]
    call = GatedCall(function, ".", "scale", chosen, reads=found["reads"], kernels=("scale.py:scale_kernel",))
    assert 'traffic(scale, x, w, "cuda") == traffic.snapshot()' in first_tests.tests_text([call]).replace("'", '"')


class Trials:
    """Trials of guesses that are made up.

    `reads` has the formula of each, None for one that does not work. Each term of it is a kernel's.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *reads: str | None) -> None:
        self.reads = reads
        self.tried: list[int] = []
        self.reported: list[Any] = []
        for place in ("loading.load_function", "target.load_target"):
            monkeypatch.setattr(f"ioaware.targets.{place}", lambda target: target)
        monkeypatch.setattr(call_trial, "_tried", self.trial)

    def trial(self, loaded: object, root: Path, gpu: str, guess: Any) -> dict[str, Any]:
        assert (loaded, root, gpu) == ("k.py:f", Path("/root"), "cuda:80")
        number = guess["params"]["number"]
        self.tried.append(number)
        reads = self.reads[number]
        if reads is None:
            raise UsageError(f"guess {number} does not work", "Guess again.")
        return {"reads": reads, "writes": "0", "kernels": ["k.py:k"] * (reads.count("+") + 1)}

    def __call__(self) -> dict[str, Any]:
        guesses = [{"params": {"number": at}, "sizes": {"n": 8, "m": 4}, "small": {}} for at in range(len(self.reads))]
        return try_calls("k.py:f", Path("/root"), "cuda:80", guesses, report=self.reported.append)


def test_the_search_ends_after_some_that_work_or_with_one_that_shows_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """What does not work is none of them; names are read whole."""
    trials = Trials(monkeypatch, None, *["4*n + nm"] * MOST_WORKING, "4*n*m")
    assert (trials()["guess"], trials.tried) == (1, [*range(MOST_WORKING + 1)])
    trials = Trials(monkeypatch, None, "4*n", "4*m*n", "8*m*n + n")
    assert (trials()["guess"], trials.tried) == (2, [0, 1, 2])
    trials = Trials(monkeypatch, None, None)
    assert (trials(), trials.tried) == ({"why": "guess 1 does not work"}, [0, 1])
    assert Trials(monkeypatch)() == {"why": "no call could be guessed"}


def test_the_best_call_launches_most_kernels_and_shows_most_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    trials = Trials(monkeypatch, "4", "8*n", "2 + 2", "4*m")
    best = trials()
    assert (best["guess"], best["reads"], trials.tried) == (2, "2 + 2", [0, 1, 2, 3])
    assert [one["guess"] for one in trials.reported] == [0, 1, 2]
    assert trials.reported[-1] == best


def test_a_function_that_does_not_load(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("raise ValueError('at import')\n")
    assert "at import" in try_calls(f"{tmp_path / 'broken.py'}:f", tmp_path, "cuda:90", [])["why"]
