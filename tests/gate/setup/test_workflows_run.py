"""The workflows that `ioaware init` writes, run step by step.

They run on the example repository: green, red, accepted, red by growth.
"""

from __future__ import annotations

import html
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from ioaware.targets.loading import load_file
from tests.gate.test_pytest_plugin import GROWS, MORE
from tests.support import ROOT
from tests.support.gate_runs import OF_A_JOB, REPOSITORY

pytest.importorskip("yaml")
pytest.importorskip("hatchling")
pytestmark = pytest.mark.slow
CPU, GPU = ".github/workflows/traffic.yml", ".github/workflows/traffic-gpu.yml"


class Project:
    """A repository, and the variables of a Python with the wheel of this tree."""

    def __init__(self, root: Path, python: dict[str, str], script: ModuleType) -> None:
        self.root, self.python, self.script = root, python, script
        self.kernel = root / "scale.py"

    def copy(self, folder: Path) -> Project:
        shutil.copytree(self.root, folder / "repository")
        return Project(folder / "repository", self.python, self.script)

    def call(self, *command: str) -> subprocess.CompletedProcess[str]:
        kept = {name: value for name, value in os.environ.items() if name not in (*OF_A_JOB, "PYTHONPATH")}
        kept |= {"PYTHONPATH": str(ROOT)} | {name: self.python[name] for name in ("IOAWARE_CACHE_DIR", "TRITON_CACHE_DIR")}
        return subprocess.run(
            [sys.executable, "-m", *command], cwd=self.root, env=kept, capture_output=True, text=True, check=False
        )

    def workflow(self, name: str, event: str = "pull_request", label: str = "") -> Any:
        runner = self.script.Runner(self.root, self.root.parent, self.python, event=event, label=label)
        return runner.run(self.root / name)

    def change(self, old: str, new: str) -> None:
        text = self.kernel.read_text()
        assert old in text
        self.kernel.write_text(text.replace(old, new))


def status(job: Any) -> dict[str, str]:
    return {step.name: step.status for step in job.steps if not step.name.startswith("actions/")}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The example repository with what init wrote."""
    folder = tmp_path_factory.mktemp("project")
    script = load_file(ROOT / "scripts" / "run_workflow.py")
    (folder / "repository").mkdir()
    shutil.copy(REPOSITORY / "scale.py", folder / "repository")
    python = script.make_environment(folder / "environment", ROOT)
    python |= {"IOAWARE_CACHE_DIR": str(folder / "cache"), "TRITON_CACHE_DIR": str(folder / "triton")}
    project = Project(folder / "repository", python, script)
    done = project.call("ioaware", "init", "--yes", "--gpu-runner", "h200")
    assert done.returncode == 0, done.stdout + done.stderr
    assert 'reads="4*cols*rows"' in (project.root / "test_traffic.py").read_text()
    return project


@pytest.fixture
def project(written: Project, tmp_path: Path) -> Project:
    return written.copy(tmp_path)


def test_green_red_accepted_and_red_by_growth(project: Project) -> None:
    (green,) = project.workflow(CPU)
    assert status(green) == dict.fromkeys(("Install", "Hold every snapshot", "Count the kernels without a test"), "ok"), green
    assert green.artefacts == {"traffic": ["traffic.json", "traffic-junit.xml"]}
    assert (green.annotations, "1 call, none failing" in html.unescape(green.summary)) == ([], True)

    project.change(*MORE)
    (red,) = project.workflow(CPU)
    held = red.steps[3]
    assert (held.name, held.status, held.code) == ("Hold every snapshot", "failed", 1)
    assert "(+16,777,216, +50.0 %)" in held.output
    assert "accept with pytest test_traffic.py::test_scale --traffic=accept" in held.output
    assert [line.partition("::WORSE: scale:scale")[0] for line in red.annotations] == [
        "::error file=test_traffic.py,line=12,title=WORSE%3A scale%3Ascale"
    ]
    assert "1 of 1 call fails" in html.unescape(red.summary)
    assert "| WORSE | test_traffic.py::test_scale | scale:scale | 6*cols*rows |" in html.unescape(red.summary)
    assert red.artefacts == green.artefacts

    plugin = ("-p", "no:ioaware", "-p", "ioaware.gate.pytest_plugin")
    assert project.call("pytest", *plugin, "test_traffic.py", "--traffic=accept").returncode == 0
    (accepted,) = project.workflow(CPU)
    assert not accepted.failed, accepted

    project.change(*GROWS)  # a quadratic term, with equal bytes at both points
    (growth,) = project.workflow(CPU)
    assert growth.steps[3].status == "failed"
    assert "GROWTH: scale:scale: the same bytes here, another growth" in growth.steps[3].output
    assert "title=GROWTH%3A scale%3Ascale" in growth.annotations[0]


def test_the_workflow_with_a_gpu_as_far_as_this_machine_goes(project: Project) -> None:
    """Formulas, report and history are made. What needs a GPU runs where there is one."""
    assert project.workflow(GPU, label="other") == []  # the label of a pull request is `gpu`
    (job,) = project.workflow(GPU, label="gpu")
    found = status(job)
    counters = found.pop("Measure with hardware counters")
    assert set(found.values()) == {"ok"}, job
    assert counters in ("ok", "skipped")
    assert set(job.artefacts["traffic-gpu"]) == {"traffic.db", "traffic-report", "traffic-history"}
