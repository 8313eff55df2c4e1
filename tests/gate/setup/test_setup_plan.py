"""What `ioaware init` writes: everything is shown, nothing is replaced.

Nothing that exists is replaced, and a second run has nothing to do.
"""

from __future__ import annotations

import io
import re
import shutil
import subprocess
import sys
import tomllib
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from ioaware.cli.main import run
from ioaware.cli.options import Settings
from ioaware.errors import DataError
from ioaware.gate.repository.gate_config import GateConfig, read_config
from ioaware.gate.repository.ledger import read_ledger
from ioaware.gate.setup import first_snapshots, setup_plan
from ioaware.gate.setup.call_guesses import first_guesses
from ioaware.gate.setup.gated_calls import NOT_TRIED, GatedCall, TimeLimits
from ioaware.gate.setup.host_functions import find_host_functions
from ioaware.gate.setup.workflow_files import CHECKOUT, PYTHON, UPLOAD, Job, cpu_workflow, gpu_workflow
from tests.support import ROOT
from tests.support.gate_runs import OF_A_JOB, REPOSITORY

yaml = pytest.importorskip("yaml")
VERSIONS = {"ioaware": "0.1.0", "torch": "2.13.0", "triton": "3.7.1"}
WRITTEN = ("test_traffic.py", "traffic-ledger.toml", "pyproject.toml", "traffic-study.toml")
WORKFLOWS = (".github/workflows/traffic.yml", ".github/workflows/traffic-gpu.yml", ".github/actionlint.yaml")


def calls(root: Path, *_: object) -> list[GatedCall]:
    """The call that works for the example's function, as its trial finds it."""
    (function,) = find_host_functions(root)
    guess = next(guess for guess in first_guesses(function) if guess.arguments["w"] == ("cols",))
    return [GatedCall(function, ".", "scale", guess, "", "4*cols*rows", "2*cols*rows", ("scale.py:scale_kernel",))]


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in OF_A_JOB:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(setup_plan, "find_gated_calls", calls)
    monkeypatch.setattr(first_snapshots, "create_snapshots", lambda root, tests: (True, "1 passed"))
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    shutil.copy(REPOSITORY / "scale.py", tmp_path)
    return tmp_path


def init(root: Path, *arguments: str) -> int:
    return run(["init", str(root), *arguments], Settings())


