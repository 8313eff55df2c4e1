"""Which modules are host code, while modules come and go."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest

from ioaware.fakegpu.host_caller import host_modules


def module(name: str, folder: Path) -> ModuleType:
    made = ModuleType(name)
    made.__file__ = str(folder / f"{name}.py")
    return made


def test_a_module_is_found_as_long_as_it_is_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = module("a_first_user_module", tmp_path), module("another_user_module", tmp_path)
    assert one not in host_modules()
    monkeypatch.setitem(sys.modules, one.__name__, one)
    assert one in host_modules()
    monkeypatch.setitem(sys.modules, other.__name__, other)
    assert one in host_modules()
    assert other in host_modules()
    monkeypatch.delitem(sys.modules, other.__name__)
    assert one in host_modules()
    assert other not in host_modules()


def test_a_module_in_the_place_of_another_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many modules as before are not the same modules."""
    one, other = (module("a_user_module", tmp_path) for _ in range(2))
    for each, absent in ((one, other), (other, one), (one, other)):
        monkeypatch.setitem(sys.modules, "a_user_module", each)
        found = host_modules()
        assert any(each is member for member in found)
        assert not any(absent is member for member in found)
