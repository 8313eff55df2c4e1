"""The store: saved records are there, and other files are refused.

Many processes may write.
"""

from __future__ import annotations

import os
import random
import resource
import shutil
import sqlite3
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from ioaware.errors import DataError, UsageError, WriteError
from ioaware.result import Launch, Result, Status, Traffic
from ioaware.result_file import encode
from ioaware.sweep.points import Point, make_point
from ioaware.sweep.store import Store, _create  # pyright: ignore[reportPrivateUsage]
from tests.support import SUPPORT

HERE = SUPPORT / "sweep"


def a_point(seq_len: int = 512, source: str = "predict") -> Point:
    return make_point(source, "flash2", {"seq_len": seq_len})  # type: ignore[arg-type]


def a_result(point: Point, status: Status = "ok", read_bytes: int = 64) -> Result:
    return Result(point.source, point.target, point.params, requested=Traffic(read_bytes, 32), status=status)


@pytest.fixture
def filled(tmp_path: Path) -> Path:
    """Return a store of fifty points."""
    path = tmp_path / "filled.db"
    with Store(path) as store:
        for seq_len in range(1, 51):
            store.add(a_point(seq_len), a_result(a_point(seq_len)))
    return path


def test_saved_records_are_found(tmp_path: Path) -> None:
    point, other = a_point(), a_point(1024, "trace")
    with Store(tmp_path / "s.db") as store:
        assert store.status(point) is None
        store.add(other, a_result(other))
        store.add(point, a_result(point))
        assert store.status(point) == "ok"
    with Store(tmp_path / "s.db", readonly=True) as store:
        assert store.results() == [a_result(point), a_result(other)]
        assert store.results([other]) == [a_result(other)]
        assert store.results([other, point]) == [a_result(other), a_result(point)]


def test_measurements_belong_to_their_machine(tmp_path: Path) -> None:
    point = a_point(source="measure")
    with Store(tmp_path / "s.db") as store:
        store.add(point, a_result(point, read_bytes=1), machine="NVIDIA H200")
        assert store.status(point, machine="NVIDIA B200") is None
        store.add(point, a_result(point, read_bytes=2), machine="NVIDIA B200")
        assert len(store.results([point])) == 2


@pytest.mark.parametrize(
    ("first", "second", "kept"),
    [
        ("failed", "ok", "ok"),
        ("ok", "failed", "ok"),
        ("ok", "ok", "ok"),
        ("unstable", "ok", "ok"),
        ("unstable", "throttled", "throttled"),
        ("throttled", "unstable", "throttled"),
        ("unstable", "failed", "unstable"),
        ("failed", "unstable", "unstable"),
    ],
)
def test_a_better_record_replaces_a_worse_one_only(tmp_path: Path, first: Status, second: Status, kept: Status) -> None:
    point = a_point()
    with Store(tmp_path / "s.db") as store:
        store.add(point, a_result(point, first, read_bytes=1))
        store.add(point, a_result(point, second, read_bytes=2))
        (result,) = store.results()
    assert result.status == kept
    if first == second == "ok":
        assert result.requested == Traffic(1, 32)


def test_records_are_durable_when_save_returns(tmp_path: Path) -> None:
    with Store(tmp_path / "s.db") as store:
        connection = store._connection  # pyright: ignore[reportPrivateUsage]
        modes = [connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("journal_mode", "synchronous")]
    assert modes == ["wal", 2]


def test_records_saved_together_are_all_there_or_none(tmp_path: Path) -> None:
    points = [a_point(seq_len) for seq_len in range(1, 201)]
    records: list[tuple[Point, str, Status, str]] = [(point, encode(a_result(point)), "ok", "") for point in points]
    with Store(tmp_path / "s.db") as store, Store(tmp_path / "s.db", readonly=True) as other:
        connection = store._connection  # pyright: ignore[reportPrivateUsage]
        connection.execute("PRAGMA max_page_count = 12")  # room for some of them
        with pytest.raises(WriteError, match="full"):
            store.save_all(records)
        assert other.results() == []
        connection.execute("PRAGMA max_page_count = 10000")
        store.save_all(records)
        assert [other.status(point) for point in points] == ["ok"] * 200


