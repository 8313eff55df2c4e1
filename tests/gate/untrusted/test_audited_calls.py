"""Calls beyond the own call of host code, as audit events show them."""

from __future__ import annotations

import _thread
import atexit
import gc
import inspect
import logging
import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

from ioaware.gate.untrusted.audited_calls import INSTALLED, audited_calls
from ioaware.gate.untrusted.host_events import HostEvents


@pytest.fixture
def notes() -> Iterator[HostEvents]:
    found = HostEvents()
    with audited_calls(lambda: found):
        yield found


def test_what_the_host_code_itself_looks_at_is_noted(notes: HostEvents) -> None:
    inspect.currentframe()
    traceback.extract_stack()
    gc.get_referrers(notes)
    try:
        raise KeyError
    except KeyError as error:
        getattr(error.__traceback__, "tb_frame")  # noqa: B009 - the look is what is noted
    assert notes.looks == ["sys._getframe", "sys._getframe", "gc.get_referrers", "traceback.tb_frame"]


def test_what_python_looks_at_for_its_own_use_is_not_noted(notes: HostEvents) -> None:
    logging.getLogger("nothing").warning("logging looks for its caller")
    type("Named", (), {})
    assert (notes.looks, notes.later, notes.threads, notes.cuda_calls) == ([], [], [], [])


def test_the_main_module_is_watched_and_works(monkeypatch: pytest.MonkeyPatch) -> None:
    main: Any = ModuleType("__main__")
    main.answer = 42
    monkeypatch.setitem(sys.modules, "__main__", main)
    found = HostEvents()
    with audited_calls(lambda: found):
        watched: Any = sys.modules["__main__"]
        assert watched is not main
        assert watched.answer == 42
        assert "answer" in vars(watched)
        assert watched.__name__ == "__main__"
        watched.other = 1
    assert found.looks == ["__main__.answer", "__main__.__dict__"]
    assert main.other == 1
    assert sys.modules["__main__"] is main


def test_traces_and_processes_are_noted(notes: HostEvents) -> None:
    sys.setprofile(sys.getprofile())
    subprocess.run([sys.executable, "-c", ""], check=True)
    assert (notes.later, notes.threads) == (["sys.setprofile"], ["subprocess.Popen"])


def test_code_that_is_to_run_later_is_noted_and_registered(notes: HostEvents) -> None:
    ran: list[int] = []
    assert atexit.register(ran.append, 1) == ran.append
    atexit.unregister(ran.append)
    before = signal.signal(signal.SIGUSR2, lambda *_: ran.append(2))
    os.kill(os.getpid(), signal.SIGUSR2)
    signal.signal(signal.SIGUSR2, before)
    signal.alarm(0)
    signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    done = _thread.allocate_lock()
    done.acquire()
    _thread.start_new_thread(lambda: (ran.append(3), done.release()), ())
    assert done.acquire(timeout=60)
    assert ran == [2, 3]
    assert notes.later == ["atexit.register", *["signal.signal"] * 2, "signal.alarm", "signal.setitimer"]
    assert notes.threads == ["_thread.start_new_thread"]
    assert notes.looks == []


def test_handlers_of_packages_are_not_noted(notes: HostEvents) -> None:
    """What counts is the function that registers."""
    names: dict[str, Any] = {"atexit": atexit}
    exec(compile("def of_a_package():\n    atexit.register(print)\n", f"{INSTALLED[0]}package.py", "exec"), names)  # noqa: S102
    names["of_a_package"]()
    atexit.unregister(print)
    assert notes.later == []


def test_handlers_are_put_back() -> None:
    owners = ((atexit, "register"), (signal, "signal"), (signal, "alarm"), (_thread, "start_new_thread"))
    before = [getattr(*one) for one in owners]
    with audited_calls(HostEvents):
        assert all(getattr(*one) is not plain for one, plain in zip(owners, before, strict=True))
    assert [getattr(*one) for one in owners] == before


def test_nothing_is_noted_outside() -> None:
    found = HostEvents()
    with audited_calls(lambda: found):
        pass
    inspect.currentframe()
    assert found.looks == []
