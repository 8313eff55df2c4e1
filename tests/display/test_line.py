"""A result prints as one readable line."""

from __future__ import annotations

from ioaware.display.line import result_line
from ioaware.prediction import predict
from ioaware.result import Check, Result, Traffic


def test_a_prediction_is_one_line_with_its_bytes() -> None:
    line = str(predict("flash2", seq_len=1024))
    assert line.startswith("predict flash2 (batch=1, heads=1, seq_len=1024, ")
    assert line.endswith("): requested reads 4.325 MB, writes 135.2 kB; exact")
    assert "\n" not in line


def test_inexact_results_are_printed_as_not_exact() -> None:
    traffic = Traffic(1000, None)
    assert result_line(Result("derive", "t", requested=traffic, exact=False)) == (
        "derive t: requested reads 1 kB, writes –; not exact"
    )
    measured = Result("measure", "t", hbm=traffic, time_ns=1500.0, status="throttled", check=Check(0.5, 0.1))
    assert result_line(measured) == "measure t: hbm reads 1 kB, writes –; time 1.5 µs; the output is WRONG; throttled"


def test_a_hostile_name_stays_on_the_line() -> None:
    assert result_line(Result("trace", "a\n\x1b[2Jb", {"n": 1})) == "trace a \\x1b[2Jb (n=1): exact"
