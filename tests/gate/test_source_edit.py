"""Calls of `snapshot` found in a file and replaced.

They are replaced only in the file that ran, and only where that is certain.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from ioaware.errors import UsageError
from ioaware.gate.source_edit import Edit, find_call, write_edits


class Finder:
    def snapshot(self, **_: Any) -> Any:
        return find_call(sys._getframe(1))


def places(path: Path, source: str) -> list[Any]:
    """Run a file whose list `found` holds the places of its calls."""
    path.write_text(source)
    names: dict[str, Any] = {"t": Finder()}
    exec(compile(source, str(path), "exec"), names)  # noqa: S102 (a test's own text)
    return names["found"]


def test_two_calls_in_a_line_are_told_apart(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    first, second = places(path, "found = [t.snapshot(), t.snapshot(max_bytes=3)]\n")
    assert (first.source, second.source) == ("t.snapshot()", "t.snapshot(max_bytes=3)")
    edits = [Edit(first, (("reads", '"n"'),)), Edit(second, (("reads", '"m"'),))]
    assert write_edits(edits) == [f"{path}:1", f"{path}:1"]
    assert path.read_text() == 'found = [t.snapshot(reads="n"), t.snapshot(reads="m")]\n'


def test_a_file_that_changed_meanwhile_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    (place,) = places(path, "found = [t.snapshot()]\n")
    path.write_text("# changed\n" + path.read_text())
    before = path.read_text()
    with pytest.raises(UsageError) as raised:
        write_edits([Edit(place, (("reads", '"n"'),))])
    assert (raised.value.what, raised.value.remedy) == (f"{path} changed while the tests ran", "Run them again.")
    assert path.read_text() == before


def test_an_edit_that_is_no_python_is_not_written(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    (place,) = places(path, "found = [t.snapshot()]\n")
    with pytest.raises(SyntaxError):
        write_edits([Edit(place, (("reads", '"n'),))])
    assert path.read_text() == "found = [t.snapshot()]\n"


def test_a_call_without_a_file_is_refused() -> None:
    names: dict[str, Any] = {"t": Finder()}
    with pytest.raises(UsageError) as raised:
        exec("t.snapshot()", names)  # noqa: S102 (a test's own text)
    assert raised.value.what == "<string>: the source of the snapshot cannot be read"
    assert raised.value.remedy == "Snapshots are written into files of tests."


def test_lines_of_a_call_are_indented_as_its_statement(tmp_path: Path) -> None:
    source = (
        "found = [t.snapshot()]\n"
        "if not found:\n    pass\nelse: found.append(t.snapshot())\n"
        "if found:\n    found.append(t.snapshot())\n"
    )
    assert [place.indent for place in places(tmp_path / "t.py", source)] == ["", "", "    "]
