"""Host functions become calls that tests gate, found by a process for each.

The processes are invented.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ioaware.gate.setup import first_tests, gated_calls
from ioaware.gate.setup.call_guesses import first_guesses
from ioaware.gate.setup.gated_calls import NOT_TRIED, GatedCall, TimeLimits, find_gated_calls
from ioaware.gate.setup.host_functions import HostFunction, find_host_functions
from ioaware.gate.setup.warm_python import run_python
from tests.support import ROOT
from tests.support.gate_runs import REPOSITORY
from tests.support.invented_processes import Processes, said


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "scale.py").write_text((REPOSITORY / "scale.py").read_text())
    return tmp_path


def answer(**given: Any) -> Any:
    return said(b"noise\n" + json.dumps(given).encode(), 0, b"")


LIMITS = TimeLimits(70.0, 500.0)
WORKS = {"guess": 1, "reads": "4*n", "writes": "2*n", "kernels": ["scale.py:scale_kernel"]}
NO_ANSWER = "its process ended with 0 and no answer"


@pytest.mark.parametrize("ending", [b"", b"\nSegmentation fault", b'\n{"guess": 3, "rea'])
def test_the_best_answer_so_far_stays_where_a_process_does_not_end(
    root: Path, monkeypatch: pytest.MonkeyPatch, ending: bytes
) -> None:
    first, best = (json.dumps({**WORKS, "guess": guess}).encode() for guess in (0, 1))
    printed = b"noise\n" + first + b"\nmore noise\n" + best + ending
    late = subprocess.TimeoutExpired("python", 70, output=printed)
    for given in (late, SimpleNamespace(returncode=-9, stdout=printed, stderr=b"")):
        Processes(monkeypatch, given, said(b""))
        (found,) = find_gated_calls(root, "cuda:80", list[str]().append, LIMITS, partial(run_python, root))
        assert (found.guess, found.why) == (first_guesses(find_host_functions(root)[0])[1], "")


def test_a_process_is_asked_and_its_answer_read(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "mine")
    works = answer(guess=1, reads="4*n", writes="2*n", kernels=["scale.py:scale_kernel"])
    processes = Processes(monkeypatch, works, said(b""))
    told: list[str] = []
    (found,) = find_gated_calls(root, "cuda:80", told.append, LIMITS, partial(run_python, root))
    (function,) = find_host_functions(root)
    guesses = first_guesses(function)
    assert found == GatedCall(function, ".", "scale", guesses[1], "", "4*n", "2*n", ("scale.py:scale_kernel",))
    assert told == ["1/1 scale.py:scale: reads 4*n, writes 2*n"]
    (command, options), imported = processes.calls
    python = [sys.executable, "-P", "-m"]
    assert imported == ([*python, "ioaware.gate.setup.import_trial", "scale", "scale"], options)
    assert command[:4] == [*python, "ioaware.gate.setup.call_trial"]
    assert json.loads(command[4]) == {
        "target": "scale.py:scale",
        "root": str(root),
        "backward": False,
        "most_s": 35.0,
        "gpu": "cuda:80",
        "guesses": [{"params": one.params(), "sizes": one.sizes, "small": one.small} for one in guesses],
    }
    assert options.pop("env")["PYTHONPATH"] == os.pathsep.join([str(ROOT), str(root), "mine"])
    assert options == {"cwd": root, "capture_output": True, "timeout": 70.0, "check": False}


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (answer(why="it leaves its tensors"), "it leaves its tensors"),
        (answer(), NO_ANSWER),
        (answer(guess=True), NO_ANSWER),
        (answer(**{**WORKS, "guess": True}), "no answer"),
        (said(b"[1]", 0, b""), NO_ANSWER),
        (subprocess.TimeoutExpired("python", 70), "it took longer than 70 s"),
    ],
)
def test_calls_that_do_not_work_say_why(root: Path, monkeypatch: pytest.MonkeyPatch, given: Any, why: str) -> None:
    Processes(monkeypatch, given)
    told: list[str] = []
    (found,) = find_gated_calls(root, "cuda:90", told.append, LIMITS, partial(run_python, root))
    assert (found.guess, found.why, found.base, found.module) == (None, why, ".", "scale")
    assert told == [f"1/1 scale.py:scale: {why}"]


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (said(b"", 1, b"Traceback:\nImportError: no tanh\n"), "fails: ImportError: no tanh"),
        (said(b"", -11, b""), "fails"),
        (subprocess.TimeoutExpired("python", 70), "took longer than 70 s"),
    ],
)
def test_a_function_that_a_test_cannot_import_has_none(
    root: Path, monkeypatch: pytest.MonkeyPatch, given: Any, why: str
) -> None:
    """One import that fails takes all tests of the file with it."""
    Processes(monkeypatch, answer(guess=0, reads="4*n", writes="2*n", kernels=[]), given, given)
    (found,) = find_gated_calls(root, "cuda:80", list[str]().append, LIMITS, partial(run_python, root))
    assert (found.guess, found.kernels, found.why) == (None, (), f"`from scale import scale` {why}")


def test_a_module_that_needs_a_gpu_at_import_is_imported_by_the_fixture(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    no_gpu = said(b"", 1, b"Traceback:\nAssertionError: Torch not compiled with CUDA enabled\n")
    processes = Processes(monkeypatch, answer(guess=0, reads="4*n", writes="2*n", kernels=[]), no_gpu, said(b"", 0, b""))
    (found,) = find_gated_calls(root, "cuda:80", list[str]().append, LIMITS, partial(run_python, root))
    assert (found.importable, found.why) == (False, "")
    text = first_tests.tests_text([found])
    assert "from scale" not in text
    assert '    assert traffic("scale:scale", ' in text
    assert processes.calls[2][0][-2:] == ["--by-name", "scale:scale"]


def test_a_module_is_imported_as_a_test_imports_it(tmp_path: Path) -> None:
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "ops.py").write_text("def f(x): ...\n")
    function = HostFunction("pkg/ops.py", "f", 1, (), ("k",))

    def error() -> str:
        call = GatedCall(function, ".", "pkg.ops")
        trials = gated_calls._Trials(tmp_path, "", LIMITS, partial(run_python, tmp_path))  # pyright: ignore[reportPrivateUsage]
        return trials.import_error(call)

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
        (found,) = find_gated_calls(root, "cuda:90", list[str]().append, LIMITS, partial(run_python, root))
        assert (found.guess, found.why) == (None, f"its process ended with -11 and no answer{why}")


def test_no_process_is_started_for_what_a_person_must_choose(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Processes(monkeypatch)
    (tmp_path / "b.py").write_text(KERNEL + "def g(x, mode: str):\n    k[(1,)](x)\n")
    told: list[str] = []
    find_gated_calls(tmp_path, "cuda:90", told.append, LIMITS, partial(run_python, tmp_path))
    assert told == ["1/1 b.py:g: `mode` is a value that a person must choose"]


def test_a_path_that_is_no_name_of_a_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = answer(guess=0, reads="4*n", writes="2*n", kernels=[])
    for folder in ("1_ops", "2_ops"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a.py").write_text(KERNEL + "def f(x):\n    k[(1,)](x)\n")
    processes = Processes(monkeypatch, found, said(b"", 0, b""), found, said(b"", 0, b""))
    calls = find_gated_calls(tmp_path, "cuda:90", list[str]().append, LIMITS, partial(run_python, tmp_path))
    assert processes.calls[1][0][-2:] == ["--by-name", "1_ops/a.py:f"]
    text = first_tests.tests_text(calls)
    assert "def test_1_ops_a_f(traffic):" in text
    assert "def test_2_ops_a_f(traffic):" in text
    assert 'traffic("1_ops/a.py:f", ' in text


KERNEL = "import triton\n\n@triton.jit\ndef k(x):\n    pass\n\n"
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
    calls = find_gated_calls(tmp_path, "cuda:90", list[str]().append, LIMITS, partial(run_python, tmp_path))
    assert [one.function.name for one in calls] == tried
    assert [one.backward for one in calls] == [answers[0].get("backward", False), *[False] * (len(tried) - 1)]
    assert json.loads(processes.calls[0][0][-1])["backward"] is True


@pytest.mark.parametrize(("only", "left"), [(None, ["b", "c"]), ({"ops.py:k", "ops.py:l"}, ["b"]), ({"ops.py:m"}, [])])
def test_after_the_time_no_further_call_is_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, only: set[str] | None, left: list[str]
) -> None:
    """What a person must choose needs no time, and is said all the same."""
    kernels = "".join(KERNEL.replace("def k(", f"def {name}(") for name in "klmn")
    params = ("x", "x", "x", "x, mode: str")
    functions = [
        f"def {name}({given}):\n    {kernel}[(1,)](x)\n" for name, kernel, given in zip("abcd", "klmn", params, strict=True)
    ]
    (tmp_path / "ops.py").write_text(kernels + "".join(functions))
    clock = iter([0.0, 500.0, *[501.0] * 9])
    monkeypatch.setattr(gated_calls.time, "monotonic", lambda: next(clock))
    processes = Processes(monkeypatch, answer(why="no"))
    told: list[str] = []
    calls = find_gated_calls(tmp_path, "cuda:90", told.append, LIMITS, partial(run_python, tmp_path), only)
    assert [one.function.name for one in calls if one.why == NOT_TRIED] == left
    assert len(processes.calls) == 1
    if only is None:
        assert told[1:] == [
            "4/4 ops.py:d: `mode` is a value that a person must choose",
            "8.33333 minutes are over, and 2 functions are left: ioaware init --continue tries them",
        ]


def test_targets_of_packages_and_files() -> None:
    function = HostFunction("pkg/ops.py", "f", 1, (), ("k",))
    assert GatedCall(function, ".", "pkg.ops").target == "pkg.ops:f"
    assert GatedCall(function, "pkg", "ops").target == "pkg/ops.py:f"
    assert GatedCall(function, "src", "pkg.ops").target == "pkg/ops.py:f"
