"""Full garbage collections are deferred while ioaware derives, and no longer."""

from __future__ import annotations

import gc
import subprocess
import sys
from collections.abc import Generator

import pytest

from ioaware._deferred_gc import THRESHOLDS, deferred_full_gc


@pytest.fixture(autouse=True)
def thresholds() -> Generator[None]:
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)


def test_young_generations_are_collected_and_full_collections_wait() -> None:
    gc.set_threshold(700, 10, 10)
    with deferred_full_gc():
        assert gc.get_threshold() == THRESHOLDS
        assert gc.isenabled()
    assert gc.get_threshold() == (700, 10, 10)


def test_higher_thresholds_of_a_user_are_kept() -> None:
    gc.set_threshold(50_000, 5, 2_000)
    with deferred_full_gc():
        assert gc.get_threshold() == (50_000, THRESHOLDS[1], 2_000)


def test_thresholds_are_restored_after_an_error() -> None:
    gc.set_threshold(700, 10, 10)
    with pytest.raises(ZeroDivisionError), deferred_full_gc():
        raise ZeroDivisionError
    assert gc.get_threshold() == (700, 10, 10)


CYCLE = """
import os
from ioaware._deferred_gc import end_without_collection

class Noisy:
    def __del__(self, write=os.write): write(1, b"freed")

{call}
cycle = Noisy()
cycle.itself = cycle
del cycle
"""


@pytest.mark.parametrize(("call", "printed"), [("", "freed"), ("end_without_collection()\nend_without_collection()", "")])
def test_a_process_ends_without_a_search_for_garbage(call: str, printed: str) -> None:
    done = subprocess.run([sys.executable, "-c", CYCLE.format(call=call)], capture_output=True, text=True, check=True)
    assert done.stdout == printed
