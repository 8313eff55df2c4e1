"""Tables leave out columns in which no row says anything."""

from __future__ import annotations

from ioaware.report.table_cells import cell, columns, telling


def test_a_column_without_a_text_is_left_out() -> None:
    rows = [[cell("a"), cell("", 3), cell("")], [cell(""), cell(""), cell(0, 0)]]
    names, kept = telling(columns("first", "silent", "zero"), rows)
    assert [column["name"] for column in names] == ["first", "zero"]
    assert [[one["text"] for one in row] for row in kept] == [["a", ""], ["", "0"]]
