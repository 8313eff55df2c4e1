"""The nine ways in which gates are switched off silently.

They are those of gates of the field (trust.md, tests 8 to 11). Each is tried, and none is green.

Every test plants a regression, or removes what it would be found by, and then uses one switch.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from ioaware.cli.main import run
from ioaware.cli.options import Settings
from ioaware.gate import traffic_fixture
from ioaware.gate.repository.ledger import LEDGER
from ioaware.gate.symbolic_call import derive_call
from tests.gate.test_pytest_plugin import MORE, gated, repository  # noqa: F401 (fixtures)
from tests.support.gate_runs import Repository


@pytest.fixture
def listed(gated: Repository, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Repository:  # noqa: F811
    """The gated repository with its ledger, and a regressed kernel.

    The kernel moves more bytes than its snapshot.
    """
    monkeypatch.setattr(traffic_fixture, "derive_call", derive_call)  # of this copy: its path is in the ledger
    place = "tl.program_id(0)"
    gated.change(gated.kernel, place, f"{place}  # {gated.root}")  # no cache has this source, for other tests neither
    assert coverage(gated, "--write") == 0
    assert gated.pytest("--traffic=create").code == 0
    assert (coverage(gated, "--require", "100"), gated.pytest("--traffic-complete").code) == (0, 0)
    gated.change(gated.kernel, *MORE)
    capsys.readouterr()
    return gated


def coverage(repository: Repository, *arguments: str) -> int:  # noqa: F811
    return run(["coverage", str(repository.root), *arguments], Settings())


@pytest.mark.slow
def test_1_a_baseline_that_is_missing_or_damaged(listed: Repository) -> None:
    text = listed.test.read_text()
    call = text[text.index("traffic.snapshot(") :]
    for snapshot in (
        "traffic.snapshot()\n",
        "traffic.snapshot(\n",
        call.replace("writes=", "write="),
        call.replace("(33", "(34"),
    ):
        listed.test.write_text(text.replace(call, snapshot))
        assert listed.pytest("--traffic-complete").code != 0, snapshot
    listed.test.write_text(text)
    ledger = (listed.root / LEDGER).read_text()
    for damaged in (ledger[:-9], "", ledger.replace("schema = 1", "schema = 2")):
        (listed.root / LEDGER).write_text(damaged)
        assert (listed.pytest().code, coverage(listed, "--require", "100")) == (4, 6), damaged
    (listed.root / LEDGER).unlink()
    assert (listed.pytest("--traffic-complete").code, coverage(listed, "--require", "100")) == (4, 4)


@pytest.mark.slow
def test_2_a_new_kernel_without_a_test(listed: Repository) -> None:
    (listed.root / "more.py").write_text(listed.kernel.read_text().replace("scale", "more"))
    assert coverage(listed, "--require", "100") == 4
    assert coverage(listed, "--write", "--require", "100") == 1  # pending is not gated


def test_3_a_test_that_is_gone(listed: Repository) -> None:
    listed.test.write_text("def test_other():\n    pass\n")
    ran = listed.pytest("--traffic-complete")
    assert (ran.code, "gate_scale.py::test_scale did not run and pass" in ran.output) == (1, True)
    assert coverage(listed, "--require", "100") == 4


@pytest.mark.slow
def test_4_a_test_that_is_renamed(listed: Repository) -> None:
    listed.change(listed.test, "def test_scale", "def test_scales")
    assert listed.pytest("--traffic-complete").code == 1
    assert coverage(listed, "--require", "100") == 4
    listed.change(listed.test, "def test_scales(traffic)", "def test_scale(traffic, skipped=True)")
    listed.change(listed.test, "    x = ", "    import pytest\n    pytest.skip('later')\n    x = ")
    assert listed.pytest("--traffic-complete").code == 1  # skipped is not passed


@pytest.mark.slow
def test_5_another_toolchain_or_gpu(listed: Repository) -> None:
    text = listed.test.read_text()
    for old, new in (("triton 3", "triton 2"), ("cuda:90", "cuda:80")):
        listed.test.write_text(text.replace(old, new))
        assert listed.pytest("--traffic-cross-toolchain").code == 1, new


@pytest.mark.slow
def test_6_benchmark_disable(listed: Repository) -> None:
    option = "parser.addoption('--benchmark-disable', action='store_true')"
    (listed.root / "conftest.py").write_text(f"def pytest_addoption(parser):\n    {option}\n")
    assert listed.pytest("--benchmark-disable").code == 1


@pytest.mark.slow
@pytest.mark.skipif(not importlib.util.find_spec("xdist"), reason="pytest-xdist is not installed")
def test_7_several_processes(listed: Repository) -> None:
    assert listed.process_pytest("-p", "xdist.plugin", "-n", "4").code == 1
    assert listed.process_pytest("-p", "xdist.plugin", "-n", "4", "--traffic=accept").code == 4


def test_8_a_selection_without_gates(listed: Repository) -> None:
    for arguments in (["-k", "nothing"], ["-m", "nothing"], ["--deselect", "gate_scale.py::test_scale"], ["--collect-only"]):
        assert listed.pytest(*arguments, "--traffic-complete").code != 0, arguments
    assert listed.pytest("-k", "nothing").code == 5


@pytest.mark.slow
def test_9_options_from_the_environment(listed: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    before = listed.test.read_text()
    for options in ("--traffic=accept", "--traffic=create", "-k nothing", "--traffic-cross-toolchain", "-p no:ioaware"):
        monkeypatch.setenv("PYTEST_ADDOPTS", options)
        assert listed.pytest().code != 0, options
    assert listed.test.read_text() == before


def test_the_gate_itself_is_red_and_green(listed: Repository, tmp_path: Path) -> None:
    """Without a switch the regression is found: the tests above can fail.

    Without the regression all is green.
    """
    assert listed.pytest("--traffic-complete").code == 1
    listed.change(listed.kernel, MORE[1], MORE[0])
    assert listed.pytest("--traffic-complete").code == 0
