"""Functions are replaced under every name of host code.

It is looked through once where many are replaced.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Generator
from types import ModuleType
from typing import Any

import pytest

from ioaware.fakegpu import replaced_names as subject
from ioaware.fakegpu.replaced_names import names_kept, one_look, replaced_names


def stand_in(*_: object) -> float:
    return 7.0


@pytest.fixture
def host_module(monkeypatch: pytest.MonkeyPatch) -> Generator[Any]:
    """A module of host code that has clocks and roots under names of its own."""
    module: Any = ModuleType("host_code_of_a_test")
    module.__file__ = "/somewhere/host_code.py"
    module.now, module.again, module.root = time.time, time.time, math.sqrt
    monkeypatch.setitem(sys.modules, module.__name__, module)
    yield module
    assert (module.now, module.root) == (time.time, math.sqrt)


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the modules that were looked through."""
    seen: list[str] = []
    plain: Any = subject._names_in  # pyright: ignore[reportPrivateUsage]

    def counted(module: Any, values: Any) -> Any:
        seen.append(module.__name__)
        return plain(module, values)

    monkeypatch.setattr(subject, "_names_in", counted)
    return seen


def test_every_name_is_replaced_and_restored(host_module: Any) -> None:
    with replaced_names({time.time: stand_in}, ()):
        assert host_module.now is host_module.again is stand_in
        assert host_module.root is math.sqrt


def test_replacements_that_begin_together_look_once(host_module: Any, looks: list[str]) -> None:
    with replaced_names({time.time: stand_in, math.sqrt: stand_in}, ()):
        pass  # both are known to be replaced from here on
    looks.clear()
    clocks, roots = replaced_names({time.time: stand_in}, ()), replaced_names({math.sqrt: stand_in}, ())
    with one_look():
        clocks.__enter__()
        roots.__enter__()
    assert host_module.now is host_module.root is stand_in
    assert looks.count(host_module.__name__) == 1
    roots.__exit__(None, None, None)
    clocks.__exit__(None, None, None)


def test_a_later_look_sees_what_host_code_has_then(host_module: Any) -> None:
    with one_look(), replaced_names({time.time: stand_in}, ()):
        pass
    host_module.later = time.time
    with one_look(), replaced_names({time.time: stand_in}, ()):
        assert host_module.later is stand_in


def test_what_is_imported_meanwhile_has_the_old_functions_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    module: Any = ModuleType("imported_by_a_test")
    module.__file__ = "/somewhere/imported.py"
    with replaced_names({time.time: stand_in}, ()):
        module.now = stand_in
        monkeypatch.setitem(sys.modules, module.__name__, module)
    assert module.now is time.time


def test_a_module_is_looked_through_again_where_it_has_more_names(host_module: Any, looks: list[str]) -> None:
    with names_kept():
        for _ in range(3):
            with one_look(), replaced_names({time.time: stand_in}, ()):
                assert host_module.now is stand_in
        assert looks.count(host_module.__name__) == 1
        host_module.later = time.time
        with one_look(), replaced_names({time.time: stand_in}, ()):
            assert host_module.later is stand_in
    assert looks.count(host_module.__name__) == 2


def test_nothing_is_kept_from_one_function_to_the_next(host_module: Any) -> None:
    with names_kept(), one_look(), replaced_names({time.time: stand_in}, ()):
        pass
    host_module.root, host_module.now = host_module.now, host_module.root
    with names_kept(), one_look(), replaced_names({time.time: stand_in}, ()):
        assert host_module.root is stand_in
    host_module.root, host_module.now = host_module.now, host_module.root


def test_a_module_that_took_the_place_of_another_is_looked_through(monkeypatch: pytest.MonkeyPatch) -> None:
    with names_kept():
        for _ in range(50):  # a module that is gone leaves its identity to the next
            old: Any = ModuleType("loaded_again_by_a_test")
            old.__file__, old.now = "/somewhere/again.py", None
            monkeypatch.setitem(sys.modules, old.__name__, old)
            with one_look(), replaced_names({time.time: stand_in}, ()):
                pass
            identity = id(old)
            del old, sys.modules["loaded_again_by_a_test"]
            new: Any = ModuleType("loaded_again_by_a_test")
            new.__file__, new.now = "/somewhere/again.py", time.time
            sys.modules[new.__name__] = new
            with one_look(), replaced_names({time.time: stand_in}, ()):
                assert new.now is stand_in, id(new) == identity
            del new
