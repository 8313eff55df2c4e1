"""Run the steps of a GitHub workflow here, one by one, in a copy of a repository.

    python scripts/run_workflow.py .github/workflows/traffic.yml [--event pull_request] [--label gpu] [--keep DIR]

Only `run:` steps are executed, by bash as GitHub does it. The actions that the workflows of `ioaware init` use have a local
counterpart: the checkout is the copy, Python is an environment without ioaware, artefacts are files that are copied. `pip
install ioaware` installs a wheel of this tree, without a network. A step whose id begins with `gpu-` is skipped where
`ioaware doctor` finds no GPU to measure with. Exits with 1 where a job fails.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import yaml
from workflows.expressions import condition, interpolate
from workflows.user_environment import make_environment

ROOT = Path(__file__).resolve().parents[1]
LIMIT_S = 1800
OF_THIS_JOB = ("GITHUB_", "RUNNER_", "PIP_", "PYTEST_", "PYTHON", "CI", "VIRTUAL_ENV")
"""Variables of this script's process that a job of its own must not see."""


@dataclass(frozen=True, slots=True)
class StepResult:
    """How one step ended. `reason` says why it was skipped."""

    name: str
    status: Literal["ok", "failed", "skipped"]
    code: int = 0
    output: str = ""
    reason: str = ""


@dataclass(slots=True)
class JobResult:
    """The steps of a job, its summary, its annotations and its artefacts by name."""

    name: str
    steps: list[StepResult] = field(default_factory=list[StepResult])
    summary: str = ""
    artefacts: dict[str, list[str]] = field(default_factory=dict[str, list[str]])

    @property
    def failed(self) -> bool:
        """Return whether a step failed."""
        return any(step.status == "failed" for step in self.steps)

    @property
    def annotations(self) -> list[str]:
        """Return the errors that steps annotated."""
        return [line for step in self.steps for line in step.output.splitlines() if line.startswith("::error")]


