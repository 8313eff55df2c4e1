"""Names of host code that are replaced while it runs."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

from ioaware.fakegpu import host_caller
from ioaware.fakegpu.host_caller import one_look, replaced_names

NOW, ROOT = object(), object()


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a module of host code that has names of two functions."""
    return loaded("of_a_host", monkeypatch)


def loaded(name: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    module: Any = ModuleType(name)
    module.__file__ = f"/work/{name}.py"
    module.now, module.root = time.time, math.sqrt
    monkeypatch.setitem(sys.modules, name, module)
    return module


@pytest.fixture(params=[False, True], ids=["alone", "in one look"])
def look(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(host_caller, "_replaceable", set())
    if not request.param:
        yield
        return
    with one_look():
        yield


@pytest.mark.usefixtures("look")
def test_names_are_replaced_and_restored(host: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    other = loaded("another_host", monkeypatch)
    del other.now
    with replaced_names({time.time: NOW}, ()), replaced_names({math.sqrt: ROOT}, (math,)):
        assert (host.now, host.root, other.root, math.sqrt) == (NOW, ROOT, ROOT, ROOT)
    assert (host.now, host.root) == (time.time, math.sqrt)


def test_one_look_serves_all_replacements(host: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(2):  # the second time all values are known
        looks: list[int] = []
        plain = host_caller.host_modules
        monkeypatch.setattr(host_caller, "host_modules", lambda looks=looks, plain=plain: looks.append(1) or plain())
        with one_look(), replaced_names({time.time: NOW}, ()), replaced_names({math.sqrt: ROOT}, ()):
            assert (host.now, host.root) == (NOW, ROOT)
        monkeypatch.setattr(host_caller, "host_modules", plain)
    assert len(looks) == 1


def test_a_name_that_host_code_binds_after_the_look_is_found(host: Any) -> None:
    host.now = None
    with one_look() as looked, replaced_names({math.sqrt: ROOT}, ()):
        looked()
        host.now = time.time
        with replaced_names({time.time: NOW}, ()):
            assert host.now is NOW


def test_what_is_imported_meanwhile_has_the_old_values_afterwards(host: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with replaced_names({time.time: NOW}, ()):
        later = loaded("imported_later", monkeypatch)
        later.now = host.now
        assert later.now is NOW
    assert later.now is time.time
