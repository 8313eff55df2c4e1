"""Where the lines of a page may end.

Not within an option, a name's word, or a number and its unit.
"""

from __future__ import annotations

import re
from html import unescape
from typing import Any

from ioaware.report.chart import Axis, Figure, Panel, Series, cell_of
from ioaware.report.pages.document import Document, render
from ioaware.report.pages.figure_set import Shown


def page(command: str = "ioaware report k", caption: str = "", cells: tuple[str, ...] = ()) -> str:
    series = Series("s", "flash1", "predict", (1.0, 2.0), (1.0, 2.0), ("", ""))
    figure = Figure(
        "target0", "A figure", caption, (cell_of("x", Axis("x", "size"), Panel(Axis("bytes", "bytes"), (series,))),)
    )
    values: dict[str, Any] = {
        "headline": "", "missing": [], "figure_names": ["target0"], "common": "", "only": "", "full_names": [], "rows_left": 0,
        "columns": [{"name": "target", "number": False}], "rows": [[{"text": cell, "value": None}] for cell in cells],
        "targets_left": 0, "made": "",
    }  # fmt: skip
    return render(Document("store.html", "A page", values, [Shown(figure, command)]))


def test_the_options_of_a_command_stay_whole() -> None:
    """A line that ends behind a hyphen leaves `-` above `p n=4`."""
    shown = page("ioaware report <k> -p n=4 --over n=1..4 -q")
    assert "ioaware report &lt;k&gt; <span>-p n=4</span> <span>--over n=1..4</span> <span>-q</span>" in shown


def test_a_number_and_its_unit_stay_together() -> None:
    (caption,) = re.findall("<figcaption>(.*?)</figcaption>", page(caption="By 2.3 %, 4.81 TB/s and 12 kB of 16 lines."))
    assert unescape(caption) == "By 2.3\u00a0%, 4.81\u00a0TB/s and 12\u00a0kB of 16 lines."


def test_a_long_name_in_a_cell_is_broken_between_its_words() -> None:
    shown = page(cells=("a_long_name_of_a_kernel", "short_name", "some words and a_long_name_of_a_kernel"))
    assert "a_<wbr>long_<wbr>name_<wbr>of_<wbr>a_<wbr>kernel" in shown
    assert ">short_name<" in shown
    assert "words and a_long_name_of_a_kernel" in shown
