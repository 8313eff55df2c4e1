"""Patches and their temporary absence."""

from __future__ import annotations

from types import SimpleNamespace

from ioaware._monkeypatch import Patches, unpatched


def test_unpatched_restores_all_patches_and_takes_that_back() -> None:
    owner = SimpleNamespace(kept=1, twice=2)
    with Patches() as outer, Patches() as inner:
        outer.set(owner, "kept", 10)
        outer.set(owner, "new", 30)
        outer.set(owner, "twice", 20)
        inner.set(owner, "twice", 21)
        with unpatched():
            assert vars(owner) == {"kept": 1, "twice": 2}
        assert vars(owner) == {"kept": 10, "new": 30, "twice": 21}
    assert vars(owner) == {"kept": 1, "twice": 2}
