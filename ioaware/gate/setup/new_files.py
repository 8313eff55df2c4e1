"""New texts of a repository's files, which are shown before they are written."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from ioaware._atomic_file import atomic_write, make_directory
from ioaware.errors import UsageError
from ioaware.gate.setup.gated_calls import GatedCall


@dataclass(frozen=True, slots=True)
class NewText:
    """A file to write.

    Its path below the root, its text before (empty where it does not exist) and after.
    """

    path: Path
    before: str
    after: str

    def diff(self) -> str:
        """Return a unified diff."""
        name = self.path.as_posix()
        old = f"a/{name}" if self.before else "/dev/null"
        lines = difflib.unified_diff(self.before.splitlines(), self.after.splitlines(), old, f"b/{name}", lineterm="")
        return "\n".join(lines)


@dataclass(slots=True)
class Plan:
    """What to write into a repository, and what stays as it is.

    `tests` is the file whose snapshots pytest fills in.
    """

    root: Path
    files: list[NewText] = field(default_factory=list[NewText])
    kept: list[str] = field(default_factory=list[str])
    calls: list[GatedCall] = field(default_factory=list[GatedCall])
    tests: Path | None = None

    def create(self, path: Path, text: Callable[[], str]) -> bool:
        """Plan a file; return whether it does not exist yet."""
        if (self.root / path).exists():
            self.kept.append(f"{path.as_posix()} exists and stays as it is")
            return False
        self.files.append(NewText(path, "", text()))
        return True

    def change(self, path: Path, after: str) -> None:
        """Plan another text of a file that exists."""
        before = text_of(self.root / path)
        if after != before:
            self.files.append(NewText(path, before, after))

    def write(self) -> None:
        """Write every file.

        Raises `UsageError` for one that has appeared or changed meanwhile, `WriteError`.
        """
        for file in self.files:
            place = self.root / file.path
            now = text_of(place)
            if now != file.before or (place.exists() and not file.before):
                raise UsageError(f"{place} has changed meanwhile", "Run ioaware init again.")
        for file in self.files:
            place = self.root / file.path
            make_directory(place.parent)
            with atomic_write(place) as partial:
                partial.write_bytes(file.after.encode())


def text_of(path: Path) -> str:
    """Return a file with its own line ends, empty where there is none."""
    return path.read_bytes().decode("utf-8") if path.exists() else ""
