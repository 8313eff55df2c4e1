"""What the workflows and the study of `ioaware init` need to know."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from ioaware.errors import MachineError
from ioaware.gate.setup import setup_plan
from ioaware.gate.setup.workflow_files import Job, cpu_workflow, gpu_workflow, study_text
from tests.support.invented_processes import Processes, raised, said


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
