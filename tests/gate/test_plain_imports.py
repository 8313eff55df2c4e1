"""pytest rewrites the assertions of tests, and not those of this package."""

from __future__ import annotations

import sys
from importlib.machinery import PathFinder

import pytest

import ioaware.derivation.derive  # beside whatever other tests import, in this session of pytest
from ioaware.gate.plain_imports import import_plainly


def rewritten(name: str) -> bool:
    return type(sys.modules[name].__loader__).__module__.startswith("_pytest")


def test_only_modules_of_tests_are_rewritten() -> None:
    assert rewritten(__name__)
    assert not rewritten(ioaware.derivation.derive.__name__)


def test_one_finder_finds_the_modules_of_the_package() -> None:
    before = list(sys.meta_path)
    import_plainly()
    assert sys.meta_path == before
    (finder,) = (one for one in before if type(one).__module__ == "ioaware.gate.plain_imports")
    found, plain = (one.find_spec("ioaware.derivation", ioaware.__path__) for one in (finder, PathFinder))
    assert found is not None
    assert plain is not None
    assert (found.origin, type(found.loader)) == (plain.origin, type(plain.loader))
    assert [finder.find_spec(name) for name in ("pytest", "ioaware_other", "ioaware")] == [None, None, None]


def test_the_finder_comes_before_that_of_pytest(monkeypatch: pytest.MonkeyPatch) -> None:
    others = [one for one in sys.meta_path if type(one).__module__ != "ioaware.gate.plain_imports"]
    monkeypatch.setattr(sys, "meta_path", list(others))
    import_plainly()
    assert type(sys.meta_path[0]).__module__ == "ioaware.gate.plain_imports"
    assert sys.meta_path[1:] == others
