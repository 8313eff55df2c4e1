"""Find a call of `traffic.snapshot` in a test's source, and replace it.

The replacement is atomic, and only in the file that ran.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from ioaware._atomic_file import atomic_write
from ioaware.errors import UsageError

METHOD = "snapshot"
LINE_LENGTH = 100


@dataclass(frozen=True, slots=True)
class Place:
    """A call in a file.

    It holds the file's bytes when the call was found, and the call's range in them.
    """

    path: Path
    content: bytes
    start: int
    end: int
    line: int
    indent: str
    """White space before the statement."""

    @property
    def source(self) -> str:
        """Return the text of the call."""
        return self.content[self.start : self.end].decode()


@dataclass(frozen=True, slots=True)
class Edit:
    """A call and what replaces its arguments."""

    place: Place
    arguments: tuple[tuple[str, str], ...]
    """Names with their values as source code."""

    def text(self, newline: str = "\n") -> str:
        """Return the call with its new arguments: in one line where that is short."""
        called = self.place.source.partition("(")[0]
        flat = f"{called}({', '.join(f'{name}={value}' for name, value in self.arguments)})"
        if len(self.place.indent) + len(flat) <= LINE_LENGTH // 2:
            return flat
        inner = f"{newline}{self.place.indent}    "
        arguments = (f"{inner}{name}={inner.join(value.splitlines())}," for name, value in self.arguments)
        return f"{called}({''.join(arguments)}{newline}{self.place.indent})"


def find_call(frame: FrameType) -> Place:
    """Return the call of `snapshot` that a frame is in.

    Raises `UsageError` where that is not certain.
    """
    path = Path(frame.f_code.co_filename)
    try:
        content = path.read_bytes()
        content.decode()  # offsets of the tree count bytes of UTF-8
        tree = ast.parse(content)
    except (OSError, SyntaxError, ValueError) as error:
        raise UsageError(
            f"{path}: the source of the snapshot cannot be read", "Snapshots are written into files of tests."
        ) from error
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and _is_snapshot(node)]
    line = frame.f_lineno
    around = [call for call in calls if call.lineno <= line <= (call.end_lineno or call.lineno)]
    position = _position(frame)
    exact = [call for call in around if (call.lineno, call.col_offset) == position]
    found = exact or around
    if len(found) != 1:
        raise UsageError(
            f"{path}:{line}: {len(found)} snapshots in one place", "Write each traffic.snapshot() in a line of its own."
        )
    return _place(path, content, tree, found[0])


def _is_snapshot(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr == METHOD


def _position(frame: FrameType) -> tuple[int, int] | None:
    """Return line and column of the call that a frame executes."""
    positions = list(frame.f_code.co_positions())
    index = frame.f_lasti // 2
    line, _, column, _ = positions[index] if index < len(positions) else (None,) * 4
    return None if line is None or column is None else (line, column)


def _place(path: Path, content: bytes, tree: ast.Module, call: ast.Call) -> Place:
    starts = [0]
    for row in content.splitlines(keepends=True):
        starts.append(starts[-1] + len(row))
    begin, finish = _offset(starts, call.lineno, call.col_offset), _offset(starts, call.end_lineno, call.end_col_offset)
    statements = [node for node in ast.walk(tree) if isinstance(node, ast.stmt) and _covers(node, call)]
    innermost = max(statements, key=lambda node: node.lineno)
    first = content[starts[innermost.lineno - 1] : _offset(starts, innermost.lineno, innermost.col_offset)].decode()
    return Place(path, content, begin, finish, call.lineno, first if not first.strip() else "")


def _covers(statement: ast.stmt, call: ast.Call) -> bool:
    return statement.lineno <= call.lineno and (statement.end_lineno or 0) >= (call.end_lineno or 0)


def _offset(starts: Sequence[int], line: int | None, column: int | None) -> int:
    return starts[(line or 1) - 1] + (column or 0)


def kept_arguments(place: Place, names: Iterable[str]) -> list[tuple[str, str]]:
    """Return the source of the arguments with these names.

    An update leaves them as they are.
    """
    tree = ast.parse(place.source, mode="eval")
    wanted = frozenset(names)
    keywords = tree.body.keywords if isinstance(tree.body, ast.Call) else []
    return [(word.arg, ast.get_source_segment(place.source, word.value) or "") for word in keywords if word.arg in wanted]


def write_edits(edits: Sequence[Edit]) -> list[str]:
    """Write the edits into their files; return `file:line` of each.

    Raises `UsageError` for a file that changed since.
    """
    written: list[str] = []
    for path in dict.fromkeys(edit.place.path for edit in edits):
        here = sorted((edit for edit in edits if edit.place.path == path), key=lambda edit: -edit.place.start)
        content = path.read_bytes()
        if any(edit.place.content != content for edit in here):
            raise UsageError(f"{path} changed while the tests ran", "Run them again.")
        newline = "\r\n" if b"\r\n" in content else "\n"
        for edit in here:
            content = content[: edit.place.start] + edit.text(newline).encode() + content[edit.place.end :]
            written.append(f"{path}:{edit.place.line}")
        ast.parse(content)  # never leave a file that Python cannot read
        with atomic_write(path) as partial:
            partial.write_bytes(content)
    return sorted(written)