class Runner:
    """Runs workflows in a repository, which it changes.

    `environment` are the variables of its Python.
    """

    def __init__(self, repository: Path, folder: Path, environment: Mapping[str, str], *, event: str, label: str = "") -> None:
        self._repository, self._folder, self._python = repository, folder, environment
        self._context = {"github.event_name": event, "github.event.label.name": label, "github.ref": "refs/heads/main"}

    def run(self, workflow: Path) -> list[JobResult]:
        """Run each job of a workflow whose condition holds, in the order of the file."""
        document = yaml.safe_load(workflow.read_text(encoding="utf-8"))
        jobs = document["jobs"].items()
        return [
            self._job(name, job, document.get("env") or {})
            for name, job in jobs
            if condition(job.get("if"), self._context, failed=False)
        ]

    def _job(self, name: str, job: Mapping[str, Any], variables: Mapping[str, str]) -> JobResult:
        result = JobResult(name)
        folder = Path(tempfile.mkdtemp(prefix="job-", dir=self._folder))
        files = {key: folder / key.lower() for key in ("GITHUB_STEP_SUMMARY", "GITHUB_ENV", "GITHUB_PATH", "GITHUB_OUTPUT")}
        for path in files.values():
            path.touch()
        outer = self._variables({**variables, **(job.get("env") or {})}, files)
        for number, step in enumerate(job["steps"]):
            found = self._step(number, step, outer, result, folder)
            result.steps.append(found)
        result.summary = files["GITHUB_STEP_SUMMARY"].read_text(encoding="utf-8")
        return result

    def _variables(self, own: Mapping[str, str], files: Mapping[str, Path]) -> dict[str, str]:
        """Return the variables of a job.

        They are those of its host without its own traces, GitHub's, and the workflow's.
        """
        kept = {name: value for name, value in os.environ.items() if not name.startswith(OF_THIS_JOB)}
        github = {
            "CI": "true",
            "GITHUB_ACTIONS": "true",
            "GITHUB_EVENT_NAME": self._context["github.event_name"],
            "GITHUB_REF": self._context["github.ref"],
            "GITHUB_SHA": "0" * 40,
            "GITHUB_WORKSPACE": str(self._repository),
            "RUNNER_TEMP": str(self._folder),
        }
        named = {name: interpolate(str(value), self._context) for name, value in own.items()}
        return {**kept, **github, **{name: str(path) for name, path in files.items()}, **named, **self._python}

    def _step(self, number: int, step: Mapping[str, Any], outer: Mapping[str, str], job: JobResult, folder: Path) -> StepResult:
        name = str(step.get("name") or step.get("uses") or step.get("run"))
        if not condition(step.get("if"), self._context, failed=job.failed):
            return StepResult(name, "skipped", reason="a step before it failed, or its condition does not hold")
        if "uses" in step:
            return self._action(name, step, job)
        own = {key: interpolate(str(value), self._context) for key, value in (step.get("env") or {}).items()}
        variables = {**outer, **own}
        if str(step.get("id", "")).startswith("gpu-") and not self._measures(variables):
            return StepResult(name, "skipped", reason="no GPU to measure with here, says ioaware doctor")
        script = folder / f"step{number}.sh"
        script.write_text(interpolate(step["run"], self._context), encoding="utf-8")
        code, output = self._execute(["bash", "-e", str(script)], variables)
        return StepResult(name, "failed" if code else "ok", code, output)

    def _execute(self, command: list[str], variables: Mapping[str, str]) -> tuple[int, str]:
        done = subprocess.run(  # noqa: S603 - the steps of a workflow, in a scratch copy
            command, cwd=self._repository, env=variables, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, errors="replace", timeout=LIMIT_S, check=False,
        )  # fmt: skip
        return done.returncode, done.stdout

    def _measures(self, variables: Mapping[str, str]) -> bool:
        _, output = self._execute(["ioaware", "doctor", "--json"], variables)
        return bool(json.loads(output)["measure"])

    def _action(self, name: str, step: Mapping[str, Any], job: JobResult) -> StepResult:
        """Do what an action does, as far as it matters here.

        Raises `ValueError` for one without a counterpart.
        """
        action = str(step["uses"]).partition("@")[0]
        if action in ("actions/checkout", "actions/setup-python"):
            return StepResult(name, "ok")
        if action != "actions/upload-artifact":
            raise ValueError(f"{action} has no counterpart here")
        wanted = str(step["with"]["path"]).split()
        there = [path for path in wanted if (self._repository / path).exists()]
        job.artefacts[step["with"]["name"]] = there
        missing = [path for path in wanted if path not in there]
        return StepResult(name, "ok", output=f"missing: {', '.join(missing)}" if missing else "")


def report(results: list[JobResult]) -> Iterator[str]:
    """Yield lines that say what ran, with the output of what failed."""
    for job in results:
        for step in job.steps:
            yield f"{job.name}: {step.name}: {step.status}{f' ({step.reason})' if step.reason else ''}"
            if step.status == "failed":
                yield step.output
        yield from job.annotations
        yield job.summary


def main() -> int:
    """Run a workflow in a copy of the repository that it is part of."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workflow", type=Path)
    parser.add_argument("--event", default="pull_request")
    parser.add_argument("--label", default="")
    parser.add_argument("--keep", type=Path, help="an empty folder for the copy, which stays")
    options = parser.parse_args()
    repository = options.workflow.resolve().parents[2]
    with tempfile.TemporaryDirectory(prefix="workflow-") as scratch:
        folder = options.keep or Path(scratch)
        copy = folder / "repository"
        shutil.copytree(repository, copy, ignore=shutil.ignore_patterns(".git", ".venv", "__pycache__"))
        environment = make_environment(folder / "environment", ROOT)
        runner = Runner(copy, folder, environment, event=options.event, label=options.label)
        results = runner.run(copy / options.workflow.resolve().relative_to(repository))
    print("\n".join(report(results)))
    return int(any(job.failed for job in results))


if __name__ == "__main__":
    sys.exit(main())
