"""The table of tests that the default tier leaves out."""

from __future__ import annotations

import pytest

from tests.tiers import ONE_IN, SLOW, UNMATCHED_PATTERNS, slow, stale


def test_each_pattern_names_a_test(pytestconfig: pytest.Config) -> None:
    # A test and no error of the collection: a worker of pytest-xdist that cannot collect ends without a word.
    if UNMATCHED_PATTERNS not in pytestconfig.stash:
        pytest.skip("only a part of the tests was collected")
    assert pytestconfig.stash[UNMATCHED_PATTERNS] == []


def test_a_pattern_without_a_test_is_found() -> None:
    assert stale([]) == [tests for tests, _ in (*SLOW, *ONE_IN)]


def test_one_in_n_stays() -> None:
    tests, one_in = next((tests, n) for tests, n in ONE_IN if n > 2 and "(" not in tests and "$" not in tests)
    ids = [f"{tests}_more[{case}]" for case in range(2 * one_in)]
    assert set(ids) - slow(ids) == {ids[0], ids[one_in]}
