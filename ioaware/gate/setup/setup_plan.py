"""Plan what sets the gate up in a repository.

Files that it lacks, and a table of its pyproject.toml.

No file that exists is replaced. A table is added to the end of pyproject.toml, whose other content stays as it is.
"""

from __future__ import annotations

import math
import re
import subprocess
import tomllib
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import date
from pathlib import Path

from ioaware.environment import installed_version
from ioaware.errors import MachineError, UsageError
from ioaware.gate.repository.coverage import completed
from ioaware.gate.repository.gate_config import DEFAULT_GPU, PROJECT, config_table, project_table, read_config
from ioaware.gate.repository.kernel_finder import find_kernels, python_files
from ioaware.gate.repository.ledger import LEDGER, ledger_text, read_ledger
from ioaware.gate.setup.continued import free_path, not_tried, renewed
from ioaware.gate.setup.first_tests import tests_text
from ioaware.gate.setup.gated_calls import NOT_TRIED, GatedCall, TimeLimits, find_gated_calls
from ioaware.gate.setup.host_params import Constant
from ioaware.gate.setup.new_files import NewText, Plan, text_of
from ioaware.gate.setup.warm_python import WarmPython
from ioaware.gate.setup.workflow_files import STUDY, Job, cpu_workflow, gpu_workflow, lint_text, study_text

TESTS = "test_traffic.py"
FOLDERS = ("tests", "test")
WORKFLOWS = Path(".github") / "workflows"
CPU, GPU = WORKFLOWS / "traffic.yml", WORKFLOWS / "traffic-gpu.yml"
LINT = (Path(".github") / "actionlint.yaml", Path(".github") / "actionlint.yml")
"""Where actionlint looks for its configuration, in this order."""
RUNNER = ("self-hosted", "gpu")
PYTEST_FILES = (("pytest.ini", ""), (".pytest.ini", ""), ("tox.ini", "[pytest]"), ("setup.cfg", "[tool:pytest]"))

FIRST_TEST = "write the first one by hand (traffic(function, ...)); until then pytest --traffic-only exits with 5"
NO_CALL = f"no test: none of these calls runs; {FIRST_TEST}"
NO_FUNCTION = f"no test: no function that launches a kernel was found; {FIRST_TEST}"
NO_FURTHER_CALL = "no further test: none of these calls runs"
NONE_LEFT = "no function is left that was not tried"
BENCHMARK = re.compile(rb"def test_\w+\([^)]*\bbenchmark\b")
"""A test that uses the fixture of pytest-benchmark."""


def make_plan(root: Path, runner: str | None, report: Callable[[str], None], limits: TimeLimits, *, more: bool = False) -> Plan:
    """Return what a repository lacks.

    Calls of its host functions are tried only where it has no test of them yet. With `more` those are tried that an earlier
    run did not get to. Their tests are in a file of their own.

    Raises `UsageError` for a repository without kernels, `DataError` for a file that cannot be read.
    """
    kernels = find_kernels(root)
    if not kernels:
        raise UsageError(f"there is no Triton or Gluon kernel below {root}", "Name the root of a repository with kernels.")
    gpu = read_config(root).gpu
    plan = Plan(root)
    ledger = read_ledger(root)
    left = not_tried(ledger)
    tests = Path(next((name for name in FOLDERS if (root / name).is_dir()), ".")) / TESTS
    if more:
        tests = free_path(root, tests)
    if left if more else not (root / tests).exists():
        with WarmPython(root) as python:
            plan.calls = find_gated_calls(root, gpu, report, limits, python.run, left if more else None)
    elif left:
        plan.kept.append(f"calls of {len(left)} kernels are {NOT_TRIED}")
    working = [call for call in plan.calls if call.guess is not None]
    if working and plan.create(tests, lambda: tests_text(working)):
        plan.tests = tests
    elif (root / tests).exists():
        plan.kept.append(f"{tests.as_posix()} exists and stays as it is")
    elif more:
        plan.kept.append(NONE_LEFT if not left else NO_FURTHER_CALL)
    elif not working:
        plan.kept.append(NO_CALL if plan.calls else NO_FUNCTION)
    pending = _pending(kernels, plan.calls)
    if more and ledger is not None:
        plan.change(Path(LEDGER), renewed(ledger, {kernel: pending[kernel] for kernel in left & pending.keys()}))
    else:
        plan.create(Path(LEDGER), lambda: ledger_text(completed(ledger, pending)))
    gated = {kernel for call in working for kernel in call.kernels} & kernels
    _add_tables(plan, math.floor(100 * len(gated) / len(kernels)) if plan.tests else None)
    job = _job(root, runner)
    plan.create(CPU, lambda: cpu_workflow(job))
    if working or (root / STUDY).exists():
        plan.create(Path(STUDY), lambda: study_text([_point(call) for call in working if _has_text(call)]))
        plan.create(GPU, lambda: gpu_workflow(job))
        _add_lint(plan, [label for label in job.runner if label != "self-hosted"])
    return plan


