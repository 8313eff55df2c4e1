"""Parse MLIR text: operations with operands, regions and source locations.

MLIR prints one operation a line, and a region between lines that end in `{` and lines that begin with `}`. The syntax inside a
line belongs to each operation; the parser takes results, operands and location from it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache

from ioaware.errors import DataError

UNKNOWN_IR = "Use a Triton that ioaware is tested with: see ioaware doctor."

_RESULTS = re.compile(r"((?:%[\w.$-]+(?::\d+)?(?:, )?)+) = (?=[\w\"])")
_NAME = re.compile(r"\"?([A-Za-z_][\w.]*)\"?")
_VALUE = re.compile(r"%[\w.$-]+(?:#\d+)?")
_BLOCK = re.compile(r"\^([\w.$-]+)(?:\((.*)\))?:(?:\s*//.*)?$")
_ALIAS = re.compile(r"(#loc\d*) = loc\((.*)\)$")


@dataclass
class Block:
    """A basic block: operations in order, `arguments` as (name, type)."""

    label: str = ""
    arguments: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    operations: list[Operation] = field(default_factory=list["Operation"])


@dataclass
class Operation:
    """`results = name text { regions } tail loc(location)`.

    `text` holds everything printed before the first region.
    """

    name: str
    text: str
    results: list[str]
    location: str = ""
    tail: str = ""
    regions: list[list[Block]] = field(default_factory=list[list[Block]])

    @property
    def head(self) -> str:
        """Return the text in front of the types."""
        return _split_types(self.text)[0]

    @property
    def types(self) -> str:
        """Return the text after the last colon outside brackets.

        From the tail where regions use the generic form.
        """
        return _split_types(self.tail if self.tail.startswith(")") else self.text)[1]

    @property
    def operands(self) -> list[str]:
        """Return the operand names, in order."""
        return _VALUE.findall(self.head)


@dataclass
class Module:
    """Functions by name, in order, and the location aliases."""

    functions: dict[str, Operation]
    aliases: dict[str, str]


def parse(text: str) -> Module:
    """Parse the text of a module.

    Raises `DataError` for text that is not an MLIR module.
    """
    aliases: dict[str, str] = {}
    lines: list[str] = []
    for raw in text.splitlines():
        line = raw.strip()
        alias = _ALIAS.match(line)
        if alias:
            aliases[alias[1]] = alias[2]
        elif line and not line.startswith(("//", "#", "{-#", "#-}")):
            lines.append(line)
    reader = _Reader(lines)
    top = reader.blocks()
    functions = {_function_name(op): op for op in _functions(top)}
    if not functions:
        raise DataError("no tt.func in the text of the kernel's IR", "Give the text of TTIR or TTGIR, as Triton prints it.")
    return Module(functions, aliases)


def _functions(blocks: list[Block]) -> Iterator[Operation]:
    for block in blocks:
        for operation in block.operations:
            if operation.name == "tt.func":
                yield operation
            elif operation.name in ("module", "builtin.module"):
                for region in operation.regions:
                    yield from _functions(region)


def _function_name(operation: Operation) -> str:
    found = re.search(r"@([\w.$-]+|\"[^\"]*\")", operation.text)
    return found[1] if found else ""


class _Reader:
    """Reads lines in order; a region ends where a line begins with `}`."""

    def __init__(self, lines: list[str]) -> None:
        self._lines = lines
        self._at = 0

    def blocks(self) -> list[Block]:
        found = [Block()]
        while self._at < len(self._lines) and not self._lines[self._at].startswith("}"):
            line = self._lines[self._at]
            self._at += 1
            label = _BLOCK.match(line)
            if label:
                found.append(Block(label[1], arguments(label[2] or "")))
            else:
                found[-1].operations.append(self._operation(line))
        return found if found[0].operations or len(found) == 1 else found[1:]

    def _operation(self, line: str) -> Operation:
        results: list[str] = []
        named = _RESULTS.match(line)
        if named:
            results = list(_result_names(named[1]))
            line = line[named.end() :]
        name = _NAME.match(line)
        if not name:
            raise DataError(f"cannot read a line of the kernel's IR: {line[:120]}", UNKNOWN_IR)
        if not line.endswith("{"):
            text, location = _split_location(line[name.end() :])
            return Operation(name[1], text.strip(), results, location)
        operation = Operation(name[1], line[name.end() : -1].strip(), results)
        while True:
            operation.regions.append(self.blocks())
            if self._at >= len(self._lines):
                raise DataError("the text of the kernel's IR ends inside a region", UNKNOWN_IR)
            closing = self._lines[self._at][1:]
            self._at += 1
            if not closing.endswith("{") or closing.strip().startswith("{"):
                break
        operation.tail, operation.location = _split_location(closing.strip())
        return operation


def _result_names(text: str) -> Iterator[str]:
    for name in text.split(", "):
        base, _, count = name.partition(":")
        yield from [f"{base}#{i}" for i in range(int(count))] if count else [base]


def _split_location(text: str) -> tuple[str, str]:
    """Split off the trailing `loc(...)`."""
    at = text.rfind(" loc(") if not text.startswith("loc(") else 0
    if at < 0 or not text.endswith(")"):
        return text, ""
    # A location may hold another one by name: the outermost begins where the brackets balance.
    depth, start = 0, len(text)
    for start in range(len(text) - 1, -1, -1):
        depth += (text[start] == ")") - (text[start] == "(")
        if depth == 0:
            break
    return (text[: start - 3].rstrip(), text[start + 1 : -1]) if text[:start].endswith("loc") else (text, "")


@lru_cache(maxsize=4096)
def _split_types(text: str) -> tuple[str, str]:
    """Split at the last ` : ` outside brackets."""
    at = text.rfind(" : ")
    while at >= 0:
        behind = text[at + 3 :]
        if sum(map(behind.count, "([{<")) == sum(map(behind.count, ")]}>")) - behind.count("->"):
            return text[:at].strip(), behind.strip()
        at = text.rfind(" : ", 0, at)
    return ("", text[2:].strip()) if text.startswith(": ") else (text, "")


def arguments(text: str) -> list[tuple[str, str]]:
    """Parse `%a: type loc(...), %b: type {attributes}` into (name, type) pairs."""
    found: list[tuple[str, str]] = []
    for part in split_top(text):
        name, _, rest = part.partition(":")
        kind = re.split(r" loc\(| \{", rest.strip())[0].strip()
        found.append((name.strip(), kind))
    return found


def split_top(text: str) -> list[str]:
    """Split at commas outside brackets and strings."""
    parts: list[str] = []
    depth, quoted, start = 0, False, 0
    for at, char in enumerate(text):
        if char == '"':
            quoted = not quoted
        if quoted:
            continue
        depth += (char in "([{<") - (char in ")]}") - (char == ">" and text[at - 1] != "-")
        if char == "," and depth == 0:
            parts.append(text[start:at].strip())
            start = at + 1
    parts.append(text[start:].strip())
    return [part for part in parts if part]
