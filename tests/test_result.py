"""Results: unknown is never zero, and a wrong output never passes."""

from __future__ import annotations

import math

import pytest

from ioaware.result import BYTES_HOLD, Check, Launch, Result, Traffic, total


def test_the_total_is_reads_writes_and_atomics() -> None:
    assert Traffic(1, 20, 300).total_bytes == 321
    assert Traffic(1, 20).total_bytes == 21
    assert Traffic(None, 20, 300).total_bytes is None
    assert Traffic(1, None, 300).total_bytes is None
    assert Traffic(0, 0, 0).total_bytes == 0


def test_unknown_plus_anything_is_unknown() -> None:
    known, partly = Traffic(1, 2, 3, 4, 5, "n", "n"), Traffic(10, None, 30, None, 50)
    assert known + known == Traffic(2, 4, 6, 8, 10)
    assert known + partly == partly + known == Traffic(11, None, 33, None, 55)


def test_the_sum_over_launches() -> None:
    assert total([]) == Traffic(0, 0, 0, 0, 0)
    assert total([Traffic(1, 2, 3, 4, 5)] * 3) == Traffic(3, 6, 9, 12, 15)
    assert total([Traffic(1, 2, 3, 4, 5), None]) is None


@pytest.mark.parametrize(
    ("error", "passed"), [(0.0, True), (1e-3, True), (1.1e-3, False), (math.inf, False), (math.nan, False)]
)
def test_a_check_passes_within_its_tolerance(error: float, passed: bool) -> None:
    assert Check(error, 1e-3).passed == passed


def test_only_ok_and_throttled_records_have_valid_bytes() -> None:
    assert {"ok", "throttled"} == BYTES_HOLD


def test_unknown_values_are_not_in_the_json() -> None:
    result = Result("trace", "t", {"n": 1, "m": None}, requested=Traffic(0, 1), launches=(Launch("k", (2,)),))
    assert result.to_dict() == {
        "schema": 1,
        "source": "trace",
        "target": "t",
        "params": {"n": 1, "m": None},
        "requested": {"read_bytes": 0, "write_bytes": 1},
        "exact": True,
        "status": "ok",
        "launches": [{"kernel": "k", "grid": [2], "origin": "triton", "exact": True}],
    }
