"""Atomic writes: a failure leaves the old file, and links stay links.

Pipes are written in place.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from ioaware._atomic_file import append_line, atomic_write, check_writable, make_directory, new_directory
from ioaware.errors import WriteError


def test_the_file_appears_when_the_block_is_done(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    with atomic_write(path) as place:
        place.write_text("new")
        assert not path.exists()
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


def test_a_failure_leaves_the_old_file_and_no_partial_one(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")
    with pytest.raises(UnicodeEncodeError), atomic_write(path) as place:
        place.write_text("n\ud800", encoding="utf-8")  # a lone surrogate fails after the file is open
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_stays_and_its_target_is_replaced(tmp_path: Path) -> None:
    target, link = tmp_path / "kept" / "a.txt", tmp_path / "link.txt"
    target.parent.mkdir()
    link.symlink_to(target)
    for text in ("made", "replaced"):
        with atomic_write(link) as place:
            place.write_text(text)
        assert link.is_symlink()
        assert target.read_text() == text


def test_a_pipe_is_written_and_still_a_pipe(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()), daemon=True)
    reader.start()
    with atomic_write(pipe) as place:
        assert place == pipe  # the pipe itself, since the reader would wait for a renamed file
        place.write_text("through")
    reader.join(10)
    assert read == ["through"]
    assert pipe.is_fifo()
    assert list(tmp_path.iterdir()) == [pipe]


def test_a_directory_is_refused_and_left_alone(tmp_path: Path) -> None:
    with pytest.raises(WriteError, match="directory"), atomic_write(tmp_path) as place:
        place.write_text("no")
    assert list(tmp_path.iterdir()) == []
    assert not tmp_path.with_name(tmp_path.name + ".partial").exists()


def test_two_writers_do_not_share_a_partial_file(tmp_path: Path) -> None:
    """The file of the writer that ends last is complete."""
    path = tmp_path / "a.txt"
    with atomic_write(path) as first:
        first.write_text("first, and long")
        with atomic_write(path) as second:
            second.write_text("second")
            assert first != second
            assert first.read_text() == "first, and long"
        assert path.read_text() == "second"
    assert path.read_text() == "first, and long"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o755])
def test_the_permissions_of_the_old_file_stay(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "a.txt"
    path.write_text("secret")
    path.chmod(mode)
    with atomic_write(path) as place:
        assert place.stat().st_mode & 0o777 == mode, "the partial file has the same permissions"
        place.write_text("secret, too")
    assert path.stat().st_mode & 0o777 == mode


def test_a_new_file_has_the_permissions_of_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        with atomic_write(tmp_path / "a.txt") as place:
            place.write_text("x")
    finally:
        os.umask(before)
    assert (tmp_path / "a.txt").stat().st_mode & 0o777 == 0o640


def test_the_longest_name_that_a_file_can_have(tmp_path: Path) -> None:
    path = tmp_path / ("a" * 255)
    with atomic_write(path) as place:
        place.write_text("x")
    assert path.read_text() == "x"


def test_check_writable_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    check_writable(path)
    assert list(tmp_path.iterdir()) == []
    path.write_text("old")
    check_writable(path)
    check_writable(Path(os.devnull))
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_check_writable_refuses_impossible_paths(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for path in (tmp_path, tmp_path / "none" / "a.txt", tmp_path / "file" / "a.txt", tmp_path / ("a" * 300)):
        with pytest.raises(WriteError, match="cannot be written"):
            check_writable(path)
    with pytest.raises(WriteError, match="cannot be written"):
        make_directory(tmp_path / "file" / "directory")
    make_directory(tmp_path / "new" / "directory")
    assert list((tmp_path / "new" / "directory").iterdir()) == []


def test_lines_are_appended(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    append_line(path, "one")
    append_line(path, "two")
    assert path.read_text() == "one\ntwo\n"
    with pytest.raises(WriteError, match="cannot be written"):
        append_line(tmp_path, "one")


def test_a_failing_block_leaves_no_directory_that_it_made(tmp_path: Path) -> None:
    with pytest.raises(KeyError), new_directory(tmp_path / "a" / "b"):
        raise KeyError
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "old").mkdir()
    with pytest.raises(KeyError), new_directory(tmp_path / "old"):
        raise KeyError
    with new_directory(tmp_path / "new"):
        pass
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new", "old"]
