"""Names under which host code holds sets in an unknown order while it runs.

A set that is an argument, or in a table, is not seen in the source of a function.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from types import CodeType, ModuleType
from typing import Any, cast

SAME_ORDER = (bool, int, float, complex, type(None))
"""Types whose hashes, and so order in a set, are the same in each process."""
INNER_FUNCTION = ".<locals>."
LONGEST = 64
"""Most items of a table or a list that are looked at."""
MOST_CALLS = 50
"""Most calls of a function that are looked at."""


def is_unordered(value: Any) -> bool:
    """Return whether a value is a set of two or more items, not all of them numbers."""
    if not isinstance(value, (set, frozenset)):
        return False
    items = cast("set[Any]", value)
    return len(items) > 1 and not all(isinstance(item, SAME_ORDER) for item in items)


def holds_unordered(value: Any) -> bool:
    """Return whether a value is a table, a list or a tuple with such a set."""
    if isinstance(value, dict):
        items: Iterable[Any] = cast("dict[Any, Any]", value).values()
    elif type(value) in (list, tuple):
        items = value
    else:
        return False
    return any(map(is_unordered, islice(items, LONGEST)))


@dataclass(slots=True)
class NamesOfSets:
    """Names that stand for sets, or for what holds sets."""

    sets: set[str] = field(default_factory=set[str])
    holders: set[str] = field(default_factory=set[str])

    def note(self, name: str, value: Any) -> None:
        """Look at one value."""
        if is_unordered(value):
            self.sets.add(name)
        elif holds_unordered(value):
            self.holders.add(name)


@dataclass(slots=True)
class SeenSets:
    """The names by what they name."""

    variables: dict[tuple[str, str], NamesOfSets] = field(default_factory=dict[tuple[str, str], NamesOfSets])
    """At the end of a function, by file and function."""
    arguments: dict[tuple[str, str], NamesOfSets] = field(default_factory=dict[tuple[str, str], NamesOfSets])
    """At the start of a function."""
    attributes: NamesOfSets = field(default_factory=NamesOfSets)
    functions: NamesOfSets = field(default_factory=NamesOfSets)
    """By what they returned."""

    def enter(self, code: CodeType, values: Mapping[str, Any]) -> None:
        """Look at the arguments of a call."""
        self._note(self.arguments, code, values)

    def leave(self, code: CodeType, values: Mapping[str, Any], result: Any) -> None:
        """Look at the result of a call, at its variables and at their attributes."""
        self._note(self.variables, code, values)
        self.functions.note(code.co_name, result)
        for value in values.values():
            for name, attribute in _attributes(value):
                self.attributes.note(name, attribute)

    @staticmethod
    def _note(found: dict[tuple[str, str], NamesOfSets], code: CodeType, values: Mapping[str, Any]) -> None:
        names = found.setdefault(function_of(code), NamesOfSets())
        for name, value in values.items():
            names.note(name, value)


def function_of(code: CodeType) -> tuple[str, str]:
    """Return file and name of a function.

    A comprehension is part of the function around it.
    """
    name = code.co_qualname
    while name.endswith(("<genexpr>", "<listcomp>", "<setcomp>", "<dictcomp>")):
        name = name.rpartition(INNER_FUNCTION)[0]
    return code.co_filename, name


def _attributes(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the attributes of an object that are its own, without calling its code."""
    try:
        own = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return
    if isinstance(own, dict) and not isinstance(value, (type, ModuleType)):
        yield from list(cast("dict[str, Any]", own).items())
