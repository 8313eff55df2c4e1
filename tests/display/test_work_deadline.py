"""Work that ends between two steps."""

from __future__ import annotations

from math import inf

import pytest

from ioaware.display.work_deadline import OutOfTime, deadline, step


def test_a_step_begun_too_late_ends_the_work() -> None:
    with deadline(-inf), pytest.raises(OutOfTime):
        step()


def test_steps_without_a_deadline_or_before_it_go_on() -> None:
    step()
    with deadline(inf):
        step()
    with deadline(-inf), deadline(None):
        step()


def test_a_deadline_ends_with_its_block() -> None:
    with deadline(-inf):
        pass
    step()


def test_host_code_cannot_catch_it() -> None:
    assert not issubclass(OutOfTime, Exception)
