"""`report TARGET` end to end: a page for usual and unusual targets.

Refusals come before any work.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ioaware.cli.main import run
from ioaware.cli.options import Settings
from ioaware.sweep.store import Store
from tests.support import SUPPORT
from tests.support.page_data import page_data

TARGETS = SUPPORT / "targets/derived_targets.py"


@pytest.fixture
def page(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """Return a function that runs `report` with arguments and returns the page."""

    def write(*arguments: str) -> str:
        assert run(["report", *map(str, arguments), "-o", str(tmp_path / "out")], Settings()) == 0
        path = Path(capsys.readouterr().out.strip())
        assert path == tmp_path / "out" / "report.html"
        return path.read_text(encoding="utf-8")

    return write


def test_several_launches_with_operators_of_torch(page) -> None:
    html = page(f"{TARGETS}:one_launch_each", "-p", "n=100", "--over", "n=1..1k")
    figures = page_data(html)
    assert set(figures) == {"bytes", "over", "launches"}  # without matrix product there is no roofline
    assert [row[0] for row in figures["launches"]["rows"]] == ["2. scale_kernel, 3 launches", "1. aten.ones.default (torch)"]
    curve = {row[3]: row[4] for row in figures["over"]["rows"] if row[2] == "requested"}
    assert curve[512.0] == 24 * 512
    assert "bound by HBM" in html
    assert f"ioaware report {TARGETS}:one_launch_each -p n=100 --machine H200" in figures["bytes"]["command"]


def test_commands_beside_figures_have_the_machine_as_typed(page) -> None:
    html = page(f"{TARGETS}:flat", "--machine", "A100", "--over", "rows=1..16")
    commands = [figure["command"] for figure in page_data(html).values()]
    assert commands
    assert [one for one in commands if "--machine A100" not in one] == []


def test_commands_beside_figures_have_the_store(page, tmp_path: Path) -> None:
    with Store(tmp_path / "some.db"):
        pass
    html = page(f"{TARGETS}:flat", "--store", tmp_path / "some.db")
    assert [
        one["command"]
        for one in page_data(html).values()
        if not one["command"].endswith("--store " + str(tmp_path / "some.db"))
    ] == []


def test_no_parameters(page) -> None:
    html = page(f"{TARGETS}:flat", "--no-source")
    assert "by number" in html
    assert "tl.load" not in html


def test_data_dependent_bytes(page) -> None:
    html = page(f"{TARGETS}:labelled")
    assert "Requested bytes: not exact" in html
    assert "data" in re.findall(r"<dt>requested</dt><dd>([^<]*)<", html)[0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["flash2", "--over", "seq_len=4"], "is no range"),
        ([f"{TARGETS}:flat", "--over", "nothing=1..4"], "no parameter nothing of integers"),
        (["flash2", "--machine", "abacus"], "no machine 'abacus'"),
        (["flash3"], "flash3"),
        (["-p", "seq_len=4"], "-p needs a TARGET"),
        (["--study", "h200-length", "--machine", "A100"], "--machine needs a TARGET"),
        (["--study", "no-study"], "no study 'no-study'"),
        (["--compare", f"{TARGETS}:flat", f"{TARGETS}:no_function"], "no_function"),
    ],
)
def test_refusals(arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["report", *arguments, "-o", str(tmp_path / "out")], Settings()) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_two_versions(page) -> None:
    html = page("--compare", f"{TARGETS}:flat", f"{TARGETS}:flat", "--no-source", "--over", "rows=1..16")
    figures = page_data(html)
    assert set(figures) == {"bytes", "over"}
    assert figures["over"]["command"].endswith(f"--compare {TARGETS}:flat {TARGETS}:flat --machine H200 --over rows=1..16")
    assert "B ÷ A" in html


def test_options_stand_anywhere_between_two_versions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old, new, out = f"{TARGETS}:flat", f"{TARGETS}:strided", str(tmp_path / "out")
    for words in (["--compare", old, "-o", out, new], [new, "-o", out, "--compare", old]):
        assert run(["report", *words, "-q"], Settings()) == 0
        assert f"--compare {old} {new} " in page_data((tmp_path / "out" / "report.html").read_text())["bytes"]["command"]
    assert run(["report", "--compare", old, "-o", str(tmp_path / "none")], Settings()) == 2
    assert "--compare needs two versions" in capsys.readouterr().err
    assert not (tmp_path / "none").exists()


def test_pages_that_exclude_each_other(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["flash2", "--study", "forward"], ["--compare", "flash1", "flash2", "--store", "x.db"]):
        assert run(["report", *arguments, "-o", str(tmp_path / "out")], Settings()) == 2
        assert "different pages" in capsys.readouterr().err
