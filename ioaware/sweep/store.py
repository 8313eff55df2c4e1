"""Store records in one SQLite file.

Each is durable before the next point, safe under kill -9 and concurrent writers.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import struct
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import cast

from ioaware.errors import DataError, IoawareError, UsageError, WriteError
from ioaware.result import Params, ParamValue, Result, Source, Status
from ioaware.result_file import decode, encode
from ioaware.sweep.points import SOURCES, Point

APPLICATION_ID = 0x696F_6177
"""Marks the file's header as ours (the letters "ioaw")."""
STORE_SCHEMA = 1
BUSY_TIMEOUT_S = 60.0
MAX_STORE_BYTES = 2**30

_MAGIC = b"SQLite format 3\0"
_TABLE = (
    "CREATE TABLE points (point TEXT NOT NULL, machine TEXT NOT NULL, source TEXT NOT NULL, status TEXT NOT NULL, "
    "record TEXT NOT NULL, digest TEXT NOT NULL, PRIMARY KEY (point, machine)) STRICT, WITHOUT ROWID"
)
# A record whose bytes hold stays. A failed or unstable one is replaced, but an unstable one not by a failed one.
_SAVE = (
    "INSERT INTO points VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE "
    "SET status = excluded.status, record = excluded.record, digest = excluded.digest "
    "WHERE points.status NOT IN ('ok', 'throttled') AND (points.status = 'failed' OR excluded.status <> 'failed')"
)


class Store:
    """Records by point and machine (the GPU's name for `measure`, else empty).

    Use it in a `with`.

    Raises `DataError` for a file that is not an intact store of this version and `WriteError` for a path where none can be
    created. Raises `UsageError` for a file that cannot be read where it is only to be read.
    """

    def __init__(self, path: Path | str, *, readonly: bool = False) -> None:
        self.path = Path(path)
        self.readonly = readonly
        if not readonly and not os.path.lexists(self.path):
            _create(self.path)
        _check_header(self.path, readonly=readonly)
        self._connection = _connect(self.path, readonly=readonly)
        try:
            with self._errors():
                self._check_content()
        except IoawareError:
            self._connection.close()
            raise

    def __enter__(self) -> Store:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close the file. Every saved record is on disk already."""
        self._connection.close()

    def save(self, point: Point, record: str, *, machine: str = "") -> None:
        """Make a record durable.

        `record` is the text of `encode`: the measuring machine need not parse it.
        """
        self.save_all([(point, record, json.loads(record)["status"], machine)])

    def save_all(self, records: Iterable[tuple[Point, str, Status, str]]) -> None:
        """Make records durable, all of them or none.

        Each is a point, the text of `encode`, the record's status and the measuring machine.
        """
        rows = [(point.key, machine, point.source, status, record) for point, record, status, machine in records]
        with self._errors(), self._transaction():
            self._connection.executemany(_SAVE, [(*row, _digest(row)) for row in rows])

    def discard(self, point: Point, *, machine: str = "") -> None:
        """Drop a point's record, which another one is about to replace."""
        with self._errors():
            self._connection.execute("DELETE FROM points WHERE (point, machine) = (?, ?)", (point.key, machine))

    def add(self, point: Point, result: Result, *, machine: str = "") -> None:
        """Save a `Result`."""
        self.save(point, encode(result), machine=machine)

    def status(self, point: Point, *, machine: str = "") -> Status | None:
        """Return the status of a point's record, or None.

        Raises `DataError` for a row that was changed.
        """
        with self._errors():
            row = self._connection.execute(
                "SELECT * FROM points WHERE (point, machine) = (?, ?)", (point.key, machine)
            ).fetchone()
        if row is None:
            return None
        self._check_row(row)
        return cast("Status", row[3])

    def tuning(self, point: Point) -> Params:
        """Return the configurations of autotuned kernels in a point's record.

        Those of any machine, the last by name.
        """
        with self._errors():
            rows = self._connection.execute("SELECT * FROM points WHERE point = ? ORDER BY machine", (point.key,)).fetchall()
        found = [self._result(row).tuning for row in rows]
        return next((tuning for tuning in reversed(found) if tuning), dict[str, ParamValue]())

    def results(self, points: Iterable[Point] | None = None) -> list[Result]:
        """Return every record by source and key, or those of `points` in their order.

        The order never depends on the time of writing.
        """
        rank = None if points is None else {point.key: number for number, point in enumerate(points)}
        with self._errors():
            rows: list[tuple[str, ...]] = self._connection.execute("SELECT * FROM points ORDER BY point, machine").fetchall()
        chosen = [row for row in rows if rank is None or row[0] in rank]
        for row in chosen:
            self._check_row(row)
        chosen.sort(key=lambda row: SOURCES.index(cast("Source", row[2])) if rank is None else rank[row[0]])
        return [self._result(row) for row in chosen]

    def _result(self, row: Sequence[str]) -> Result:
        """Return the record of a row, which must be of the row's point."""
        key, _, source, status, record, _ = row
        result = decode(record, where=f"{self.path}: {key}")
        if (result.source, result.status) != (source, status) or not _of_key(result, key):
            raise self._changed(key)
        return result

    def _check_row(self, row: Sequence[str]) -> None:
        """Raise `DataError` unless the row is as it was saved."""
        *content, digest = row
        if digest != _digest(content) or content[2] not in SOURCES:
            raise self._changed(content[0])

    def _changed(self, key: str) -> DataError:
        return self._corrupt(f"the record of {key[:200]} is not what was saved")

    def _check_content(self) -> None:
        """Check the pages and that there is exactly our table.

        A foreign view or trigger would run in our process.
        """
        self._connection.execute("PRAGMA trusted_schema = OFF")
        self._connection.execute("PRAGMA synchronous = FULL")
        (verdict,) = self._connection.execute("PRAGMA quick_check(1)").fetchone()
        if verdict != "ok":
            raise self._corrupt(verdict)
        schema = self._connection.execute("SELECT sql FROM sqlite_schema").fetchall()
        if schema != [(_TABLE,)]:
            raise self._corrupt("its tables are not a store's")

    def _corrupt(self, why: str) -> DataError:
        return DataError(f"{self.path}: not a sound store ({why})", "Restore it from a copy, or choose a new --store file.")

    @contextmanager
    def _transaction(self) -> Generator[None]:
        """Make everything inside durable at once; nothing where it fails."""
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._connection.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise

    @contextmanager
    def _errors(self) -> Generator[None]:
        """Turn SQLite's errors into errors of ioaware."""
        try:
            yield
        except sqlite3.ProgrammingError:  # a bug of ours
            raise
        except (sqlite3.Error, UnicodeDecodeError) as error:
            code = getattr(error, "sqlite_errorcode", None)
            primary = code & 0xFF if isinstance(code, int) else sqlite3.SQLITE_CORRUPT
            if primary in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM):
                raise _no_place(self.path, str(error), readonly=self.readonly) from error
            if primary in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_BUSY):
                raise WriteError(
                    f"{self.path}: cannot be written ({error})", "What was saved before is kept; free the disk."
                ) from error
            raise self._corrupt(str(error)) from error


