"""PNGs drawn in other processes: the bytes of those drawn here.

They are the same whatever becomes of the processes.
"""

from __future__ import annotations

import pytest

from ioaware.cli.reports import picture_processes
from ioaware.cli.reports.picture_processes import drawing
from ioaware.report.pages.document import figure_png
from ioaware.report.pages.figure_set import Shown
from ioaware.report.svg.bars import Bar, BarFigure


@pytest.fixture
def figures() -> list[Shown]:
    bars = [BarFigure(f"bars{count}", "Bytes", "A caption.", (Bar("one", count, str(count), "ink"),)) for count in (1, 2, 3)]
    return [Shown(figure, "ioaware report") for figure in bars]


def test_every_figure_has_its_own_png(figures: list[Shown], monkeypatch: pytest.MonkeyPatch) -> None:
    here = [figure_png(shown) for shown in figures]
    assert len(set(here)) == 3
    monkeypatch.setattr(picture_processes, "usable_cores", lambda: 2)
    monkeypatch.setattr(picture_processes, "figure_png", lambda _: pytest.fail("drawn in this process"))
    with drawing(figures) as png:
        assert [png(shown) for shown in reversed(figures)] == here[::-1]


def test_a_figure_whose_process_dies_is_drawn_here(figures: list[Shown], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(picture_processes, "ENTRY", "os:_exit")
    with drawing(figures) as png:
        assert [png(shown) for shown in figures] == [figure_png(shown) for shown in figures]


def test_no_figures_start_no_process() -> None:
    with drawing([]):
        pass
