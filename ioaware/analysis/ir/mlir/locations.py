"""Convert MLIR `loc` attributes to `file:line`, innermost call first."""

from __future__ import annotations

import re
from collections.abc import Mapping

_FILE = re.compile(r'"((?:[^"\\]|\\.)*)":(\d+)(?::\d+)?')
_NAMED = re.compile(r'"(?:[^"\\]|\\.)*"\((.*)\)$', re.DOTALL)


def frames(location: str, aliases: Mapping[str, str]) -> tuple[str, ...]:
    """Return `file:line` of the instruction, then of each caller.

    Empty where the compiler left none.
    """
    location = location.strip()
    for _ in range(1000):
        if location.startswith("loc(") and location.endswith(")"):
            location = location[4:-1]
        elif location in aliases:
            location = aliases[location]
        else:
            break
    if location.startswith("callsite("):
        callee, caller = _around_at(location[len("callsite(") : -1])
        return frames(callee, aliases) + frames(caller, aliases)
    if location.startswith("fused"):
        inner = location[location.index("[") + 1 : location.rindex("]")] if "[" in location else ""
        for part in inner.split(", "):
            found = frames(part, aliases)
            if found:
                return found
        return ()
    file = _FILE.match(location)
    if file:
        return (f"{file[1]}:{file[2]}",)
    named = _NAMED.match(location)
    return frames(named[1], aliases) if named else ()


def _around_at(text: str) -> tuple[str, str]:
    """Split `callee at caller`, either of which may hold brackets."""
    depth = 0
    for at, char in enumerate(text):
        depth += (char == "(") - (char == ")")
        if depth == 0 and text.startswith(" at ", at):
            return text[:at], text[at + 4 :]
    return text, ""
