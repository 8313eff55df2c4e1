"""Guesses of a call are tried in order, and the best of those that work is taken.

`trace` and `derive` are replaced by invented ones.
"""

from __future__ import annotations

import inspect
import json
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ioaware.errors import UsageError
from ioaware.gate.setup import call_trial, import_trial


class Trials:
    """`trace` and `derive` that keep what they are called with."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, exact: bool = True) -> None:
        import ioaware.compilation.triton_ir
        import ioaware.derivation.derive
        import ioaware.tracing.trace

        self.log: list[Any] = []
        requested = SimpleNamespace(read_formula="4*n", write_formula=None)
        derived = SimpleNamespace(exact=exact, requested=requested, kernels=[SimpleNamespace(kernel="k")], files=["/r/a.py"])
        self.derived = derived
        monkeypatch.setattr(ioaware.tracing.trace, "trace", lambda loaded, params: self.log.append(("trace", params)))
        monkeypatch.setattr(ioaware.derivation.derive, "derive", self._derive)
        monkeypatch.setattr(ioaware.compilation.triton_ir, "find_gpu", lambda name: f"gpu {name}")
        monkeypatch.setattr("ioaware._deferred_gc.deferred_full_gc", nullcontext)
        self.failing: set[str] = set()

    def _derive(self, loaded: Any, params: Any, gpu: Any, machine_code: bool) -> Any:
        assert not machine_code
        self.log.append(("derive", params, gpu))
        if params["n"] in self.failing:
            raise UsageError(f"{params['n']} fails")
        return self.derived

    def tried(self, *guesses: dict[str, Any]) -> dict[str, Any]:
        loaded: Any = SimpleNamespace(resolve=lambda given, typed: given if typed else None)
        monkey: Any = pytest.MonkeyPatch()
        with monkey.context() as patch:
            patch.setattr("ioaware.targets.target.load_target", lambda target: loaded)
            patch.setattr("ioaware.targets.loading.load_function", lambda target: lambda x, flag, mode: None)
            return call_trial.try_calls("a.py:f", Path("/r"), "cuda:80", guesses)


def guess(n: int) -> dict[str, Any]:
    return {"params": {"x": "float16[n]", "flag": False}, "sizes": {"n": n}, "small": {"n": 16}}


def test_a_trial_traces_at_small_sizes_and_derives_at_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    trials = Trials(monkeypatch)
    assert trials.tried(guess(64)) == {"guess": 0, "reads": "4*n", "writes": "", "kernels": ["a.py:k"]}
    given = {"x": "float16[n]", "flag": "False"}
    assert trials.log == [("trace", {**given, "n": "16"}), ("derive", {**given, "n": "64"}, "gpu cuda:80")]


def test_the_first_guess_that_works_and_why_the_last_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    trials = Trials(monkeypatch)
    trials.failing |= {"1", "2"}
    assert trials.tried(guess(1), guess(3), guess(4))["guess"] == 1
    assert trials.tried(guess(1), guess(2)) == {"why": "2 fails"}
    assert trials.tried() == {"why": "no call could be guessed"}
    assert Trials(monkeypatch, exact=False).tried(guess(3)) == {"why": "its bytes are not exact"}


def test_no_call_is_tried_after_some_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """What worked until then is not lost."""
    trials = Trials(monkeypatch)
    trials.derived.requested.read_formula = "4"
    times = iter([0.0, 1.0, call_trial.MOST_SECONDS, call_trial.MOST_SECONDS + 1])
    monkeypatch.setattr(call_trial.time, "monotonic", lambda: next(times))
    assert trials.tried(guess(3), guess(4), guess(5), guess(6))["guess"] == 0
    assert len(trials.log) == 4


@pytest.mark.parametrize(
    ("formulas", "best"),
    [
        (["4*n", "4*n*m"], 1),  # of a matrix, whose sizes are both in the formula
        (["4096", "4*n", "8*n"], 1),
        (["4096"] * call_trial.MOST_WORKING + ["4*n*m"], 0),  # after some that work the search ends
        (["", "4*n*m", "4*n*m"], 1),
        (["4*nm", "4*m"], 1),
    ],
)
def test_the_best_guess_has_the_most_sizes_in_its_formulas(
    monkeypatch: pytest.MonkeyPatch, formulas: list[str], best: int
) -> None:
    def tried(loaded: object, root: object, gpu: object, guess: dict[str, Any]) -> dict[str, Any]:
        if not guess["reads"]:
            raise UsageError("no")
        return {"reads": guess["reads"], "writes": "0", "kernels": []}

    monkeypatch.setattr(call_trial, "_tried", tried)
    monkeypatch.setattr("ioaware.targets.target.load_target", lambda target: None)
    monkeypatch.setattr("ioaware.targets.loading.load_function", lambda target: len)
    guesses = [{"reads": text, "params": {}, "sizes": {"n": 4, "m": 2}} for text in formulas]
    assert call_trial.try_calls("a.py:f", Path("/r"), "cuda:80", guesses)["guess"] == best


def test_a_call_whose_backward_pass_works_is_better(monkeypatch: pytest.MonkeyPatch) -> None:
    """It launches kernels that the call alone does not."""

    def tried(loaded: str, root: object, gpu: object, guess: dict[str, Any]) -> dict[str, Any]:
        assert loaded in ("forward", "both")
        if loaded != "forward" and guess["name"] == "fails":
            raise UsageError("no gradient")
        return {"reads": "4*n", "writes": "0", "kernels": ["k"] if loaded == "forward" else ["k", "k2"]}

    monkeypatch.setattr(call_trial, "_tried", tried)
    monkeypatch.setattr("ioaware.targets.target.load_target", lambda target: kinds[target])
    monkeypatch.setattr("ioaware.targets.loading.load_function", lambda target: len)
    monkeypatch.setattr("ioaware.targets.with_backward.with_backward", lambda function: (function, "backward"))
    kinds = {"a.py:f": "forward", (len, "backward"): "both"}
    guesses = [{"name": name, "params": {}, "sizes": {"n": 4}} for name in ("fails", "works", "not tried")]
    best = call_trial.try_calls("a.py:f", Path("/r"), "cuda:80", guesses, backward=True)
    assert (best["guess"], best["backward"], best["kernels"]) == (1, True, ["k", "k2"])
    assert call_trial.try_calls("a.py:f", Path("/r"), "cuda:80", guesses[:1], backward=True) == {
        "guess": 0, "reads": "4*n", "writes": "0", "kernels": ["k"],
    }  # fmt: skip
    assert call_trial.try_calls("a.py:f", Path("/r"), "cuda:80", guesses)["guess"] == 0


def test_nothing_is_passed_as_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call with None is not a call without the parameter."""
    given: dict[str, Any] = {}

    def function(x: int, mode: object) -> None:
        given.update(x=x, mode=mode)

    call = call_trial._with_nothing(function, ["mode"], "a/b.py:f")  # pyright: ignore[reportPrivateUsage]
    assert str(inspect.signature(call)) == "(x: 'int') -> 'None'"
    assert f"{call.__module__}:{call.__qualname__}" == "a/b.py:f"
    call(x=3)
    assert given == {"x": 3, "mode": None}
    monkeypatch.setattr(call_trial, "_tried", lambda loaded, *_: loaded("x") or {"reads": "n", "writes": "", "kernels": []})
    monkeypatch.setattr(
        "ioaware.targets.target.load_target", lambda target: lambda x: None if target == "a.py:f" else target(x=x)
    )
    monkeypatch.setattr("ioaware.targets.loading.load_function", lambda target: function)
    guess = {"params": {"x": "float16[n]", "mode": None}, "sizes": {"n": 64}, "small": {"n": 16}}
    given.clear()
    assert call_trial.try_calls("a.py:f", Path("/r"), "cuda:80", [guess])["guess"] == 0
    assert given == {"x": "x", "mode": None}
    monkeypatch.undo()
    trials = Trials(monkeypatch)
    trials.tried({"params": {"x": "float16[n]", "mode": None}, "sizes": {"n": 64}, "small": {"n": 16}})
    assert trials.log[0] == ("trace", {"x": "float16[n]", "n": "16"})


def test_the_answer_is_the_last_line(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    def tried(*given: Any, backward: bool, most_s: float, report: Any) -> dict[str, Any]:
        assert (backward, most_s) == (True, 3.0)
        report({"guess": 3})
        print("noise without an end", end="")
        return {"given": [str(one) for one in given]}

    monkeypatch.setattr(call_trial, "try_calls", tried)
    question = {"target": "a.py:f", "root": "/r", "gpu": "cuda:90", "backward": True, "most_s": 3.0, "guesses": []}
    assert call_trial.main([json.dumps(question)]) == 0
    lines = capfd.readouterr().out.splitlines()
    assert lines == ["", '{"guess": 3}', "noise without an end", '{"given": ["a.py:f", "/r", "cuda:90", "[]"]}']


def test_an_import_by_its_names() -> None:
    assert import_trial.main(["json", "loads"]) == 0
    assert import_trial.main(["--by-name", "json:loads"]) == 0
    with pytest.raises(ImportError, match=r"^cannot import name 'nothing' from 'json' \(.*json/__init__\.py\)$"):
        import_trial.main(["json", "nothing"])
    with pytest.raises(ImportError):
        import_trial.main(["no_such_module_of_tests", "f"])
