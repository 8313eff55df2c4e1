"""Replace functions and classes under every name that host code has for them."""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterable, Mapping, Sequence, Set
from contextlib import contextmanager
from typing import Any, cast

from ioaware._monkeypatch import Patches
from ioaware.fakegpu.host_caller import host_modules


@contextmanager
def replaced_names(replaced: Mapping[Any, Any], owners: Sequence[Any]) -> Generator[Patches]:
    """Replace functions and classes inside the block.

    They are replaced under all names in host code and `owners`. What host code imports meanwhile has the old ones afterwards.
    The value takes further replacements.
    """
    before = tuple(sys.modules)
    try:
        with Patches() as patches:
            new_values = {id(old): new for old, new in replaced.items()}
            look = _look[0] if _look else _Look()
            in_owners = [place for owner in owners for place in _names_in(owner, new_values.keys())]
            for owner, name, old in (*look.places(replaced), *in_owners):
                patches.set(owner, name, new_values[id(old)])
            yield patches
    finally:
        old_values = {id(new): old for old, new in replaced.items()}
        imported = () if tuple(sys.modules) == before else sys.modules.keys() - set(before)
        for module in host_modules(imported):
            for _, name, new in _names_in(module, old_values.keys()):
                setattr(module, name, old_values[id(new)])


@contextmanager
def one_look() -> Generator[None]:
    """Look through host code once for all replacements that begin in the block.

    The block runs no host code. Why: thousands of names are looked at, and a run of host code begins with five replacements.
    """
    if _look:
        yield
        return
    _look.append(_Look())
    try:
        yield
    finally:
        _look.clear()


@contextmanager
def names_kept() -> Generator[None]:
    """Look through a module again only where its number of names changed.

    That is so inside the block, which runs one function several times and restores what that sets.
    """
    if _modules:
        yield
        return
    _modules.append({})
    try:
        yield
    finally:
        _modules.clear()


_Place = tuple[Any, str, Any]
"""A module, a name in it, and the value there."""


class _Look:
    """Where host code has any of the values that were ever replaced."""

    def __init__(self) -> None:
        self._values: frozenset[int] = frozenset()
        self._places: list[_Place] = []

    def places(self, values: Iterable[Any]) -> Generator[_Place]:
        """Yield the places of some values."""
        wanted = {id(value): value for value in values}
        _ever_replaced.update(wanted)
        if not wanted.keys() <= self._values:
            self._values = frozenset(_ever_replaced)
            self._places = [place for module in host_modules() for place in self._in_module(module)]
        for module, name, value in self._places:
            if id(value) in wanted and getattr(module, name, None) is value:
                yield module, name, value

    def _in_module(self, module: Any) -> list[_Place]:
        if not _modules:
            return _names_in(module, self._values)
        names = cast("dict[str, Any]", vars(module))
        key = id(module), len(names), len(self._values)
        if key not in _modules[0]:
            _modules[0][key] = module, _names_in(module, self._values)
        return _modules[0][key][1]


_look: list[_Look] = []
"""That of the running block of `one_look`, if any."""
_modules: list[dict[tuple[int, int, int], tuple[Any, list[_Place]]]] = []
"""What the running block of `names_kept` found, if any.

The key is the module's identity, the number of its names and of the values. The module is kept, so that no other gets its
identity.
"""
_ever_replaced: dict[int, Any] = {}
"""Functions and classes by identity, kept so that no other object has it."""


def _names_in(module: Any, values: Set[int]) -> list[_Place]:
    """Return the places of some values in a module, compared by identity."""
    names = cast("dict[str, Any]", vars(module))
    if values.isdisjoint(map(id, names.values())):  # as in nearly every module
        return []
    return [(module, name, value) for name, value in names.items() if id(value) in values]
