"""Find a call of each host function that the gate can derive.

Each is tried in a process of its own.
"""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias, cast

from ioaware import strict_json
from ioaware.gate.setup.call_guesses import Guess, first_guesses, needs_person
from ioaware.gate.setup.call_values import read_call_values
from ioaware.gate.setup.host_functions import HostFunction, find_host_functions

NOT_TRIED = "not tried yet: ioaware init --continue tries it"
PYTHON_ERROR = re.compile(r"[A-Za-z_][\w.]*(Error|Exception|Interrupt|Exit)\b")


Run: TypeAlias = Callable[[Sequence[str], Path, float], subprocess.CompletedProcess[bytes]]
"""Runs a module of Python.

It takes module and arguments, a directory of its path, and a time limit in seconds.
"""


@dataclass(frozen=True, slots=True)
class TimeLimits:
    """Limits of the time in which calls are tried.

    One is for each function, the other for all together.
    """

    each_s: float = 60.0
    total_s: float = 600.0

    @property
    def too_long(self) -> str:
        """Return what a function did that was given up."""
        return f"took longer than {self.each_s:g} s"


@dataclass(frozen=True, slots=True)
class GatedCall:
    """A host function with the call that works, or why none was found.

    `kernels` are those that the call launches.
    """

    function: HostFunction
    base: str
    """The directory, below the root, from which the module is imported."""
    module: str
    guess: Guess | None = None
    why: str = ""
    reads: str = ""
    writes: str = ""
    kernels: tuple[str, ...] = ()
    backward: bool = False
    """Whether the call is with its backward pass."""
    importable: bool = True
    """Whether a test can import it without a GPU; else the fixture does."""

    @property
    def by_name(self) -> str:
        """Return the function as a test names it.

        That is `module:function`, or `path.py:function` below the root where the path is no module's name.
        """
        return f"{self.module}:{self.function.name}" if self.module else self.function.place

    @property
    def target(self) -> str:
        """Return the function as a TARGET in the root of the repository."""
        packaged = "." in self.module and self.base == "."
        return f"{self.module}:{self.function.name}" if packaged else self.function.place


def find_gated_calls(
    root: Path, gpu: str, report: Callable[[str], None], limits: TimeLimits, run: Run, only: Set[str] | None = None
) -> list[GatedCall]:
    """Return a call of every host function below a directory.

    With `only`, of those that launch one of these kernels. One that a call runs inside is left out where all of its kernels
    are gated. Functions that only call others are tried for kernels that have no call yet, and left out where that does not
    work. `report` receives a sentence for each. When the time is over, those that are left are `NOT_TRIED`.
    """
    functions = find_host_functions(root)
    read_call_values(root, functions)
    if only is not None:
        functions = [function for function in functions if not only.isdisjoint(function.kernels)]
    calls = list(_calls(_Trials(root, gpu, limits, run), functions, report))
    if left := sum(call.why == NOT_TRIED for call in calls):
        report(f"{limits.total_s / 60:g} minutes are over, and {left} functions are left: ioaware init --continue tries them")
    return calls


def _calls(trials: _Trials, functions: Sequence[HostFunction], report: Callable[[str], None]) -> Iterator[GatedCall]:
    end = time.monotonic() + trials.limits.total_s
    gated: set[str] = set()
    inside: set[str] = set()
    for number, function in enumerate(functions, start=1):
        if gated.issuperset(function.kernels) and (function.indirect or function.place in inside):
            continue
        base, module = import_place(trials.root, function.path)
        call = GatedCall(function, base, module)
        why = needs_person(function)
        if not why and time.monotonic() > end:
            yield replace(call, why=NOT_TRIED)
            continue
        found = replace(call, why=why) if why else trials.tried(call)
        report(f"{number}/{len(functions)} {function.place}: {found.why or f'reads {found.reads}, writes {found.writes}'}")
        if not found.why:
            gated.update(found.kernels)
            inside |= function.calls
            yield found
        elif not function.indirect:
            yield found


