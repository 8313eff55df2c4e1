"""Each step of `ioaware init`: questions, answers, commands and messages.

The processes that it starts are replaced by invented ones.
"""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ioaware.errors import IoawareError, MachineError, UsageError
from ioaware.gate.setup import call_trial, first_snapshots, first_tests, gated_calls, setup_plan
from ioaware.gate.setup.call_guesses import first_guesses, needs_person
from ioaware.gate.setup.gated_calls import GatedCall, find_gated_calls
from ioaware.gate.setup.host_functions import HostFunction, find_host_functions
from ioaware.gate.setup.host_params import HostParam
from ioaware.gate.setup.setup_plan import NewText, Plan, make_plan
from ioaware.gate.setup.workflow_files import Job, cpu_workflow, gpu_workflow, study_text
from tests.support import ROOT
from tests.support.gate_runs import REPOSITORY

KERNEL = "import triton\n\n@triton.jit\ndef k(x):\n    pass\n\n"


def raised(call: Any, *arguments: Any) -> tuple[type, str, str]:
    with pytest.raises(IoawareError) as error:
        call(*arguments)
    return type(error.value), error.value.what, error.value.remedy


class Processes:
    """`subprocess.run` that keeps what it was called with and gives invented answers."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *answers: Any) -> None:
        self.calls: list[tuple[list[str], dict[str, Any]]] = []
        self._answers = iter(answers)
        monkeypatch.setattr(subprocess, "run", self._run)

    def _run(self, command: list[str], **options: Any) -> Any:
        self.calls.append((command, options))
        answer = next(self._answers)
        if isinstance(answer, BaseException):
            raise answer
        return answer


def said(stdout: Any, code: int = 0, stderr: str | bytes = "") -> Any:
    return SimpleNamespace(stdout=stdout, returncode=code, stderr=stderr)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "scale.py").write_text((REPOSITORY / "scale.py").read_text())
    return tmp_path


def answer(**given: Any) -> Any:
    return said(b"noise\n" + json.dumps(given).encode(), 0, b"")


WORKS = {"guess": 1, "reads": "4*n", "writes": "2*n", "kernels": ["scale.py:scale_kernel"]}
NO_ANSWER = "its process ended with 0 and no answer"


@pytest.mark.parametrize("ending", [b"", b"\nSegmentation fault", b'\n{"guess": 3, "rea'])
def test_the_best_answer_so_far_stays_where_a_process_does_not_end(
    root: Path, monkeypatch: pytest.MonkeyPatch, ending: bytes
) -> None:
    first, best = (json.dumps({**WORKS, "guess": guess}).encode() for guess in (0, 1))
    printed = b"noise\n" + first + b"\nmore noise\n" + best + ending
    late = subprocess.TimeoutExpired("python", 600, output=printed)
    for given in (late, SimpleNamespace(returncode=-9, stdout=printed, stderr=b"")):
        Processes(monkeypatch, given, said(b""))
        (found,) = find_gated_calls(root, "cuda:80", list[str]().append)
        assert (found.guess, found.why) == (first_guesses(find_host_functions(root)[0])[1], "")


def test_a_process_is_asked_and_its_answer_read(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "mine")
    works = answer(guess=1, reads="4*n", writes="2*n", kernels=["scale.py:scale_kernel"])
    processes = Processes(monkeypatch, works, said(b""))
    told: list[str] = []
    (found,) = find_gated_calls(root, "cuda:80", told.append)
    (function,) = find_host_functions(root)
    guesses = first_guesses(function)
    assert found == GatedCall(function, ".", "scale", guesses[1], "", "4*n", "2*n", ("scale.py:scale_kernel",))
    assert told == ["scale.py:scale: reads 4*n, writes 2*n"]
    (command, options), imported = processes.calls
    assert imported == ([sys.executable, "-P", "-c", "from scale import scale"], options)
    assert command[:4] == [sys.executable, "-P", "-m", "ioaware.gate.setup.call_trial"]
    assert json.loads(command[4]) == {
        "target": "scale.py:scale",
        "root": str(root),
        "backward": False,
        "gpu": "cuda:80",
        "guesses": [{"params": one.params(), "sizes": one.sizes, "small": one.small} for one in guesses],
    }
    assert options.pop("env")["PYTHONPATH"] == os.pathsep.join([str(ROOT), str(root), "mine"])
    assert options == {"cwd": root, "capture_output": True, "timeout": 600.0, "check": False}


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (answer(why="it leaves its tensors"), "it leaves its tensors"),
        (answer(), NO_ANSWER),
        (answer(guess=True), NO_ANSWER),
        (answer(**{**WORKS, "guess": True}), "no answer"),
        (said(b"[1]", 0, b""), NO_ANSWER),
        (subprocess.TimeoutExpired("python", 600), "it took longer than 600 s"),
    ],
)
def test_calls_that_do_not_work_say_why(root: Path, monkeypatch: pytest.MonkeyPatch, given: Any, why: str) -> None:
    Processes(monkeypatch, given)
    told: list[str] = []
    (found,) = find_gated_calls(root, "cuda:90", told.append)
    assert (found.guess, found.why, found.base, found.module) == (None, why, ".", "scale")
    assert told == [f"scale.py:scale: {why}"]


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (said(b"", 1, b"Traceback:\nImportError: no tanh\n"), "fails: ImportError: no tanh"),
        (said(b"", -11, b""), "fails"),
        (subprocess.TimeoutExpired("python", 600), "took longer than 600 s"),
    ],
)
def test_a_function_that_a_test_cannot_import_has_none(
    root: Path, monkeypatch: pytest.MonkeyPatch, given: Any, why: str
) -> None:
    """One import that fails takes all tests of the file with it."""
    Processes(monkeypatch, answer(guess=0, reads="4*n", writes="2*n", kernels=[]), given, given)
    (found,) = find_gated_calls(root, "cuda:80", list[str]().append)
    assert (found.guess, found.kernels, found.why) == (None, (), f"`from scale import scale` {why}")


def test_a_module_that_needs_a_gpu_at_import_is_imported_by_the_fixture(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    no_gpu = said(b"", 1, b"Traceback:\nAssertionError: Torch not compiled with CUDA enabled\n")
    processes = Processes(monkeypatch, answer(guess=0, reads="4*n", writes="2*n", kernels=[]), no_gpu, said(b"", 0, b""))
    (found,) = find_gated_calls(root, "cuda:80", list[str]().append)
    assert (found.importable, found.why) == (False, "")
    text = first_tests.tests_text([found])
    assert "from scale" not in text
    assert '    assert traffic("scale:scale", ' in text
    assert processes.calls[2][0][-1] == "from ioaware.targets.loading import load_callable; load_callable('scale:scale')"


def test_a_module_is_imported_as_a_test_imports_it(tmp_path: Path) -> None:
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "ops.py").write_text("def f(x): ...\n")
    function = HostFunction("pkg/ops.py", "f", 1, (), ("k",))

    def error() -> str:
        call = GatedCall(function, ".", "pkg.ops")
        return gated_calls._import_error(call, tmp_path, "from pkg.ops import f")  # pyright: ignore[reportPrivateUsage]

    assert error() == ""
    (tmp_path / "pkg" / "__init__.py").write_text("from math import no_such_name\n")
    assert error().startswith("`from pkg.ops import f` fails: ImportError: cannot import name 'no_such_name'")


@pytest.mark.parametrize(
    ("path", "packages", "expected"),
    [
        ("a.py", (), (".", "a")),
        ("more/a.py", (), (".", "more.a")),
        ("src/a.py", (), ("src", "a")),
        ("src/pkg/a.py", ("src/pkg",), ("src", "pkg.a")),
        ("pkg/sub/a.py", ("pkg", "pkg/sub"), (".", "pkg.sub.a")),
        ("1_ops/a.py", (), (".", "")),
    ],
)
def test_where_a_module_is_imported_from(
    tmp_path: Path, path: str, packages: tuple[str, ...], expected: tuple[str, str]
) -> None:
    (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
    for package in packages:
        (tmp_path / package / "__init__.py").touch()
    assert gated_calls.import_place(tmp_path, path) == expected


@pytest.mark.parametrize("output", [b"", b"Segmentation fault", b'{"guess": NaN}'])
def test_a_process_without_an_answer_leaves_its_function_to_a_person(
    root: Path, monkeypatch: pytest.MonkeyPatch, output: bytes
) -> None:
    errors = b"Traceback (most recent call last):\n  File x\ntorch.Broken: no\nKeyError: 'a'\nRuntimeError: b\nframe #1\n"
    for printed, why in ((b"", ""), (errors, ": RuntimeError: b")):
        Processes(monkeypatch, SimpleNamespace(returncode=-11, stdout=output, stderr=printed))
        (found,) = find_gated_calls(root, "cuda:90", list[str]().append)
        assert (found.guess, found.why) == (None, f"its process ended with -11 and no answer{why}")


def test_no_process_is_started_for_what_a_person_must_choose(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Processes(monkeypatch)
    (tmp_path / "b.py").write_text(KERNEL + "def g(x, mode: str):\n    k[(1,)](x)\n")
    told: list[str] = []
    find_gated_calls(tmp_path, "cuda:90", told.append)
    assert told == ["b.py:g: `mode` is a value that a person must choose"]


def test_a_path_that_is_no_name_of_a_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = answer(guess=0, reads="4*n", writes="2*n", kernels=[])
    for folder in ("1_ops", "2_ops"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a.py").write_text(KERNEL + "def f(x):\n    k[(1,)](x)\n")
    processes = Processes(monkeypatch, found, said(b"", 0, b""), found, said(b"", 0, b""))
    calls = find_gated_calls(tmp_path, "cuda:90", list[str]().append)
    assert processes.calls[1][0][-1].endswith("load_callable('1_ops/a.py:f')")
    text = first_tests.tests_text(calls)
    assert "def test_1_ops_a_f(traffic):" in text
    assert "def test_2_ops_a_f(traffic):" in text
    assert 'traffic("1_ops/a.py:f", ' in text


AUTOGRAD = """
class Scale(torch.autograd.Function):
    def forward(ctx, x):
        return launches(x)

    def backward(ctx, g): ...

