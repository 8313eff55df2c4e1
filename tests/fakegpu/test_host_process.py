"""What differs between processes, as host code and as other threads see it."""

from __future__ import annotations

import os
import threading
from typing import Any

from ioaware.fakegpu.host_process import seeded_host_process
from ioaware.fakegpu.host_random import seeded_host_random

VALUE = object()


def answers() -> tuple[Any, ...]:
    return os.getpid(), os.getppid(), hash("a text"), id(VALUE)


def test_host_code_of_another_seed_sees_another_process() -> None:
    plain = answers()
    with seeded_host_process(1) as process:
        other = answers()
        assert process.used
    assert all(one != two for one, two in zip(plain, other, strict=True))
    assert answers() == plain


def test_threads_that_were_there_before_see_the_real_process() -> None:
    """A notebook's kernel ends itself when its parent seems to have changed."""
    ask, seen = threading.Event(), list[Any]()

    def look() -> None:
        assert ask.wait(30)
        seen.extend((answers(), os.urandom(8)))

    thread = threading.Thread(target=look)
    thread.start()
    plain = answers()
    with seeded_host_random(1) as drawn, seeded_host_process(1) as process:
        ask.set()
        thread.join()
        assert (process.used, drawn.used) == (False, False)
    assert seen[0] == plain
