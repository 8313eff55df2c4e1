"""Many instructions of which the same is said are one sentence."""

from __future__ import annotations

from ioaware.analysis.ir.caveats import Caveat, sentences


def doubt(operation: str, line: str, rest: str = "in terms of n: it is loaded", of: str = "") -> Caveat:
    return Caveat(operation, line, "counts", "count", rest, of)


def test_one_instruction() -> None:
    assert str(doubt("tt.load", "/a/b.py:7")) == "tt.load at /a/b.py:7 counts in terms of n: it is loaded"


def test_lines_of_one_file_and_operations_are_gathered() -> None:
    doubts = [doubt("tt.load", "/a/b.py:7"), doubt("tt.store", "/a/b.py:9"), doubt("tt.load", "/a/b.py:12")]
    doubts += [doubt("tt.load", "/a/c.py:3"), doubt("tt.load", "/a/b.py:12"), doubt("tt.atomic_rmw", "an unnamed line")]
    assert sentences(doubts) == [
        "tt.load at /a/b.py:7, 12, /a/c.py:3, tt.store at /a/b.py:9 and tt.atomic_rmw at an unnamed line count in terms of n: "
        "it is loaded"
    ]


def test_what_is_unlike_stays_apart() -> None:
    doubts = [doubt("tt.load", "b.py:7"), doubt("tt.load", "b.py:8", "at most"), doubt("tt.load", "b.py:7", of="sectors of ")]
    assert [sentence.split(" counts")[0] for sentence in sentences(doubts)] == [
        "tt.load at b.py:7",
        "tt.load at b.py:8",
        "sectors of tt.load at b.py:7",
    ]