def _digest(row: Sequence[str]) -> str:
    """Return the checksum of a row.

    Why: SQLite has none, and a flipped digit would be a valid number.
    """
    return hashlib.sha256("\0".join(row).encode()).hexdigest()


def _no_place(path: Path, why: str | None, *, readonly: bool = False) -> IoawareError:
    if readonly:
        return UsageError(f"{path}: cannot be opened ({why})", "Name a store of `ioaware sweep STUDY --store FILE`.")
    return WriteError(f"{path}: cannot be written ({why})", "Choose a store in a writable directory of a local disk.")


def _of_key(result: Result, key: str) -> bool:
    """Return whether a record has the source, target and parameters of a key."""
    try:
        source, target, _, given = json.loads(key)
    except (ValueError, TypeError, RecursionError):
        return False
    return (
        (result.source, result.target) == (source, target)
        and isinstance(given, dict)
        and _of_point(result, cast(Params, given))
    )


def _of_point(result: Result, given: Params) -> bool:
    """Return whether a record has the parameters of its point.

    Those of a function may have its defaults too, which the point does not know.
    """
    known = {name: value for name, value in result.params.items() if value is not None}
    return known.items() >= given.items() if ":" in result.target else known == given


def _create(path: Path) -> None:
    """Build an empty store beside the path and link it there.

    With that it appears whole.
    """
    beside = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        _remove(beside)  # a killed process with our pid may have left it
        connection = sqlite3.connect(beside, isolation_level=None)
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {STORE_SCHEMA}")
            connection.execute(_TABLE)
        finally:
            connection.close()
        os.link(beside, path)
        _sync_directory(path.parent)
    except FileExistsError:
        pass  # another process was first: its store is equal
    except (OSError, sqlite3.Error) as error:
        raise _no_place(path, error.strerror if isinstance(error, OSError) else str(error)) from error
    finally:
        with suppress(OSError):
            _remove(beside)


def _remove(store: Path) -> None:
    """Remove a store with its log and index.

    SQLite leaves them where the disk is full.
    """
    for suffix in ("", "-wal", "-shm"):
        store.with_name(store.name + suffix).unlink(missing_ok=True)


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _check_header(path: Path, *, readonly: bool) -> None:
    """Refuse a foreign file before SQLite opens it.

    Offsets: sqlite.org/fileformat, "The Database Header".
    """
    try:
        if not path.is_file() and path.exists():
            raise _no_place(path, "not a file", readonly=readonly)
        with path.open("rb") as file:
            header, size = file.read(100), os.fstat(file.fileno()).st_size
    except OSError as error:
        raise _no_place(path, error.strerror, readonly=readonly) from error
    if len(header) < 100 or not header.startswith(_MAGIC):
        raise DataError(f"{path}: not a store", "A store is made by `ioaware sweep STUDY --store FILE`; choose another file.")
    if size > MAX_STORE_BYTES:
        raise DataError(f"{path}: {size} bytes, more than the {MAX_STORE_BYTES} of a store", "Split the study over several.")
    schema, application = struct.unpack(">I", header[60:64])[0], struct.unpack(">I", header[68:72])[0]
    if application != APPLICATION_ID:
        raise DataError(f"{path}: an SQLite database of another program", "Choose another --store file.")
    if schema != STORE_SCHEMA:
        newer = "Update ioaware to read it." if schema > STORE_SCHEMA else "Export it with the version that wrote it."
        raise DataError(f"{path}: store schema {schema}, this version reads {STORE_SCHEMA}", newer)


def _connect(path: Path, *, readonly: bool) -> sqlite3.Connection:
    mode = "ro" if readonly else "rw"
    if readonly and not os.access(path.parent, os.W_OK) and not path.with_name(path.name + "-wal").exists():
        mode += "&immutable=1"  # SQLite could not make its -shm file there
    try:
        uri = f"{path.absolute().as_uri()}?mode={mode}"
        return sqlite3.connect(uri, uri=True, timeout=BUSY_TIMEOUT_S, isolation_level=None)
    except sqlite3.Error as error:
        raise _no_place(path, str(error), readonly=readonly) from error
