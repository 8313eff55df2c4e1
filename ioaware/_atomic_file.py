"""Write a file beside its final path, then rename it into place."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from ioaware.errors import WriteError

REMEDY = "Check the path, its permissions and the space left."


@contextmanager
def atomic_write(path: Path) -> Generator[Path]:
    """Yield a temporary path that replaces `path` when the block succeeds.

    A failure leaves the old file.

    Each writer has its own temporary file, with the permissions of the file that it replaces. A symbolic link stays, and its
    target is replaced. A device or a pipe is written directly, because a rename would replace it by a file. Raises `WriteError`
    for an `OSError` inside the block, but not for a closed pipe.
    """
    try:
        if path.exists() and not path.is_file():
            yield path
            return
        place = Path(os.path.realpath(path))
        partial = _new_file(place)
        try:
            yield partial
            partial.replace(place)
        finally:
            partial.unlink(missing_ok=True)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise cannot_write(path, error) from error


def check_writable(path: Path) -> None:
    """Raise `WriteError` unless `path` can be written, without changing it.

    Call it before long work.
    """
    try:
        if path.is_dir():
            raise WriteError(f"{path}: cannot be written (it is a directory)", "Name a file in it.")
        if path.is_file() or not path.exists():
            _new_file(Path(os.path.realpath(path))).unlink()
        elif not os.access(path, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        raise cannot_write(path, error) from error


def make_directory(path: Path) -> None:
    """Create a directory with its parents, and check that files can be created in it.

    Raises `WriteError`.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise cannot_write(path, error) from error
    check_writable(path / ".any")


@contextmanager
def new_directory(path: Path) -> Generator[None]:
    """Create a directory as `make_directory` does; a failing block leaves none.

    What is not empty stays.
    """
    made = [one for one in (path, *path.parents) if not one.exists()]
    make_directory(path)
    try:
        yield
    except BaseException:
        for one in made:
            with suppress(OSError):
                one.rmdir()
        raise


def append_line(path: Path, line: str) -> None:
    """Append a line, durable on return. Raises `WriteError` when it cannot be written."""
    try:
        with path.open("a", encoding="utf-8") as file:
            file.write(line + "\n")
            file.flush()
            if path.is_file():
                os.fsync(file.fileno())
    except OSError as error:
        raise cannot_write(path, error) from error


def cannot_write(path: Path, error: OSError) -> WriteError:
    """Return the one error for an output that cannot be written."""
    return WriteError(f"{path}: cannot be written ({error.strerror or error})", REMEDY)


def _new_file(place: Path) -> Path:
    """Create an empty file beside `place`: a unique name, the existing file's mode."""
    if place.exists() and not os.access(place, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    partial = place.with_name(f".{os.urandom(8).hex()}.partial")
    os.close(os.open(partial, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o666))
    try:
        if place.exists():
            partial.chmod(stat.S_IMODE(place.stat().st_mode))
    except OSError:
        partial.unlink(missing_ok=True)
        raise
    return partial
