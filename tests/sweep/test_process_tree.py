"""Processes of a point are identified by their mark.

Those of other points are not included.
"""

from __future__ import annotations

import os
import signal
import subprocess

import pytest

from ioaware.sweep.process_tree import MARK, kill_marked


@pytest.mark.parametrize(("mark", "killed"), [("9.1", {"9.1"}), ("9.", {"9.1", "9.10", "9.2"}), ("9.3", set())])
def test_a_mark_kills_its_own_processes(mark: str, killed: set[str]) -> None:
    """Job 1 is not job 10, and server 9 is not server 99.

    A mark that ends in a dot is of a whole server.
    """
    name = f"test-{os.getpid()}-"
    marks = ("9.1", "9.10", "9.2", "99.1")
    children = {each: subprocess.Popen(["sleep", "60"], env={MARK: name + each}, start_new_session=True) for each in marks}
    try:
        kill_marked(name + mark)
        ended: set[str] = set()
        for each, child in children.items():
            try:
                child.wait(1.0 if each in killed else 0.2)
                ended.add(each)
                assert child.returncode == -signal.SIGKILL
            except subprocess.TimeoutExpired:
                continue
        assert ended == killed
    finally:
        for child in children.values():
            child.kill()
            child.wait()
