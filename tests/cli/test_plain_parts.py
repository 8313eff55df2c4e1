"""Rows and lines on a pipe are those that rich prints there."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ioaware.cli.output import emit
from ioaware.cli.plain_parts import OF_TERMINALS, Facts, Line, is_pipe

CELLS = st.text(st.sampled_from("ab1 .,%[]\\é漢\n\x1b"), max_size=12)


class ByRich:
    """What rich makes of a part."""

    def __init__(self, part: Facts | Line) -> None:
        self._part = part

    def __rich__(self) -> Any:
        return self._part.__rich__()


def printed(*parts: Any) -> str:
    found = io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdout", found)
        emit(dict, lambda: parts, as_json=False)
    return found.getvalue()


@settings(derandomize=True, deadline=None)
@given(rows=st.lists(st.lists(CELLS, min_size=1, max_size=5), max_size=4))
@example(rows=[["n=1", "WORSE", "requested reads: 1 -> 2", "SAME", "+0.1 %"], ["n=1000", "SAME", "equal"]])
@example(rows=[["x" * 600, "y" * 600]])
@example(rows=[["", ""]])
def test_rows_are_those_of_rich(rows: Sequence[Sequence[str]]) -> None:
    assert printed(Facts(rows)) == printed(ByRich(Facts(rows)))


@settings(derandomize=True, deadline=None)
@given(text=CELLS)
@example(text="a line " * 200)
def test_a_line_is_that_of_rich(text: str) -> None:
    assert printed(Line(text)) == printed(ByRich(Line(text)))


def test_plain_rows_do_not_need_rich() -> None:
    assert Facts([["a", "1"], ["bc", "20"]]).plain() == ["a    1", "bc  20"]
    assert Line("WORSE: 2 points").plain() == ["WORSE: 2 points"]


@pytest.mark.parametrize("name", OF_TERMINALS)
def test_a_pipe_that_is_said_to_be_a_terminal_is_left_to_rich(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for other in OF_TERMINALS:
        monkeypatch.delenv(other, raising=False)
    assert is_pipe(io.StringIO())
    monkeypatch.setenv(name, "1")
    assert not is_pipe(io.StringIO())