def launches(x):
    k[(1,)](x)

def wrapper(x):
    return Scale.apply(x)
"""


@pytest.mark.parametrize(
    ("answers", "tried"),
    [
        ([{"guess": 0, "kernels": ["ops.py:k"], "backward": True}], ["Scale.apply"]),
        ([{"guess": 0, "kernels": []}, {"guess": 0, "kernels": ["ops.py:k"]}], ["Scale.apply", "launches"]),
        ([{"why": "a"}, {"why": "b"}, {"guess": 0, "kernels": ["ops.py:k"]}], ["Scale.apply", "launches", "wrapper"]),
        ([{"why": "a"}, {"why": "b"}, {"why": "c"}], ["Scale.apply", "launches"]),
    ],
)
def test_a_function_without_kernels_of_its_own_to_gate_has_no_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answers: list[dict[str, Any]], tried: list[str]
) -> None:
    (tmp_path / "ops.py").write_text(KERNEL + AUTOGRAD)
    given: list[Any] = []
    for one in answers:
        given += [answer(**one, reads="4*n", writes="2*n"), said(b"", 0, b"")] if "guess" in one else [answer(**one)]
    processes = Processes(monkeypatch, *given)
    calls = find_gated_calls(tmp_path, "cuda:90", list[str]().append)
    assert [one.function.name for one in calls] == tried
    assert [one.backward for one in calls] == [answers[0].get("backward", False), *[False] * (len(tried) - 1)]
    assert json.loads(processes.calls[0][0][-1])["backward"] is True


def test_targets_of_packages_and_files() -> None:
    function = HostFunction("pkg/ops.py", "f", 1, (), ("k",))
    assert GatedCall(function, ".", "pkg.ops").target == "pkg.ops:f"
    assert GatedCall(function, "pkg", "ops").target == "pkg/ops.py:f"
    assert GatedCall(function, "src", "pkg.ops").target == "pkg/ops.py:f"


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
    def tried(*given: Any, backward: bool, report: Any) -> dict[str, Any]:
        assert backward
        report({"guess": 3})
        print("noise without an end", end="")
        return {"given": [str(one) for one in given]}

    monkeypatch.setattr(call_trial, "try_calls", tried)
    question = {"target": "a.py:f", "root": "/r", "gpu": "cuda:90", "backward": True, "guesses": []}
    assert call_trial.main([json.dumps(question)]) == 0
    lines = capfd.readouterr().out.splitlines()
    assert lines == ["", '{"guess": 3}', "noise without an end", '{"given": ["a.py:f", "/r", "cuda:90", "[]"]}']


def test_snapshots_are_created_by_this_python(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    processes = Processes(monkeypatch, said("1 passed", 0, " and a warning"), said("1 failed", 1))
    monkeypatch.setenv("PYTEST_ADDOPTS", "--traffic=accept")
    monkeypatch.setattr(first_snapshots.importlib.util, "find_spec", lambda name: None)
    assert first_snapshots.create_snapshots(tmp_path, Path("test_traffic.py")) == (True, "1 passed and a warning")
    monkeypatch.setattr(first_snapshots.importlib.util, "find_spec", lambda name: name == "xdist" or None)
    assert first_snapshots.create_snapshots(tmp_path, Path("test_traffic.py")) == (False, "1 failed")
    (plain, options), (with_xdist, _) = processes.calls
    begin = [sys.executable, "-m", "pytest", "-p", "no:ioaware", "-p", "ioaware.gate.pytest_plugin", "-q"]
    end = ["--traffic=create", "test_traffic.py"]
    assert plain == [*begin, "-p", "no:cacheprovider", *end]
    assert with_xdist == [*begin, "-p", "no:cacheprovider", "-n0", *end]
    environment = options.pop("env")
    assert environment == {name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"}
    assert options == {"cwd": tmp_path, "capture_output": True, "text": True, "timeout": 3600.0, "check": False}


def test_where_snapshots_cannot_be_created(monkeypatch: pytest.MonkeyPatch) -> None:
    for quiet in ("", "0", "False", "false"):
        monkeypatch.setenv("CI", quiet)
        first_snapshots.check_can_create()
    monkeypatch.setenv("CI", "1")
    what = "init writes snapshots, which CI must not do (the environment sets CI)"
    assert raised(first_snapshots.check_can_create) == (UsageError, what, "Run it in a checkout of your own.")
    monkeypatch.delenv("CI")
    first_snapshots.check_can_create()
    monkeypatch.setattr(first_snapshots.importlib.util, "find_spec", lambda name: None if name == "pytest" else name)
    what = "pytest is not installed, and the gate is tests"
    assert raised(first_snapshots.check_can_create) == (MachineError, what, "pip install pytest")


def test_new_files_are_shown_as_differences() -> None:
    new = NewText(Path("a/b.py"), "", "x\n")
    assert new.diff().splitlines()[:3] == ["--- /dev/null", "+++ b/a/b.py", "@@ -0,0 +1 @@"]
    changed = NewText(Path("a/b.py"), "x\n", "x\ny\n")
    assert changed.diff().splitlines() == ["--- a/a/b.py", "+++ b/a/b.py", "@@ -1 +1,2 @@", " x", "+y"]


def test_a_plan_writes_nothing_where_a_file_has_changed(tmp_path: Path) -> None:
    (tmp_path / "b.txt").write_text("other")
    plan = Plan(tmp_path, [NewText(Path("a.txt"), "", "new"), NewText(Path("b.txt"), "old", "new")])
    expected = (UsageError, f"{tmp_path / 'b.txt'} has changed meanwhile", "Run ioaware init again.")
    assert raised(plan.write) == expected
    assert not (tmp_path / "a.txt").exists()
    (tmp_path / "b.txt").write_text("")  # an empty file that appeared is not replaced either
    assert raised(Plan(tmp_path, [NewText(Path("b.txt"), "", "new")]).write) == expected
    (tmp_path / "b.txt").write_text("old")
    plan.write()
    assert [(tmp_path / name).read_text() for name in ("a.txt", "b.txt")] == ["new", "new"]


def test_a_repository_without_kernels(tmp_path: Path) -> None:
    what = f"there is no Triton or Gluon kernel below {tmp_path}"
    assert raised(make_plan, tmp_path, None, print) == (UsageError, what, "Name the root of a repository with kernels.")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", '[tool.ioaware]\ngpu = "cuda:90"  # the GPU that the kernels are compiled for\n'),
        ("[a]", '[a]\n\n[tool.ioaware]\ngpu = "cuda:90"  # the GPU that the kernels are compiled for\n'),
        ("[a]\n", '[a]\n\n[tool.ioaware]\ngpu = "cuda:90"  # the GPU that the kernels are compiled for\n'),
    ],
)
def test_the_table_at_the_end(tmp_path: Path, before: str, after: str) -> None:
    if before:
        (tmp_path / "pyproject.toml").write_text(before)
    plan = Plan(tmp_path)
    setup_plan._add_tables(plan, [], None)  # pyright: ignore[reportPrivateUsage]
    assert [(file.before, file.after) for file in plan.files] == [(before, after)]


def test_tables_that_exist_stay(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.ioaware]\n")
    plan = Plan(tmp_path)
    setup_plan._add_tables(plan, [], None)  # pyright: ignore[reportPrivateUsage]
    assert (plan.files, plan.kept) == ([], ["[tool.ioaware] of pyproject.toml stays as it is"])
    (tmp_path / "pyproject.toml").write_text("tool = {}\n")
    setup_plan._add_tables(plan, [], None)  # pyright: ignore[reportPrivateUsage]
    assert plan.kept[1:] == ["pyproject.toml cannot take a table at its end; add [tool.ioaware] by hand"]


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        ("pyproject.toml", "[tool.pytest.ini_options]\n", True), ("pyproject.toml", "[tool.other]\n", False),
        ("pytest.ini", "", True), (".pytest.ini", "", True), ("tox.ini", "[pytest]\n", True), ("tox.ini", "[tox]\n", False),
        ("setup.cfg", "[tool:pytest]\n", True), ("setup.cfg", "[metadata]\n", False), ("other.ini", "[pytest]", False),
    ],
)  # fmt: skip
def test_where_pytest_is_configured(tmp_path: Path, name: str, text: str, found: bool) -> None:
    (tmp_path / name).write_text(text)
    assert setup_plan._has_pytest_table(tmp_path) is found  # pyright: ignore[reportPrivateUsage]


def test_what_the_workflows_need_to_know(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def job(runner: str | None = None) -> Job:
        return setup_plan._job(tmp_path, runner)  # pyright: ignore[reportPrivateUsage]

    versions = {"ioaware": "0.1.0", "torch": "2.13.0+cpu", "triton": "3.7.1"}
    monkeypatch.setattr(setup_plan, "installed_version", versions.get)
    monkeypatch.setattr(setup_plan, "_branch", lambda root: "trunk")
    bare = {"ioaware": "0.1.0", "torch": "2.13.0", "triton": "3.7.1"}
    assert job() == Job("trunk", bare, (), ("self-hosted", "gpu"), benchmarks=False)
    (tmp_path / "requirements.txt").touch()
    (tmp_path / "setup.py").touch()
    (tmp_path / "conftest.py").write_text("def test_a(benchmark): ...\n")
    assert job("h200") == Job("trunk", bare, ("-r requirements.txt", "-e ."), ("h200",), benchmarks=True)
    (tmp_path / "conftest.py").rename(tmp_path / "other.py")
    (tmp_path / "setup.py").unlink()
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "x"\n')
    assert (job().installs, job().benchmarks) == (("-r requirements.txt", "-e ."), False)
    versions.pop("triton")
    what = "triton is not installed, and the workflows pin its version"
    assert raised(job) == (MachineError, what, "pip install ioaware")


def test_the_branch_of_a_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def branch(*answers: Any) -> str:
        self.calls.clear()
        self._answers = iter(answers)  # pyright: ignore[reportPrivateUsage]
        return setup_plan._branch(tmp_path)  # pyright: ignore[reportPrivateUsage]

    self = Processes(monkeypatch)
    assert branch(said("origin/trunk\n")) == "trunk"
    assert branch(said("", 128), said("topic\n")) == "topic"
    (first, options), (second, _) = self.calls
    assert first == ["git", "-C", str(tmp_path), "rev-parse", "--abbrev-ref", "origin/HEAD"]
    assert second == ["git", "-C", str(tmp_path), "symbolic-ref", "--short", "HEAD"]
    assert options == {"capture_output": True, "text": True, "timeout": 10, "check": False}
    assert branch(said("origin/\n"), said("", 1)) == "main"
    assert branch(OSError()) == "main"
    assert branch(subprocess.TimeoutExpired("git", 10)) == "main"


VERSIONS = {"ioaware": "0.1.0", "torch": "2.13.0", "triton": "3.7.1"}


def test_what_the_workflows_install() -> None:
    job = Job("main", VERSIONS, ("-r requirements.txt", "-e ."), benchmarks=True)
    rest = "          python -m pip install -r requirements.txt\n          python -m pip install -e .\n      - name: "
    pins = '"torch==2.13.0" "triton==3.7.1"'
    assert f'        run: |\n          python -m pip install "ioaware==0.1.0" {pins} pytest\n{rest}' in cpu_workflow(job)
    with_report = f'          python -m pip install "ioaware[report]==0.1.0" {pins} pytest pytest-benchmark\n{rest}'
    assert with_report in gpu_workflow(job)
    without = gpu_workflow(Job("main", VERSIONS))
    assert f'"ioaware[report]==0.1.0" {pins} pytest\n' in without
    assert ("benchmark" in without, "--benchmark-only" in gpu_workflow(job)) == (False, True)


def test_the_study() -> None:
    found = study_text([("a.py:f", {"x": "float16[n]", "n": 64, "flag": True}), ("b:g", {})])
    assert found == (
        'title = "The gated kernels: formulas, and counters where there is a GPU"\n\n'
        '[[grid]]\nsources = ["derive", "measure"]\ntargets = ["a.py:f"]\n'
        'params = { "x" = "float16[n]", "n" = 64, "flag" = true }\n\n'
        '[[grid]]\nsources = ["derive", "measure"]\ntargets = ["b:g"]\nparams = {  }\n'
    )


def only(tmp_path: Path, source: str, name: str = "ops.py") -> HostFunction:
    (tmp_path / name).write_text(KERNEL + source)
    (found,) = find_host_functions(tmp_path)
    return found


@pytest.mark.parametrize(
    ("body", "dtype"),
    [
        ("assert x.dtype == torch.float32", "float32"), ("assert x.dtype is torch.bfloat16", "bfloat16"),
        ("assert x.dtype in (torch.half, torch.float32)", "float16"), ("assert x.dtype in [torch.double]", "float64"),
        ("if x.dtype != torch.float: raise TypeError", "float32"), ("assert x.dtype == w.dtype", "float16"),
        ("assert x.dtype == torch.int8", "float16"), ("assert y.dtype == torch.float32", "float16"), ("pass", "float16"),
        ("assert x.dtype in DTYPES\n    assert x.dtype == torch.float32\n    assert x.dtype != torch.float16", "float32"),
    ],
)  # fmt: skip
def test_types_are_those_that_the_source_compares_with(tmp_path: Path, body: str, dtype: str) -> None:
    function = only(tmp_path, f"def f(x, w):\n    M, N = x.shape\n    {body}\n    k[(1,)](x, w)\n")
    found = next(one for one in first_guesses(function) if one.arguments["w"] == ("M", "N"))
    assert found.params() == {"x": f"{dtype}[M, N]", "w": f"{dtype}[M, N]"}
    text = first_tests.tests_text([GatedCall(function, ".", "ops", found)])
    assert f'x = traffic.tensor("M", "N", dtype="{dtype}", M=4096, N=2048)' in text
    assert f'w = traffic.tensor("M", "N", dtype="{dtype}")' in text


def test_names_that_two_modules_have(tmp_path: Path) -> None:
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "ops.py").write_text(KERNEL + "def f(x):\n    n = x.numel()\n    k[(1,)](x)\n")
    (tmp_path / "a.py").write_text(
        KERNEL
        + "def f(x, *, w: float):\n    n = x.numel()\n    k[(1,)](x)\n\n\ndef g(g):\n    n = g.shape[0]\n    k[(n,)](g)\n"
    )
    found = find_host_functions(tmp_path)
    assert [one.place for one in found] == ["a.py:f", "a.py:g", "pkg/ops.py:f"]
    modules = {"a.py": "a", "pkg/ops.py": "pkg.ops"}
    text = first_tests.tests_text([GatedCall(one, ".", modules[one.path], first_guesses(one)[0]) for one in found])
    assert "\nfrom a import f as a_f, g\nfrom pkg.ops import f as pkg_ops_f\n\n\ndef test_a_f(traffic):\n" in text
    assert "    assert traffic(a_f, x, w=0.5) == traffic.snapshot()\n" in text
    g_ = '    g_ = traffic.tensor("n", "cols", dtype="float16", n=4096, cols=2048)\n'
    assert f"{g_}    assert traffic(g, g_) == " in text


def test_functions_that_are_no_host_functions(tmp_path: Path) -> None:
    body = "def f(x):\n    k[(1,)](x)\n\n\ndef bench_f(x):\n    k[(1,)](x)\n"
    for name in ("test_ops.py", "conftest.py", "setup.py", "z.py", "a.py"):
        (tmp_path / name).write_text(KERNEL + body)
    assert [one.place for one in find_host_functions(tmp_path)] == ["a.py:f", "z.py:f"]


def test_values_and_shapes_that_are_guessed(tmp_path: Path) -> None:
    flag = only(tmp_path, "def f(x, flag: bool, scale: float):\n    n, = x.shape\n    k[(1,)](x)\n")
    assert [one.arguments for one in first_guesses(flag) if one.dtypes["x"] == "float16"] == [
        {"x": ("n",), "flag": flag, "scale": 0.5} for flag in (False, True)
    ]
    wide = only(tmp_path, "def f(x):\n    b = x.shape[2]\n    k[(1,)](x)\n")
    assert list(dict.fromkeys(one.arguments["x"] for one in first_guesses(wide))) == [
        ("batch", "rows", "b"), ("batch", "heads", "b", "head_dim"),
    ]  # fmt: skip
    two = only(tmp_path, "def f(x, w):\n    a, b, c = x.shape\n    w.stride(1)\n    k[(1,)](x)\n")
    assert list(dict.fromkeys(one.arguments["w"] for one in first_guesses(two))) == [("b", "c"), ("a", "b", "c")]
    unknown = only(tmp_path, "def f(x):\n    k[(1,)](x)\n")
    assert needs_person(unknown) == ""
    assert list(dict.fromkeys(one.arguments["x"] for one in first_guesses(unknown)))[:2] == [("rows", "cols"), ("n",)]
    assert needs_person(only(tmp_path, "def f(scale: float):\n    k[(1,)](scale)\n")) == "it takes no tensor"


def test_a_parameter_starts_unknown() -> None:
    assert HostParam("x") == HostParam("x", "unknown", False, None, {}, 0, "", [])
