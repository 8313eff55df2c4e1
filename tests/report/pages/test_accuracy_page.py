"""The page of predicted against counted bytes: every launch is a mark.

Every outlier has its cause.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from ioaware.cli.main import run
from ioaware.cli.options import Settings
from ioaware.report.pages.accuracy_page import accuracy_figure, accuracy_page
from ioaware.report.pages.document import render
from ioaware.simulation.accuracy import Accuracy, Comparison


def comparison(point: str, predicted: int, counted: int, explanation: str = "", family: str = "flash2") -> Comparison:
    return Comparison(family, point, "kernel", "HBM reads", predicted, counted, inside=True, explanation=explanation)


FOUND = Accuracy(
    (
        comparison("exact", 5_000_000, 5_000_000),
        comparison("foreign", 6_000_000, 6_100_000, family="third-party: liger"),
        comparison("<off>", 9_000_000, 5_000_000, "register <spills>"),
        comparison("tiny", 10, 20),
    ),
    (("lost", "no prediction is recorded"),),
)


def test_every_comparable_launch_is_a_mark() -> None:
    (panel,) = accuracy_figure(FOUND).cells[3].panels
    marks = {series.name: (series.x, series.y) for series in panel.series}
    assert marks == {
        "equal": ((5_000_000, 9_000_000), (5_000_000, 9_000_000)),
        "attention kernels": ((5_000_000,), (5_000_000,)),
        "third-party kernels": ((6_000_000,), (6_100_000,)),
        "more than 5 % off": ((9_000_000,), (5_000_000,)),
    }
    assert panel.y.log
    assert "register <spills>" in panel.series[-1].hover[0]


def test_texts_are_escaped_and_the_tables_complete() -> None:
    page = render(accuracy_page(FOUND), with_pngs=False)
    assert "register &lt;spills&gt;" in page
    assert "<off>" not in page
    assert "no prediction is recorded" in page
    assert "HBM reads of 3 recorded launches" in page
    assert "+80 %" in page


def test_an_empty_record_is_a_page(tmp_path: Path) -> None:
    assert "No recorded launch has a prediction" in render(accuracy_page(Accuracy((), ())), with_pngs=False)
    assert run(["accuracy", "--only", "nothing at all", "--html", str(tmp_path / "a.html"), "-q"], Settings()) == 0
    assert (tmp_path / "a.html").read_text().startswith("<!DOCTYPE html>")


def test_a_place_that_cannot_be_written_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["accuracy", "--html", str(tmp_path / "absent" / "a.html")], Settings()) != 0
    assert "Traceback" not in capsys.readouterr().err
