"""Replace functions and classes under every name that host code has for them."""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterable, Mapping, Sequence
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
    before = set(sys.modules)
    try:
        with Patches() as patches:
            new_values = {id(old): new for old, new in replaced.items()}
            for owner, name, old in (*_names_in_host_code(replaced), *_names_in(owners, replaced)):
                patches.set(owner, name, new_values[id(old)])
            yield patches
    finally:
        old_values = {id(new): old for old, new in replaced.items()}
        for owner, name, new in _names_in(host_modules(sys.modules.keys() - before), replaced.values()):
            setattr(owner, name, old_values[id(new)])


@contextmanager
def one_look() -> Generator[None]:
    """Look through host code once for all replacements that begin inside the block, which runs no host code.

    Why: thousands of names are looked at, and a run of host code begins with five replacements.
    """
    _looks.append(_looks[-1] if _looks else None)
    try:
        yield
    finally:
        _looks.pop()


_Place = tuple[Any, str, Any]
"""A module, a name in it, and the value there."""
_looks: list[list[_Place] | None] = []
"""What the blocks of `one_look` found so far, the innermost last."""
_ever_replaced: dict[int, Any] = {}
"""Functions and classes by identity, kept so that no other object has it."""


def _names_in_host_code(values: Mapping[Any, Any]) -> list[_Place]:
    """Return the places of some values in modules of host code."""
    wanted = {id(value): value for value in values}
    unknown = wanted.keys() - _ever_replaced.keys()
    _ever_replaced.update(wanted)
    if not _looks:
        return _names_in(host_modules(), values)
    look = _looks[-1]
    if look is None or unknown:
        look = _looks[-1] = _names_in(host_modules(), _ever_replaced.values())
    return [(owner, name, value) for owner, name, value in look if id(value) in wanted and getattr(owner, name, None) is value]


def _names_in(modules: Sequence[Any], values: Iterable[Any]) -> list[_Place]:
    """Return the places of some values in modules, which are compared by identity."""
    wanted = frozenset(map(id, values))
    found: list[_Place] = []
    for module in modules:
        names = cast("dict[str, Any]", vars(module))
        if not wanted.isdisjoint(map(id, names.values())):  # they are in few modules
            found += [(module, name, value) for name, value in names.items() if id(value) in wanted]
    return found
