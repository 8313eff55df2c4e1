"""Tables leave out columns in which no row says anything."""

from __future__ import annotations

from ioaware.report.table_cells import bytes_shown, cell, columns, share_text, telling, time_shown


def test_a_column_without_a_text_is_left_out() -> None:
    rows = [[cell("a"), cell("", 3), cell("")], [cell(""), cell(""), cell(0, 0)]]
    names, kept = telling(columns("first", "silent", "zero"), rows)
    assert [column["name"] for column in names] == ["first", "zero"]
    assert [[one["text"] for one in row] for row in kept] == [["a", ""], ["", "0"]]


def test_numbers_have_the_same_digits_and_a_minus_sign() -> None:
    assert (bytes_shown(406_000_000), bytes_shown(406_400_000), bytes_shown(512)) == ("406.0 MB", "406.4 MB", "512 B")
    assert time_shown(97_000) == "97.0 µs"
    assert [share_text(one) for one in (0, 0.00005, 0.25, 1)] == ["0 %", "below 0.01 %", "25.0 %", "100 %"]
    assert [cell(one)["text"] for one in ("-1.9 %", "a-1", "-p n=4")] == ["−1.9 %", "a-1", "-p n=4"]
