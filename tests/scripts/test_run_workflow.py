"""The script that runs workflows.

Tested are which steps run, with which variables, and what it collects. No ioaware runs here.
"""

from __future__ import annotations

import os
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from ioaware.targets.loading import load_file
from ioaware.targets.sibling_modules import import_path

pytest.importorskip("yaml")
SCRIPT = Path(__file__).parents[2] / "scripts" / "run_workflow.py"
HEAD = "on: push\njobs:\n  one:\n    steps:\n"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    return load_file(SCRIPT)


@pytest.fixture(scope="module")
def expressions() -> ModuleType:
    with import_path(SCRIPT.parent):
        from workflows import expressions
    return expressions


def run(script: ModuleType, folder: Path, steps: str, environment: dict[str, str] | None = None) -> Any:
    repository = folder / "repository"
    repository.mkdir(exist_ok=True)
    workflow = folder / "workflow.yml"
    workflow.write_text(HEAD + "\n".join(f"      {line}" for line in steps.splitlines()))
    (job,) = script.Runner(repository, folder, environment or {}, event="push").run(workflow)
    return job


def test_steps_run_in_order_and_stop_at_a_failure(script: ModuleType, tmp_path: Path) -> None:
    job = run(
        script,
        tmp_path,
        "- run: |\n    echo one > file\n    cat file\n- run: |\n    false\n    echo unreached\n- run: echo two\n"
        "- run: cat file\n  if: ${{ !cancelled() }}\n- run: echo three\n  if: failure()\n",
    )
    assert [(step.status, step.code, step.output) for step in job.steps] == [
        ("ok", 0, "one\n"),
        ("failed", 1, ""),
        ("skipped", 0, ""),
        ("ok", 0, "one\n"),
        ("ok", 0, "three\n"),
    ]
    assert job.failed


def test_variables_of_a_job(script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_TOKEN", "secret")
    monkeypatch.setenv("PYTEST_ADDOPTS", "--traffic=accept")
    job = run(
        script,
        tmp_path,
        "- run: |\n    env\n    echo '## red' >> \"$GITHUB_STEP_SUMMARY\"\n    echo '::error file=a.py::no'\n"
        "  env:\n    REF: ${{ github.ref }}\n",
    )
    lines = job.steps[0].output.splitlines()
    assert {"CI=true", "GITHUB_ACTIONS=true", "GITHUB_EVENT_NAME=push", "REF=refs/heads/main"} <= set(lines)
    assert not [line for line in lines if "secret" in line or line.startswith("PYTEST_")]
    assert (job.summary, job.annotations) == ("## red\n", ["::error file=a.py::no"])


def test_a_step_for_a_gpu_is_skipped_where_the_doctor_finds_none(script: ModuleType, tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    doctor = programs / "ioaware"
    path = {"PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}
    for found, status in (("false", "skipped"), ("true", "ok")):
        doctor.write_text(f"#!/bin/sh\necho '{{\"measure\": {found}}}'\n")
        doctor.chmod(0o755)
        step = run(script, tmp_path, "- run: echo measured\n  id: gpu-counters\n", environment=path).steps[0]
        assert (step.status, "ioaware doctor" in step.reason) == (status, status == "skipped")


def test_artefacts_and_unknown_actions(script: ModuleType, tmp_path: Path) -> None:
    upload = "- run: touch a\n- uses: actions/upload-artifact@x\n  with:\n    name: kept\n    path: |\n      a\n      b\n"
    job = run(script, tmp_path, upload)
    assert (job.artefacts, job.steps[1].output) == ({"kept": ["a"]}, "missing: b")
    with pytest.raises(ValueError, match="no counterpart"):
        run(script, tmp_path, "- uses: someone/action@x\n")


@pytest.mark.parametrize(
    ("text", "failed", "runs"),
    [
        (None, False, True),
        (None, True, False),
        ("${{ !cancelled() }}", True, True),
        ("always()", True, True),
        ("success()", True, False),
        ("github.event_name != 'pull_request' || github.event.label.name == 'gpu'", False, True),
        ("github.event_name == 'pull_request'", False, False),
        ("github.event_name == 'push' && (github.x == '' || failure())", False, True),
        ("github.event_name == 'push'", True, False),  # without a status function: success()
    ],
)
def test_conditions(expressions: ModuleType, text: str | None, failed: bool, runs: bool) -> None:
    assert expressions.condition(text, {"github.event_name": "push"}, failed=failed) == runs


@pytest.mark.parametrize("text", ["contains(github.ref, 'x')", "1 +", "(a", "a b", "'open", ""])
def test_other_expressions_are_refused(expressions: ModuleType, text: str) -> None:
    with pytest.raises(expressions.ExpressionError):
        expressions.evaluate(text, {}, failed=False)
