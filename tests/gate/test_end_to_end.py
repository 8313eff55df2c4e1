"""The example repository in separate processes, as a user runs it.

The runs are green, red and accepted.

No switch turns a gate off silently.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from tests.gate.test_pytest_plugin import GROWS, MORE
from tests.support.gate_runs import Ran, Repository

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The test of the repository with its snapshot, as `--traffic=create` writes it."""
    made = Repository(tmp_path_factory.mktemp("repository"), None)
    assert made.process_pytest("--traffic=create").code == 0
    return made.test.read_text()


@pytest.fixture
def repository(tmp_path: Path, written: str) -> Repository:
    made = Repository(tmp_path, None)
    made.test.write_text(written)
    return made


def test_green_red_accepted_green_and_red_by_growth(repository: Repository) -> None:
    assert repository.process_pytest().code == 0
    repository.change(repository.kernel, *MORE)
    red = repository.process_pytest()
    assert (red.code, "WORSE: scale:scale" in red.output, "(+16,777,216, +50.0 %)" in red.output) == (1, True, True)
    assert repository.process_pytest("--traffic=accept").code == 0
    repository.change(repository.kernel, *GROWS)  # equal bytes at both points
    growth = repository.process_pytest()
    assert (growth.code, "GROWTH: scale:scale" in growth.output) == (1, True)


def test_no_switch_makes_a_regression_green(repository: Repository) -> None:
    """The planted regression stays red with switches that only a process has."""
    repository.change(repository.kernel, *MORE)
    runs = {
        "PYTEST_ADDOPTS": repository.process_pytest(PYTEST_ADDOPTS="--traffic=accept"),
        "python -O": repository.process_pytest(python=("-O",)),
        "no plugin": repository.process("-m", "pytest", "-p", "no:ioaware", "-p", "no:cacheprovider"),
    }
    if importlib.util.find_spec("xdist"):
        runs["-n 4"] = repository.process_pytest("-p", "xdist.plugin", "-n", "4")
    assert {name: ran.code for name, ran in runs.items() if ran.code == 0} == {}


@pytest.mark.skipif(not importlib.util.find_spec("xdist"), reason="pytest-xdist is not installed")
def test_a_gate_that_holds_is_green_in_several_processes(repository: Repository) -> None:
    ran = repository.process_pytest("-p", "xdist.plugin", "-n", "2")
    assert (ran.code, "1 passed" in ran.output) == (0, True)


def test_a_removed_or_skipped_test_is_an_error_of_the_ledger(repository: Repository) -> None:
    def coverage(*arguments: str) -> Ran:
        return repository.process("-m", "ioaware", "coverage", *arguments)

    assert coverage("--require", "100").code == 4  # no ledger
    assert coverage("--write", "--require", "100").code == 1  # pending
    assert repository.process_pytest("--traffic=create").code == 0  # records the gate
    complete = coverage("--require", "100")
    assert (complete.code, "1 gated, 0 exempt, 0 pending: 100.0 % gated" in complete.output) == (0, True)
    assert repository.process_pytest("--traffic-complete").code == 0
    deselected = repository.process_pytest("--traffic-complete", PYTEST_ADDOPTS="--deselect gate_scale.py::test_scale")
    assert (deselected.code != 0, "did not run and pass" in deselected.output) == (True, True)
    assert repository.process_pytest("--traffic-complete", PYTEST_ADDOPTS="--collect-only").code != 0
    repository.change(repository.test, "def test_scale", "def test_renamed")
    assert coverage("--require", "100").code == 4
    assert repository.process_pytest("--traffic-complete").code == 1