def contents(root: Path) -> dict[str, bytes]:
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_nothing_is_written_without_consent(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = contents(root)
    assert init(root) == 2
    shown = capsys.readouterr()
    assert contents(root) == before
    assert all(f"+++ b/{name}" in shown.out for name in (*WRITTEN, *WORKFLOWS))
    assert "ioaware init --yes" in shown.err


def test_what_is_shown_is_written_and_a_second_run_has_nothing_to_do(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert init(root, "--yes", "--gpu-runner", "h200") == 0
    shown = capsys.readouterr().out
    written = contents(root)
    assert written.keys() == {"scale.py", *WRITTEN, *WORKFLOWS}
    for name in (*WRITTEN, *WORKFLOWS):
        assert all(f"+{line}" in shown for line in written[name].decode().splitlines())
    assert 'runs-on: ["h200"]' in written[WORKFLOWS[1]].decode()
    assert read_config(root) == GateConfig("cuda:90", 100)
    ledger = read_ledger(root)
    assert ledger
    assert list(ledger.kernels) == ["scale.py:scale_kernel"]
    assert init(root, "--yes") == 0
    assert capsys.readouterr().out.endswith("nothing to do\n")
    assert contents(root) == written


def test_the_first_test(root: Path) -> None:
    init(root, "--yes")
    assert (
        (root / "test_traffic.py")
        .read_text()
        .endswith("""
from scale import scale


def test_scale(traffic):
    x = traffic.tensor("rows", "cols", dtype="float16", rows=4096, cols=2048)
    w = traffic.tensor("cols", dtype="float16")
    assert traffic(scale, x, w) == traffic.snapshot()
""")
    )


def test_a_repository_without_a_call_is_told_so(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (function,) = find_host_functions(root)
    calls = [GatedCall(function, ".", "scale", why="it needs a scale")]
    monkeypatch.setattr(setup_plan, "find_gated_calls", lambda *_: calls)
    assert setup_plan.NO_CALL in setup_plan.make_plan(root, None, print, TimeLimits()).kept
    calls.clear()
    assert setup_plan.NO_FUNCTION in setup_plan.make_plan(root, None, print, TimeLimits()).kept


def test_a_later_run_goes_on_with_what_was_not_tried(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its tests are in a file of their own, and the ledger has new reasons."""
    (function,) = find_host_functions(root)
    asked: list[tuple[TimeLimits, set[str] | None]] = []

    def none_tried(
        _root: Path, _gpu: str, _report: Any, limits: TimeLimits, _run: Any, only: set[str] | None
    ) -> list[GatedCall]:
        asked.append((limits, only))
        return [GatedCall(function, ".", "scale", why=NOT_TRIED)]

    monkeypatch.setattr(setup_plan, "find_gated_calls", none_tried)
    assert init(root, "--yes", "--seconds", "7", "--minutes", "2") == 0
    assert asked == [(TimeLimits(7.0, 120.0), None)]
    ledger = (root / "traffic-ledger.toml").read_text()
    assert f"scale.py:scale: {NOT_TRIED}" in ledger
    (root / "test_traffic.py").write_text("")
    capsys.readouterr()
    assert init(root, "--yes") == 0
    assert f"calls of 1 kernels are {NOT_TRIED}" in capsys.readouterr().out
    monkeypatch.setattr(setup_plan, "find_gated_calls", lambda *_: [GatedCall(function, ".", "scale", why="it needs a scale")])
    assert init(root, "--yes", "--continue") == 0
    shown = capsys.readouterr().out
    assert f"-{ledger.splitlines()[-1]}" in shown
    assert setup_plan.NO_FURTHER_CALL in shown
    after = read_ledger(root)
    assert after
    assert after.kernels["scale.py:scale_kernel"].pending.endswith("scale.py:scale: it needs a scale")
    assert init(root, "--yes", "--continue") == 0
    assert f"{setup_plan.NONE_LEFT}\n" in capsys.readouterr().out
    (root / "traffic-ledger.toml").write_text(ledger)
    monkeypatch.setattr(setup_plan, "find_gated_calls", calls)
    assert init(root, "--yes", "--continue") == 0
    assert "def test_scale(traffic)" in (root / "test_traffic_2.py").read_text()
    assert (root / "test_traffic.py").read_text() == ""


def test_a_function_that_was_not_tried_is_why_its_kernel_is_pending(root: Path) -> None:
    (function,) = find_host_functions(root)
    tried = [GatedCall(function, ".", "scale", why=why) for why in ("it needs a scale", NOT_TRIED)]
    found = setup_plan._pending(["scale.py:scale_kernel"], tried)
    assert found["scale.py:scale_kernel"].endswith(NOT_TRIED)


def test_the_ledger_says_why_a_kernel_is_pending(root: Path) -> None:
    (function,) = find_host_functions(root)
    tried = [GatedCall(function, ".", "scale", why="it needs a scale"), GatedCall(function, ".", "scale", why="again")]
    found = setup_plan._pending(["scale.py:scale_kernel", "scale.py:other"], tried)
    today = f"since {date.today().isoformat()}"
    assert found == {"scale.py:scale_kernel": f"{today}; scale.py:scale: it needs a scale", "scale.py:other": today}


@pytest.mark.parametrize("name", [*WRITTEN[:2], WRITTEN[3], *WORKFLOWS])
def test_no_file_is_replaced(root: Path, name: str) -> None:
    from ioaware.gate.repository.ledger import Ledger, write_ledger

    (root / name).parent.mkdir(parents=True, exist_ok=True)
    if name.endswith("ledger.toml"):
        write_ledger(root, Ledger())
    else:
        (root / name).write_text("# mine\n")
    before = (root / name).read_bytes()
    assert init(root, "--yes") == 0
    assert (root / name).read_bytes() == before


@pytest.mark.parametrize(("options", "labels"), [((), ["gpu"]), (("--gpu-runner", "h200: x"), ["h200: x"])])
def test_the_linter_of_workflows_knows_the_label_of_gpu_runners(
    root: Path, options: tuple[str, ...], labels: list[str]
) -> None:
    assert init(root, "--yes", *options) == 0
    assert yaml.safe_load((root / WORKFLOWS[2]).read_text()) == {"self-hosted-runner": {"labels": labels}}
    runs_on = yaml.safe_load((root / WORKFLOWS[1]).read_text())["jobs"]["measure"]["runs-on"]
    assert [label for label in runs_on if label != "self-hosted"] == labels


@pytest.mark.parametrize(
    ("name", "text", "remedy"),
    [
        (
            "actionlint.yaml",
            "self-hosted-runner:\n  labels: [linux-gpu]\n",
            "; name the label gpu under self-hosted-runner there",
        ),
        ("actionlint.yml", "self-hosted-runner:\n  labels: [gpu]\n", ""),
    ],
)
def test_a_configuration_of_the_linter_stays_as_it_is(
    root: Path, capsys: pytest.CaptureFixture[str], name: str, text: str, remedy: str
) -> None:
    (root / ".github").mkdir()
    (root / ".github" / name).write_text(text)
    assert init(root, "--yes") == 0
    assert f".github/{name} exists and stays as it is{remedy}\n" in capsys.readouterr().out
    assert {path.name for path in (root / ".github").glob("actionlint.*")} == {name}
    assert (root / ".github" / name).read_text() == text


def test_every_label_that_the_linter_lacks_is_named(tmp_path: Path) -> None:
    (tmp_path / ".github").mkdir()
    (tmp_path / ".github" / "actionlint.yaml").write_text("self-hosted-runner:\n  labels: [b]\n")
    plan = setup_plan.Plan(tmp_path)
    setup_plan._add_lint(plan, ["a", "b", "c"])  # pyright: ignore[reportPrivateUsage]
    assert plan.kept == [
        ".github/actionlint.yaml exists and stays as it is; name the label a, c under self-hosted-runner there"
    ]


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_tables_are_added_at_the_end_of_pyproject(root: Path, newline: str) -> None:
    before = newline.join(("# mine", "[project]", 'name = "x"', "[tool.pytest.ini_options]", 'addopts = ""  # é'))
    (root / "pyproject.toml").write_bytes(before.encode())
    assert init(root, "--yes") == 0
    after = (root / "pyproject.toml").read_bytes().decode()
    assert after.startswith(before)
    table = tomllib.loads(after)
    assert table["tool"]["ioaware"] == {"gpu": "cuda:90", "coverage": 100}
    assert table["tool"]["pytest"] == {"ini_options": {"addopts": ""}}
    assert "python -m pip install -e ." in (root / WORKFLOWS[0]).read_text()


def test_a_file_that_appears_meanwhile_is_not_replaced(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Answers(io.StringIO):
        def isatty(self) -> bool:
            return True

        def readline(self, *_: object) -> str:
            (root / "test_traffic.py").write_text("# mine\n")
            return "y\n"

    monkeypatch.setattr(sys, "stdin", Answers())
    assert init(root) == 2
    assert contents(root).keys() == {"scale.py", "test_traffic.py"}


def test_ends_of_init(root: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    assert init(tmp_path_factory.mktemp("empty"), "--yes") == 2
    monkeypatch.setenv("CI", "true")
    assert init(root, "--yes") == 2
    assert contents(root).keys() == {"scale.py"}
    monkeypatch.delenv("CI")
    monkeypatch.setattr(first_snapshots, "create_snapshots", lambda root, tests: (False, "1 failed"))
    assert init(root, "--yes") == 1


def test_the_pins_are_those_of_this_repository() -> None:
    own = (ROOT / ".github" / "workflows" / "test.yml").read_text()
    assert all(f"uses: {action}\n" in own for action in (CHECKOUT, PYTHON, UPLOAD))


JOB = Job("main", VERSIONS, ("-r requirements.txt", "-e ."), ("self-hosted", "gpu"), benchmarks=True)


@pytest.mark.parametrize("text", [cpu_workflow(JOB), gpu_workflow(JOB)], ids=["cpu", "gpu"])
def test_workflows_have_no_secret_no_write_and_no_expression_in_a_script(text: str) -> None:
    workflow = yaml.safe_load(text)
    (job,) = workflow["jobs"].values()
    assert (workflow["permissions"], job["permissions"]) == ({}, {"contents": "read"})
    assert (type(job["timeout-minutes"]), "secrets" in text, "pull_request_target" in text) == (int, False, False)
    for step in job["steps"]:
        assert step.keys() <= {"name", "id", "if", "run", "uses", "with"}
        assert "${{" not in step.get("run", "")
        assert ("run" in step) != ("uses" in step)
        assert "uses" not in step or re.fullmatch(r"actions/[a-z-]+@[0-9a-f]{40}", step["uses"])
    assert job["steps"][0]["with"] == {"persist-credentials": False}


def test_the_workflow_without_a_gpu_runs_on_forks_and_holds_everything() -> None:
    workflow = yaml.safe_load(cpu_workflow(JOB))
    assert workflow[True] == {"pull_request": None, "push": {"branches": ["main"]}}  # `on` is true in YAML 1.1
    (job,) = workflow["jobs"].values()
    scripts = "\n".join(step.get("run", "") for step in job["steps"])
    assert job["runs-on"] == "ubuntu-24.04"
    assert "--traffic-only --traffic-complete" in scripts
    assert "ioaware coverage" in scripts


def test_the_workflow_with_a_gpu_runs_by_schedule_and_label() -> None:
    workflow = yaml.safe_load(gpu_workflow(JOB))
    (job,) = workflow["jobs"].values()
    assert workflow[True].keys() == {"schedule", "workflow_dispatch", "pull_request"}
    assert workflow[True]["pull_request"] == {"types": ["labeled"]}
    assert "github.event.label.name == 'gpu'" in job["if"]
    assert [step["id"] for step in job["steps"] if "id" in step] == ["gpu-counters", "gpu-benchmarks"]
    assert "gpu-benchmarks" not in gpu_workflow(Job("main", VERSIONS))


@pytest.mark.skipif(shutil.which("zizmor", path=str(Path(sys.executable).parent)) is None, reason="zizmor is not installed")
def test_zizmor_finds_nothing(tmp_path: Path) -> None:
    folder = tmp_path / ".github" / "workflows"
    folder.mkdir(parents=True)
    (folder / "cpu.yml").write_text(cpu_workflow(JOB))
    (folder / "gpu.yml").write_text(gpu_workflow(JOB))
    zizmor = Path(sys.executable).parent / "zizmor"
    done = subprocess.run([zizmor, "--offline", "--no-progress", str(folder)], capture_output=True, text=True, check=False)
    assert (done.returncode, "No findings to report" in done.stdout) == (0, True), done.stdout
    (folder / "cpu.yml").write_text(cpu_workflow(JOB).replace(CHECKOUT, "actions/checkout@v4"))
    assert subprocess.run([zizmor, "--offline", "--no-progress", str(folder)], capture_output=True, check=False).returncode


@pytest.mark.parametrize(
    "table",
    ["gpu = 3", 'gpu = ""', "coverage = 101", "coverage = nan", "coverage = true", 'coverage = "80"', "covrage = 80", "x"],
)
def test_a_damaged_configuration_is_refused(tmp_path: Path, table: str) -> None:
    (tmp_path / "pyproject.toml").write_text(f"[tool.ioaware]\n{table}\n")
    with pytest.raises(DataError):
        read_config(tmp_path)


def test_coverage_holds_the_configured_share(root: Path) -> None:
    assert run(["coverage", str(root)], Settings()) == 0
    (root / "pyproject.toml").write_text("[tool.ioaware]\ncoverage = 50\n")
    assert run(["coverage", str(root)], Settings()) == 4  # no ledger
    assert run(["coverage", str(root), "--write"], Settings()) == 1
