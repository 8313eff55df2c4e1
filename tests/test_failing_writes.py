"""Each call by which a file is written fails once: nothing partial appears.

The old file stays whole, no temporary one is left, and the error is one of this package.
"""

from __future__ import annotations

import errno
import io
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ioaware.cli import output
from ioaware.errors import WriteError
from ioaware.gate import source_edit
from ioaware.gate.ci.job_summary import Table, write_summary
from ioaware.gate.ci.results_file import write_results
from ioaware.gate.repository.ledger import LEDGER, Ledger, write_ledger
from ioaware.gate.setup.setup_plan import NewText, Plan
from ioaware.report.pages import document
from ioaware.result import Result, Traffic
from ioaware.result_file import write_jsonl
from ioaware.sweep.export import export

OLD = "old = 1\n"
RESULT = Result("derive", "k", {"n": 4}, requested=Traffic(4, 4))
REASONS = (errno.ENOSPC, errno.EIO, errno.EACCES, errno.EROFS)


def edit(path: Path) -> None:
    place = source_edit.Place(path, path.read_bytes(), 0, len(OLD) - 1, 1, "")
    source_edit.write_edits([source_edit.Edit(place, (("reads", "1"),))])


def plan(path: Path) -> None:
    Plan(path.parent, [NewText(Path(path.name), OLD, "new = 2\n")]).write()


WRITERS: dict[str, Callable[[Path], object]] = {
    LEDGER: lambda path: write_ledger(path.parent, Ledger()),
    "results.json": lambda path: write_results(path, path.parent, [], 0),
    "records.jsonl": lambda path: write_jsonl(path, [RESULT]),
    "table.csv": lambda path: export([RESULT], path),
    "exported.jsonl": lambda path: export([RESULT], path),
    "text.txt": lambda path: vars(output)["_write"](path, "new"),
    "page.html": lambda path: vars(document)["_write"](path, b"new"),
    "test_k.py": edit,
    "pyproject.toml": plan,
}


class Faults:
    """Fails the call of a number, and counts all of them."""

    def __init__(self, number: int | None, reason: int) -> None:
        self.number, self.reason, self.calls = number, reason, 0

    def step(self) -> None:
        self.calls += 1
        if self.calls - 1 == self.number:
            raise OSError(self.reason, os.strerror(self.reason))


class Failing:
    """A file whose writes, flushes and end are steps."""

    def __init__(self, file: Any, faults: Faults) -> None:
        self._file, self._faults = file, faults

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def __enter__(self) -> Failing:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def write(self, data: Any) -> Any:
        self._faults.step()
        return self._file.write(data)

    def flush(self) -> None:
        self._faults.step()
        self._file.flush()

    def close(self) -> None:
        self._file.close()
        self._faults.step()


@contextmanager
def faults(number: int | None, reason: int = errno.EIO) -> Iterator[Faults]:
    """Count the calls that write, and let one fail."""
    made, opened = Faults(number, reason), io.open

    def open_file(file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
        if set(mode) & set("wax+"):
            made.step()
            return Failing(opened(file, mode, *args, **kwargs), made)
        return opened(file, mode, *args, **kwargs)

    def failing(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            made.step()
            return function(*args, **kwargs)

        return call

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(io, "open", open_file)
        for name in ("open", "replace", "fsync", "chmod"):
            patch.setattr(os, name, failing(getattr(os, name)))
        yield made


@pytest.mark.parametrize("reason", REASONS)
@pytest.mark.parametrize("name", WRITERS)
def test_every_call_of_a_writer_fails_once(tmp_path: Path, name: str, reason: int) -> None:
    path = tmp_path / name
    path.write_text(OLD)
    with faults(None) as counted:
        WRITERS[name](path)
    assert counted.calls >= 4  # created, opened, written, renamed
    assert path.read_text() != OLD
    for number in range(counted.calls):
        path.write_text(OLD)
        with faults(number, reason) as made, pytest.raises(WriteError, match=r"cannot be written"):
            WRITERS[name](path)
        assert made.calls >= number
        assert path.read_text() == OLD
        assert [one.name for one in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("reason", REASONS)
def test_a_summary_that_cannot_be_appended_to_keeps_what_it_has(tmp_path: Path, reason: int) -> None:
    path = tmp_path / "summary.md"
    path.write_text(OLD)
    with faults(None) as counted:
        write_summary(path, "title", [], Table((), [], 0))
    for number in range(counted.calls):
        path.write_text(OLD)
        with faults(number, reason), pytest.raises(WriteError):
            write_summary(path, "title", [], Table((), [], 0))
        assert path.read_text().startswith(OLD)