def _pending(kernels: Iterable[str], calls: Sequence[GatedCall]) -> dict[str, str]:
    """Return why each kernel is pending: since when, and why a call does not run."""
    since = f"since {date.today().isoformat()}"
    refused: dict[str, str] = {}
    for call in sorted(calls, key=lambda call: call.why != NOT_TRIED):
        for kernel in call.function.kernels if call.why else ():
            refused.setdefault(kernel, f"; {call.function.place}: {call.why}")
    return {kernel: since + refused.get(kernel, "") for kernel in kernels}


def _add_lint(plan: Plan, labels: Sequence[str]) -> None:
    """Plan the file by which actionlint knows these labels, where it has none."""
    present = next((path for path in LINT if (plan.root / path).exists()), None)
    if present is None:
        plan.create(LINT[0], lambda: lint_text(labels))
        return
    text = (plan.root / present).read_text(encoding="utf-8", errors="replace")
    unnamed = [label for label in labels if not re.search(rf"(?<![\w-]){re.escape(label)}(?![\w-])", text)]
    remedy = f"; name the label {', '.join(unnamed)} under self-hosted-runner there" if unnamed else ""
    plan.kept.append(f"{present.as_posix()} exists and stays as it is{remedy}")


def _add_tables(plan: Plan, coverage: int | None) -> None:
    """Plan the tables that pyproject.toml lacks, at its end.

    Modules of functions that a later run tries can be imported too.
    """
    root = plan.root
    calls = [call for call in plan.calls if call.guess is not None or call.why == NOT_TRIED]
    path = root / PROJECT
    parts: list[str] = []
    if config_table(root) is None:
        share = f"coverage = {coverage}  # percent of the kernels that tests must gate\n" if coverage is not None else ""
        parts.append(f'[tool.ioaware]\ngpu = "{DEFAULT_GPU}"  # the GPU that the kernels are compiled for\n{share}')
    else:
        plan.kept.append(f"[tool.ioaware] of {PROJECT} stays as it is")
    if plan.tests and not _has_pytest_table(root):
        bases = ", ".join(f'"{base}"' for base in sorted({call.base for call in calls}))
        parts.append(f"[tool.pytest.ini_options]\npythonpath = [{bases}]\n")
    if not parts:
        return
    before = text_of(path)
    gap = "\n" if before and not before.endswith("\n") else ""
    after = f"{before}{gap}{chr(10) if before else ''}{chr(10).join(parts)}"
    try:
        tomllib.loads(after)
    except ValueError:
        plan.kept.append(f"{PROJECT} cannot take a table at its end; add [tool.ioaware] by hand")
    else:
        plan.files.append(NewText(Path(PROJECT), before, after))


def _has_pytest_table(root: Path) -> bool:
    tool = project_table(root).get("tool", {})
    if isinstance(tool, dict) and "pytest" in tool:
        return True
    return any((root / name).exists() and mark in (root / name).read_text(errors="replace") for name, mark in PYTEST_FILES)


def _has_text(call: GatedCall) -> bool:
    """Return whether a study can hold the call: None is no value of one."""
    return call.guess is not None and None not in call.guess.arguments.values()


def _point(call: GatedCall) -> tuple[str, dict[str, Constant]]:
    assert call.guess is not None  # noqa: S101 - only calls that work
    return call.target, {**call.guess.params(), **call.guess.sizes}


def _job(root: Path, runner: str | None) -> Job:
    versions = {name: installed_version(name) for name in ("ioaware", "torch", "triton")}
    if missing := [name for name, version in versions.items() if version is None]:
        raise MachineError(f"{missing[0]} is not installed, and the workflows pin its version", "pip install ioaware")
    project = project_table(root)
    installs = [f"-r {name}" for name in ("requirements.txt",) if (root / name).is_file()]
    installs += ["-e ."] if "project" in project or (root / "setup.py").exists() else []
    return Job(
        branch=_branch(root),
        versions={name: str(version).partition("+")[0] for name, version in versions.items()},
        installs=tuple(installs),
        runner=(runner,) if runner else RUNNER,
        benchmarks=any(BENCHMARK.search(text) for text in _test_sources(root)),
    )


def _test_sources(root: Path) -> Iterator[bytes]:
    for path in python_files(root):
        if path.name.startswith("test_") or path.name == "conftest.py":
            yield path.read_bytes()


def _branch(root: Path) -> str:
    """Return the default branch of the remote, else the current one, else main."""
    for arguments in (("rev-parse", "--abbrev-ref", "origin/HEAD"), ("symbolic-ref", "--short", "HEAD")):
        try:
            done = subprocess.run(  # noqa: S603 - the repository that was named
                ["git", "-C", str(root), *arguments],  # noqa: S607
                capture_output=True,
                text=True,
                timeout=10,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            break
        if done.returncode == 0 and (name := done.stdout.strip().removeprefix("origin/")):
            return name
    return "main"