def import_place(root: Path, path: str) -> tuple[str, str]:
    """Return the directory to import a file from, and its module's name there.

    The directory is below the root. A file without a module's name has an empty one.
    A file in a package is imported from the directory above the outermost package, one in `src` from there, any other from the
    root. Directories inside a package need no `__init__.py`.
    """
    file = root / path
    below = [parent for parent in file.parents if root in parent.parents]
    package = next((one.parent for one in reversed(below) if (one / "__init__.py").exists()), file.parent)
    parts = Path(path).with_suffix("").parts
    if package == file.parent and package.name != "src":
        package = root
    base = package.relative_to(root).as_posix()
    words = parts[len(package.relative_to(root).parts) :]
    return base, ".".join(words) if all(word.isidentifier() for word in words) else ""


@dataclass(frozen=True, slots=True)
class _Trials:
    """Processes that try calls, and import functions."""

    root: Path
    gpu: str
    limits: TimeLimits
    run: Run

    def tried(self, call: GatedCall) -> GatedCall:
        """Return a call with what a process found out about its guesses."""
        guesses = first_guesses(call.function)
        question = {
            "target": call.target,
            "root": str(self.root),
            "gpu": self.gpu,
            "backward": call.function.backward,
            "most_s": self.limits.each_s / 2,
            "guesses": [{"params": guess.params(), "sizes": guess.sizes, "small": guess.small} for guess in guesses],
        }
        answer = self._answer(question, self.root / call.base)
        number = answer.get("guess")
        if type(number) is not int:
            return replace(call, why=str(answer.get("why", "no answer")))
        why = self.import_error(call) if call.module else "its path is no name of a module"
        if why and self.import_error(call, by_name=True):
            return replace(call, why=why)
        return replace(
            call,
            importable=not why,
            guess=guesses[number],
            reads=str(answer["reads"]),
            writes=str(answer["writes"]),
            kernels=tuple(map(str, answer["kernels"])),
            backward=answer.get("backward") is True,
        )

    def import_error(self, call: GatedCall, *, by_name: bool = False) -> str:
        """Return why a test cannot import the function, empty where it can.

        Why: the trial may have loaded the file alone. One import that fails takes all tests of the file with it.
        """
        name = call.function.name.partition(".")[0]
        given = ("--by-name", call.by_name) if by_name else (call.module, name)
        try:
            done = self.run(["ioaware.gate.setup.import_trial", *given], self.root / call.base, self.limits.each_s)
        except subprocess.TimeoutExpired:
            return f"`from {call.module} import {name}` {self.limits.too_long}"
        return f"`from {call.module} import {name}` fails{_last_error(done.stderr)}" if done.returncode else ""

    def _answer(self, question: dict[str, Any], base: Path) -> dict[str, Any]:
        """Return the answer of a trial.

        Of one that takes too long or dies it is the best until then.
        """
        try:
            done = self.run(["ioaware.gate.setup.call_trial", json.dumps(question)], base, self.limits.each_s)
        except subprocess.TimeoutExpired as late:
            return _last_answer(late.stdout or b"") or {"why": f"it {self.limits.too_long}"}
        return _last_answer(done.stdout) or {"why": _ending(done.returncode, done.stderr)}


def _last_answer(printed: bytes) -> dict[str, Any]:
    """Return the last answer that a process printed, an empty one where it has none."""
    for line in reversed(printed.splitlines()):
        if found := _read_answer(line):
            return found
    return {}


def _read_answer(line: bytes) -> dict[str, Any]:
    """Return the answer in a line, an empty one where it has none."""
    try:
        answer: Any = strict_json.loads(line)
    except (ValueError, RecursionError):
        return {}
    is_answer = isinstance(answer, dict) and ("why" in answer or {"guess", "reads", "writes", "kernels"} <= answer.keys())
    return cast("dict[str, Any]", answer) if is_answer else {}


def _ending(code: int, errors: bytes) -> str:
    """Return how a process ended without an answer."""
    return f"its process ended with {code} and no answer{_last_error(errors)}"


def _last_error(errors: bytes) -> str:
    """Return the error that Python printed last, after a colon.

    Empty where there is none.
    """
    printed = [line for line in errors.decode(errors="replace").splitlines() if PYTHON_ERROR.match(line)]
    return f": {printed[-1][:200]}" if printed else ""
