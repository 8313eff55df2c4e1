"""The history page: a line for each kernel, the worst first, escaped.

It has nothing from elsewhere.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ioaware.cli.main import run
from ioaware.cli.options import Settings
from ioaware.gate.ci.outcome import Outcome
from ioaware.gate.ci.run_history import history_lines, read_runs
from ioaware.report.pages.document import render
from ioaware.report.pages.history_page import HistoryLine, RunLabel, history_page, worst_lines
from ioaware.report.svg.sparkline import MOST_POINTS, draw_sparkline
from ioaware.result import Result, Traffic
from ioaware.result_file import write_jsonl
from tests.support.hostile_texts import PAYLOADS, RAW_NEVER, Structure


def results(folder: Path, day: int, **moved: int) -> Path:
    outcomes = [Outcome("t", name, point="n=1", verdict="SAME", bytes=count).to_dict() for name, count in moved.items()]
    document = {"schema": 1, "kind": "traffic results", "time": f"2026-11-{day:02}T00:00:00+00:00", "commit": f"{day:040x}"}
    path = folder / f"run{day}.json"
    path.write_text(json.dumps(document | {"triton": "3", "exit_code": 0, "outcomes": outcomes}))
    return path


def test_runs_are_ordered_by_time(tmp_path: Path) -> None:
    later, earlier = results(tmp_path, 2, add=20), results(tmp_path, 1, add=10, mul=5)
    runs = read_runs([later, earlier])
    assert [one.label.name for one in runs] == ["run1", "run2"]
    assert {line.name: line.bytes for line in history_lines(runs)} == {"add": (10, 20), "mul": (5, None)}


def test_stores_and_exports_are_runs_in_the_order_given(tmp_path: Path) -> None:
    for name, moved in (("b", 8), ("a", 4)):
        result = Result("measure", "add.py:add", {"n": 2}, Traffic(moved, 0), hbm=Traffic(2 * moved, 0))
        write_jsonl(tmp_path / f"{name}.jsonl", [result])
    lines = history_lines(read_runs([tmp_path / "b.jsonl", tmp_path / "a.jsonl"]))
    assert {line.place: line.bytes for line in lines} == {"requested, measure": (8, 4), "HBM, measure": (16, 8)}


def test_the_worst_is_first() -> None:
    given = [
        HistoryLine("same", "", "", (10, 10)),
        HistoryLine("more", "", "", (10, 11)),
        HistoryLine("most", "", "", (10, 5, 15)),
        HistoryLine("less", "", "", (10, 5)),
        HistoryLine("gone", "", "", (10, None)),
        HistoryLine("red", "", "", (10, 10), "GROWTH", fails=True),
    ]
    assert [line.name for line in worst_lines(given)] == ["red", "gone", "most", "more", "same", "less"]


@pytest.mark.parametrize("values", [[], [None], [5], [0, 0], [None, 3, None, 4, 5], list(range(500))], ids=range(6))
def test_a_sparkline_of_any_values(values: list[float | None]) -> None:
    svg = draw_sparkline(values, 'a "name" <b>').svg
    assert 'aria-label="a &quot;name&quot; &lt;b&gt;"' in svg
    assert "nan" not in svg
    assert svg.count("L") <= MOST_POINTS


def test_the_page_needs_no_script_and_nothing_from_elsewhere(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [str(results(tmp_path, day, add=10 * day, mul=7)) for day in (1, 2, 3)]
    assert run(["history", *files, "-o", str(tmp_path / "site")], Settings()) == 0
    place = Path(capsys.readouterr().out.strip())
    page = place.read_text()
    assert place == tmp_path / "site" / "index.html"
    assert [path.name for path in (tmp_path / "site").iterdir()] == ["index.html"]
    assert "default-src &#39;none&#39;" in page
    assert Structure(page).links == ["#content"]
    assert page.count('<svg xmlns="http://www.w3.org/2000/svg"') == 2
    assert page.index('<th scope="row">add</th>') < page.index('<th scope="row">mul</th>')
    assert all(
        text in page for text in ("2 lines over 3 runs. Failing: 0.", "200 %", "prefers-color-scheme: dark", f"{3:040x}"[:12])
    )


def test_no_text_leaves_its_element() -> None:
    lines = [HistoryLine(text, text, text, (1, 2), text) for text in PAYLOADS]
    page = render(history_page(PAYLOADS[0], [RunLabel(text, text, text) for text in PAYLOADS], lines))
    plain = render(
        history_page("x", [RunLabel("x", "x", "x")] * len(PAYLOADS), [HistoryLine("x", "x", "x", (1, 2), "x")] * len(PAYLOADS))
    )
    assert Structure(page).tags == Structure(plain).tags
    assert not [payload for payload in RAW_NEVER if payload in page]


def test_files_that_are_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    damaged = tmp_path / "run.json"
    damaged.write_text("{")
    assert run(["history", str(damaged), "-o", str(tmp_path / "site")], Settings()) == 6
    assert run(["history", str(tmp_path / "none.json"), "-o", str(tmp_path / "site")], Settings()) == 2
    assert "Traceback" not in capsys.readouterr().err
    assert not (tmp_path / "site").exists()


def test_states_of_measured_points_that_are_not_ok(tmp_path: Path) -> None:
    points = [Result("measure", "f", {"n": n}, Traffic(n, 0), status=status) for n, status in enumerate(STATES, 1)]  # type: ignore[arg-type]
    write_jsonl(tmp_path / "run.jsonl", points)
    (run_of_points,) = read_runs([tmp_path / "run.jsonl"])
    assert run_of_points.verdicts == {
        ("f", "n=2", "requested, measure"): ("unstable", False),
        ("f", "n=3", "requested, measure"): ("impossible", True),
        ("f", "n=4", "requested, measure"): ("failed", True),
    }


STATES = ("ok", "unstable", "impossible", "failed")


def test_runs_of_which_one_has_no_time_keep_their_order(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "store.jsonl", [Result("measure", "f", {"n": 1}, Traffic(1, 0))])
    given = [results(tmp_path, 3, add=3), tmp_path / "store.jsonl", results(tmp_path, 1, add=1)]
    assert [one.label.name for one in read_runs(given)] == ["run3", "store", "run1"]
