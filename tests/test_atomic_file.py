"""Files appear whole: a failure leaves the old one, a link stays a link, a pipe or device is written and not replaced."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from ioaware._atomic_file import atomic_write


def test_the_file_appears_when_the_block_is_done(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    with atomic_write(path) as place:
        place.write_text("new")
        assert not path.exists()
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


def test_a_failure_leaves_the_old_file_and_no_half_one(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")
    with pytest.raises(UnicodeEncodeError), atomic_write(path) as place:
        place.write_text("n\ud800", encoding="utf-8")  # half a character: the file is open by then
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
        assert place == pipe  # before it is opened: a rename would leave the reader waiting
        place.write_text("through")
    reader.join(10)
    assert read == ["through"]
    assert pipe.is_fifo()
    assert list(tmp_path.iterdir()) == [pipe]


def test_a_directory_is_refused_and_left_alone(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError), atomic_write(tmp_path) as place:
        place.write_text("no")
    assert list(tmp_path.iterdir()) == []
    assert not tmp_path.with_name(tmp_path.name + ".partial").exists()
