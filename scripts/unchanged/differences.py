"""Compare the answers of two dumps.

Formulas and digests are compared exactly, prose by its numbers, names of kernels by their use.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

PROSE = frozenset(
    {
        *("notes", "title", "help", "detail", "remedy", "problem", "remark", "remark_on_stdout"),
        *("says", "statement", "quantity", "expected", "observed", "failed_now", "unavailable"),
    }
)
"""Fields of words for people, which may be said in others.

The numbers in them may not change.
"""
NAMES = frozenset({"kernel", "function"})
"""Fields that name functions of the package, which may be renamed.

A function may be renamed where every use is. Those of third parties may not.
"""
THIRD_PARTY = "foreign"
SHOWN = 12
"""Differences listed of one answer."""
LONGEST = 160
_PLACE = re.compile(r"[\w./-]+\.py(:\d+)?")
_NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?")
_ABSENT = object()


@dataclass
class Comparison:
    """What was compared and what was found, by section."""

    compared: Counter[str] = field(default_factory=Counter[str])
    values: Counter[str] = field(default_factory=Counter[str])
    differing: Counter[str] = field(default_factory=Counter[str])
    differences: list[str] = field(default_factory=list[str])
    reworded: list[str] = field(default_factory=list[str])
    renamed: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])

    def report(self, *, words: bool = False) -> Iterator[str]:
        """Yield the differences, the new names, and a line for each section."""
        yield from self.differences
        yield from self.reworded if words else ()
        for (old, new), times in sorted(self.renamed.items()):
            yield f"renamed: {old} is {new} ({times} times)"
        if self.reworded and not words:
            yield f"reworded, with the same numbers: {len(self.reworded)} texts (--words lists them)"
        yield f"{'section':<10} {'answers':>8} {'values':>9} {'differ':>7}"
        for name in self.compared:
            yield f"{name:<10} {self.compared[name]:>8} {self.values[name]:>9} {self.differing[name]:>7}"
        yield "nothing else changed" if not self.differences else f"{sum(self.differing.values())} answers differ"


def compare(before: Mapping[str, Any], after: Mapping[str, Any]) -> Comparison:
    """Compare sections that both dumps have.

    A section or an answer that one lacks is a difference.
    """
    found = Comparison()
    for section in dict.fromkeys((*before, *after)):
        if section not in before or section not in after:
            found.differing[section] += 1
            found.compared[section] += 0
            found.differences.append(f"{section}: only in the {'first' if section in before else 'second'} dump")
            continue
        one, other = before[section], after[section]
        for key in dict.fromkeys((*one, *other)):
            _compare_answer(found, section, key, one.get(key, _ABSENT), other.get(key, _ABSENT))
    return found


def _compare_answer(found: Comparison, section: str, key: str, one: Any, other: Any) -> None:
    """Compare the two answers to a question."""
    found.compared[section] += 1
    pairs: set[tuple[str, str]] = set()
    said: list[str] = []
    for path, old, new in leaves(one, other):
        found.values[section] += 1
        if old is _ABSENT or new is _ABSENT:
            said.append(f"{path}: {_text(old)} -> {_text(new)}")
            continue
        last = re.sub(r"\[\d+\]", "", path).rpartition(".")[2]
        named = last in NAMES and section != THIRD_PARTY
        if named:
            pairs.add((str(old), str(new)))
        if old == new and type(old) is type(new):
            continue
        if named:
            found.renamed[str(old), str(new)] += 1
        elif _is_prose(path) and numbers(old) == numbers(new):
            found.reworded.append(f"{section}: {key}: {path}: {_text(old)} -> {_text(new)}")
        else:
            said.append(f"{path}: {_text(old)} -> {_text(new)}")
    said += inconsistent(pairs)
    if said:
        found.differing[section] += 1
        more = [f"and {len(said) - SHOWN} more"] if len(said) > SHOWN else []
        found.differences += [f"{section}: {key}: {line}" for line in (*said[:SHOWN], *more)]


def leaves(one: Any, other: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield the path and both values of each leaf of two answers.

    A leaf is everything that is not a list or an object in both.
    """
    if isinstance(one, dict) and isinstance(other, dict):
        for name in dict.fromkeys((*one, *other)):
            yield from leaves(one.get(name, _ABSENT), other.get(name, _ABSENT), f"{path}.{name}" if path else str(name))
    elif isinstance(one, list) and isinstance(other, list):
        for index in range(max(len(one), len(other))):
            yield from leaves(_item(one, index), _item(other, index), f"{path}[{index}]")
    else:
        yield path, one, other


def _item(values: Sequence[Any], index: int) -> Any:
    return values[index] if index < len(values) else _ABSENT


def inconsistent(pairs: set[tuple[str, str]]) -> list[str]:
    """Say which functions of an answer were not renamed one to one.

    In these, two became one, or one became two.
    """
    old, new = Counter(pair[0] for pair in pairs), Counter(pair[1] for pair in pairs)
    return [f"names: {one} -> {other}: not one to one" for one, other in sorted(pairs) if old[one] > 1 or new[other] > 1]


def numbers(value: Any) -> list[str]:
    """Return the numbers in a text, without those of lines of source files."""
    return sorted(_NUMBER.findall(_PLACE.sub("", str(value))))


def _is_prose(path: str) -> bool:
    """Whether the value, or the list that it is in, is for people to read."""
    return any(name in PROSE for name in re.sub(r"\[\d+\]", "", path).split("."))


def _text(value: Any) -> str:
    text = "absent" if value is _ABSENT else repr(value)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."