def test_eight_writers_lose_nothing(tmp_path: Path) -> None:
    """The writers create the store concurrently, too."""
    path = tmp_path / "s.db"
    writers = [
        subprocess.Popen(
            [sys.executable, HERE / "writing.py", path, str(index), "2"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        for index in range(8)
    ]
    outputs = [writer.communicate(timeout=60) for writer in writers]
    assert [error for _, error in outputs] == [b""] * 8
    counts = [int(out) for out, _ in outputs]
    assert min(counts) > 0
    with Store(path) as store:
        assert len(store.results()) == sum(counts)
    assert list(tmp_path.iterdir()) == [path]


def test_an_interrupted_save_leaves_nothing_and_no_lock(filled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C between BEGIN and COMMIT."""

    def interrupt(row: object) -> str:
        raise KeyboardInterrupt

    point = a_point(51)
    with Store(filled) as store, Store(filled) as other:
        with monkeypatch.context() as patch:
            patch.setattr("ioaware.sweep.store._digest", interrupt)
            with pytest.raises(KeyboardInterrupt):
                store.add(point, a_result(point))
        other._connection.execute("PRAGMA busy_timeout = 0")  # pyright: ignore[reportPrivateUsage]
        other.add(point, a_result(point))
        assert len(store.results()) == 51


def test_the_process_that_creates_second_keeps_the_first_store(filled: Path) -> None:
    before = filled.read_bytes()
    _create(filled)  # what a process does that saw no file yet
    assert filled.read_bytes() == before
    assert list(filled.parent.iterdir()) == [filled]


def test_the_tuning_of_any_machine_is_found(tmp_path: Path) -> None:
    point = a_point(source="measure")
    with Store(tmp_path / "s.db") as store:
        assert store.tuning(point) == {}
        for machine, configuration in (("A", {"BLOCK": 32}), ("B", {"BLOCK": 64}), ("C", None)):
            launch = Launch("k", (1, 1, 1), configuration=configuration)
            store.add(point, replace(a_result(point), launches=(launch,)), machine=machine)
        assert store.tuning(point) == {"k:BLOCK": 64}


def test_places_where_no_store_can_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "missing" / "s.db", tmp_path / "file" / "s.db", tmp_path / "pipe", Path("/proc/s.db")):
        with pytest.raises(WriteError, match="cannot be written"):
            Store(path)
    with pytest.raises(UsageError, match="cannot be opened"):
        Store(tmp_path / "none.db", readonly=True)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["file", "pipe"]


def test_a_path_longer_than_sqlite_opens_is_an_error(tmp_path: Path, filled: Path) -> None:
    """SQLite opens paths of at most 512 characters, Python longer ones."""
    folder = tmp_path.joinpath(*["a" * 120] * 5)
    folder.mkdir(parents=True)
    with pytest.raises(WriteError, match="cannot be written"):
        Store(folder / "s.db")
    shutil.copy(filled, folder)
    with pytest.raises(UsageError, match="cannot be opened"):
        Store(folder / filled.name, readonly=True)
    assert [entry.name for entry in folder.iterdir()] == [filled.name]


def test_a_store_in_a_folder_that_cannot_be_written_is_read_without_other_files(
    filled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a read-only file system, whose stores have no -shm file."""

    def refuse(path: Path, mode: int) -> bool:
        return False

    monkeypatch.setattr("ioaware.sweep.store.os.access", refuse)  # root may write anywhere
    with Store(filled, readonly=True) as store:
        assert len(store.results()) == 50
        assert list(filled.parent.iterdir()) == [filled]


def test_a_store_that_is_only_read_is_not_changed(filled: Path) -> None:
    point = a_point(51)
    with Store(filled, readonly=True) as store:
        with pytest.raises(UsageError, match="cannot be opened"):
            store.add(point, a_result(point))
        assert len(store.results()) == 50


def test_a_file_larger_than_a_store_is_refused(filled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    size = filled.stat().st_size
    monkeypatch.setattr("ioaware.sweep.store.MAX_STORE_BYTES", size - 1)
    with pytest.raises(DataError, match=f"{size} bytes, more than the {size - 1} of a store"):
        Store(filled)


def test_a_closed_store_does_not_look_damaged(filled: Path) -> None:
    store = Store(filled)
    store.close()
    with pytest.raises(sqlite3.ProgrammingError):
        store.results()


def test_other_files_are_refused_and_unchanged(tmp_path: Path, filled: Path) -> None:
    (tmp_path / "empty").touch()
    (tmp_path / "text").write_text("no database\n" * 50)
    connection = sqlite3.connect(tmp_path / "foreign")
    connection.execute("CREATE TABLE points (x)")
    connection.close()
    for name, version, message in (("newer", 2, "Update ioaware"), ("older", 0, "version that wrote it")):
        shutil.copy(filled, tmp_path / name)
        connection = sqlite3.connect(tmp_path / name)
        connection.execute(f"PRAGMA user_version = {version}")
        connection.close()
        with pytest.raises(DataError, match=message):
            Store(tmp_path / name)
    for name in ("empty", "text", "foreign"):
        before = (tmp_path / name).read_bytes()
        with pytest.raises(DataError) as caught:
            Store(tmp_path / name)
        assert caught.value.exit_code == 6
        assert (tmp_path / name).read_bytes() == before


def test_a_store_with_other_objects_is_refused(filled: Path) -> None:
    connection = sqlite3.connect(filled)
    connection.execute("CREATE TRIGGER t AFTER INSERT ON points BEGIN DELETE FROM points; END")
    connection.close()
    with pytest.raises(DataError, match="its tables are not a store's"):
        Store(filled)


def test_damaged_stores_are_refused_or_give_the_saved_records(tmp_path: Path, filled: Path) -> None:
    sound = filled.read_bytes()
    expected = {encode(a_result(a_point(seq_len))) for seq_len in range(1, 51)}
    rng = random.Random(0)
    mutants = [sound[: len(sound) * k // 40] for k in range(40)]
    for _ in range(120):
        damaged = bytearray(sound)
        for _ in range(rng.randrange(1, 20)):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        mutants.append(bytes(damaged))
    refused = 0
    for number, mutant in enumerate(mutants):
        path = tmp_path / f"{number}.db"
        path.write_bytes(mutant)
        try:
            with Store(path, readonly=number % 2 == 0) as store:
                assert {encode(result) for result in store.results()} == expected
        except DataError:
            refused += 1
    assert refused > 100


def test_a_flipped_digit_is_detected(filled: Path) -> None:
    sound = filled.read_bytes()
    filled.write_bytes(sound.replace(b'"read_bytes":64', b'"read_bytes":65', 1))
    with Store(filled) as store, pytest.raises(DataError, match="is not what was saved"):
        store.results()


@pytest.mark.parametrize(
    "change", ["status = 'ok'", "record = replace(record, ':64', ':65')", "source = 'trace'", "digest = 'x'"]
)
def test_a_row_that_was_changed_has_no_status(tmp_path: Path, change: str) -> None:
    """Changed by another SQLite client. A sweep must not count it as done."""
    point = a_point()
    with Store(tmp_path / "s.db") as store:
        store.add(point, a_result(point, "unstable"))
        assert store.status(point) == "unstable"
        with sqlite3.connect(tmp_path / "s.db") as connection:
            connection.execute(f"UPDATE points SET {change}")  # noqa: S608 - of this file
        for read in (lambda: store.status(point), store.results):
            with pytest.raises(DataError, match="is not what was saved"):
                read()


def test_a_functions_record_may_have_defaults_that_its_point_does_not_know(tmp_path: Path) -> None:
    """A study names some parameters of a function; the worker resolves the others."""
    point = make_point("measure", "package.module:function", {"seq_len": 512})
    found = Result("measure", point.target, {"seq_len": 512, "causal": False})
    with Store(tmp_path / "s.db") as store:
        store.add(point, found)
        assert store.results() == [found]
        store.discard(point)
        store.add(point, replace(found, params={"seq_len": 1024, "causal": False}))
        with pytest.raises(DataError, match="is not what was saved"):
            store.results()


def test_a_record_of_another_point_is_refused(tmp_path: Path) -> None:
    """Even with the right digest."""
    point, other = a_point(512), a_point(1024)
    with Store(tmp_path / "s.db") as store:
        store.save(point, encode(a_result(other)))
        with pytest.raises(DataError, match="is not what was saved"):
            store.results()


@pytest.mark.parametrize("key", ["", "{}", "7", "[]", '["predict", "flash2"]', '["predict", "flash2", "", [1]]', "[" * 10_000])
def test_a_key_that_names_no_point_is_refused(key: str, tmp_path: Path) -> None:
    """Even with the right digest."""
    point = a_point()
    result = encode(a_result(point))
    with Store(tmp_path / "s.db") as store:
        object.__setattr__(point, "key", key)
        store.save(point, result)
        with pytest.raises(DataError, match="is not what was saved"):
            store.results()


def test_a_record_of_another_status_is_refused(tmp_path: Path) -> None:
    """Even with the right digest."""
    point = a_point()
    with Store(tmp_path / "s.db") as store:
        store.save_all([(point, encode(a_result(point, "failed")), "ok", "")])
        with pytest.raises(DataError, match="is not what was saved"):
            store.results()


def test_a_full_disk_is_an_error_and_loses_nothing(filled: Path) -> None:
    point = a_point(9999)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    with Store(filled) as store:
        store.add(a_point(51), a_result(a_point(51)))
        resource.setrlimit(resource.RLIMIT_FSIZE, (1, before[1]))
        try:
            with pytest.raises(WriteError, match="cannot be written"):
                store.add(point, a_result(point))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        store.add(point, a_result(point))
        assert len(store.results()) == 52


def test_a_full_disk_leaves_nothing_of_a_new_store(tmp_path: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    try:
        with pytest.raises(WriteError, match="cannot be written"):
            Store(tmp_path / "s.db")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert list(tmp_path.iterdir()) == []
