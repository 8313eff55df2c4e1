"""The table of tests that the default tier leaves out."""

from __future__ import annotations

import pytest

from tests.tiers import EXHAUSTIVE, FIRST, ONE_IN, SLOW, THEN_ONE_IN, UNMATCHED_PATTERNS, exhaustive, long_tests, slow, stale


def test_each_pattern_names_a_test(pytestconfig: pytest.Config) -> None:
    # A test and no error of the collection: a worker of pytest-xdist that cannot collect ends without a word.
    if UNMATCHED_PATTERNS not in pytestconfig.stash:
        pytest.skip("only a part of the tests was collected")
    assert pytestconfig.stash[UNMATCHED_PATTERNS] == []


def test_a_pattern_without_a_test_is_found() -> None:
    assert stale([]) == [*(tests for tests, _ in (*SLOW, *ONE_IN)), *EXHAUSTIVE, *sorted(long_tests())]


def test_one_in_n_stays() -> None:
    tests, one_in = next((tests, n) for tests, n in ONE_IN if n > 2 and "(" not in tests and "$" not in tests)
    ids = [f"{tests}_more[{case}]" for case in range(2 * one_in)]
    assert set(ids) - slow(ids) == {ids[0], ids[one_in]}


def test_of_many_slow_cases_the_first_and_one_in_n_stay() -> None:
    ids = [f"tests/test_x.py::test_y[{case}]" for case in range(FIRST + 2 * THEN_ONE_IN)]
    stay = [*ids[:FIRST], ids[FIRST + THEN_ONE_IN - 1], ids[-1]]
    assert [node_id for node_id in ids if node_id not in exhaustive(ids)] == stay


def test_tests_of_one_case_and_documents_stay() -> None:
    ids = [f"tests/test_x.py::test_{case}" for case in range(30)]
    ids += [f"tests/test_documents.py::test_y[{case}]" for case in range(30)]
    assert not exhaustive(ids)
