"""Caveats that several instructions share are printed as one sentence."""

from __future__ import annotations

from ioaware.analysis.ir.caveats import Caveat, sentences


def caveat(operation: str, line: str, rest: str = "in terms of n: it is loaded", of: str = "") -> Caveat:
    return Caveat(operation, line, "counts", "count", rest, of)


def test_one_instruction() -> None:
    assert str(caveat("tt.load", "/a/b.py:7")) == "tt.load at /a/b.py:7 counts in terms of n: it is loaded"


def test_lines_and_operations_are_listed_together() -> None:
    caveats = [caveat("tt.load", "/a/b.py:7"), caveat("tt.store", "/a/b.py:9"), caveat("tt.load", "/a/b.py:12")]
    caveats += [caveat("tt.load", "/a/c.py:3"), caveat("tt.load", "/a/b.py:12"), caveat("tt.atomic_rmw", "an unnamed line")]
    assert sentences(caveats) == [
        "tt.load at /a/b.py:7, 12, /a/c.py:3, tt.store at /a/b.py:9 and tt.atomic_rmw at an unnamed line count in terms of n: "
        "it is loaded"
    ]


def test_different_caveats_stay_separate() -> None:
    caveats = [
        caveat("tt.load", "b.py:7"),
        caveat("tt.load", "b.py:8", "at most"),
        caveat("tt.load", "b.py:7", of="sectors of "),
    ]
    assert [sentence.split(" counts")[0] for sentence in sentences(caveats)] == [
        "tt.load at b.py:7",
        "tt.load at b.py:8",
        "sectors of tt.load at b.py:7",
    ]
