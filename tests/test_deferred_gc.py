"""Full garbage collections wait while ioaware derives, and not longer."""

from __future__ import annotations

import gc
from collections.abc import Generator

import pytest

from ioaware._deferred_gc import THRESHOLDS, deferred_full_gc


@pytest.fixture(autouse=True)
def thresholds() -> Generator[None]:
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)


def test_what_dies_young_is_collected_and_the_rest_waits() -> None:
    gc.set_threshold(700, 10, 10)
    with deferred_full_gc():
        assert gc.get_threshold() == THRESHOLDS
        assert gc.isenabled()
    assert gc.get_threshold() == (700, 10, 10)


def test_a_user_who_is_more_patient_stays_so() -> None:
    gc.set_threshold(50_000, 5, 2_000)
    with deferred_full_gc():
        assert gc.get_threshold() == (50_000, THRESHOLDS[1], 2_000)


def test_an_error_ends_it() -> None:
    gc.set_threshold(700, 10, 10)
    with pytest.raises(ZeroDivisionError), deferred_full_gc():
        raise ZeroDivisionError
    assert gc.get_threshold() == (700, 10, 10)
