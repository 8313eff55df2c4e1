"""Worker processes: deadlines, output floods and crashes.

The GPU lock and the parent watchdog are tested too.
"""

import resource
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from ioaware.errors import MachineError
from ioaware.measurement.gpu_lock import gpu_lease
from ioaware.measurement.parent_watchdog import hold_parent_lock
from ioaware.measurement.subprocesses import TAIL_BYTES, run_process

PYTHON = [sys.executable, "-SE", "-c"]


def is_alive(pid: int) -> bool:
    """Return whether a process runs. A zombie does not."""
    try:
        return (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def gone_within(pid: int, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while is_alive(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    return not is_alive(pid)


def test_output_and_exit_code() -> None:
    finished = run_process([*PYTHON, "import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)"], timeout_s=20)
    assert (finished.returncode, finished.timed_out, finished.stdout, finished.stderr) == (3, False, "out\n", "err\n")
    assert finished.how == "ended with exit code 3"


def test_standard_input_is_closed() -> None:
    assert run_process([*PYTHON, "import sys; print(repr(sys.stdin.read()))"], timeout_s=20).stdout == "''\n"


def test_a_crash_is_named() -> None:
    finished = run_process([*PYTHON, "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"], timeout_s=20)
    assert finished.how == "was killed by SIGSEGV"


def test_a_hang_ends_with_its_children() -> None:
    code = "import os, sys, time; pid = os.fork(); print(pid or os.getpid(), flush=True); time.sleep(60)"
    start = time.monotonic()
    finished = run_process([*PYTHON, code], timeout_s=0.5)
    assert finished.timed_out
    assert finished.how == "did not end within its time and was killed"
    assert time.monotonic() - start < 4
    assert all(gone_within(int(pid), 2) for pid in finished.stdout.split())


def test_a_process_that_ignores_sigterm_is_killed() -> None:
    code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('ready', flush=True); time.sleep(60)"
    start = time.monotonic()
    finished = run_process([*PYTHON, code], timeout_s=0.5)
    assert finished.returncode == -signal.SIGKILL
    assert time.monotonic() - start < 5


def test_a_child_that_outlives_its_parent_is_killed_at_once() -> None:
    start = time.monotonic()
    code = "import os, time\npid = os.fork()\nif pid: print(pid, flush=True)\nelse: time.sleep(60)"
    finished = run_process([*PYTHON, code], timeout_s=20)
    assert finished.returncode == 0
    assert time.monotonic() - start < 5
    assert gone_within(int(finished.stdout), 2)


def test_a_flood_of_output_is_drained_without_memory() -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    code = "import os\nblock = b'x' * 2**20\nfor _ in range(500): os.write(1, block)\nos.write(1, b'end')"
    finished = run_process([*PYTHON, code], timeout_s=60)
    assert finished.returncode == 0
    assert len(finished.stdout) == TAIL_BYTES
    assert finished.stdout.endswith("xxxend")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20 * 1024  # KiB


def test_paused_time_does_not_count() -> None:
    start = time.monotonic()
    finished = run_process([*PYTHON, "import time; time.sleep(1)"], timeout_s=0.4, paused=lambda: time.monotonic() - start < 2)
    assert not finished.timed_out


def test_a_missing_program_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        run_process([str(tmp_path / "absent")], timeout_s=1)


HOLD = """
import fcntl, os, sys, time
fcntl.flock(os.open(sys.argv[1], os.O_RDONLY), fcntl.LOCK_EX)
print("held", flush=True)
time.sleep(60)
"""


def test_the_gpu_lock_is_exclusive_and_times_out(tmp_path: Path) -> None:
    waiting = tmp_path / "waiting"
    now, seen = [0.0], []

    def sleep(seconds: float) -> None:
        seen.append(waiting.exists())
        now[0] += seconds

    with (
        gpu_lease("GPU-1", timeout_s=1, directory=tmp_path),
        pytest.raises(MachineError, match="has held GPU-1 for 1 s"),
        ExitStack() as stack,
    ):
        stack.enter_context(
            gpu_lease("GPU-1", timeout_s=1, waiting=waiting, directory=tmp_path, clock=lambda: now[0], sleep=sleep)
        )
    assert all(seen)
    assert len(seen) == pytest.approx(20, abs=1)
    assert not waiting.exists()
    with gpu_lease("GPU-1", timeout_s=0, directory=tmp_path):
        pass


def test_another_gpu_has_another_lock(tmp_path: Path) -> None:
    with gpu_lease("GPU-1", timeout_s=0, directory=tmp_path), gpu_lease("GPU-2/../x", timeout_s=0, directory=tmp_path):
        assert sorted(path.name for path in tmp_path.iterdir()) == ["ioaware-GPU-1.lock", "ioaware-GPU-2____x.lock"]


def test_a_killed_process_releases_the_lock(tmp_path: Path) -> None:
    with gpu_lease("GPU-1", timeout_s=0, directory=tmp_path):
        pass
    with subprocess.Popen([*PYTHON, HOLD, str(tmp_path / "ioaware-GPU-1.lock")], stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        waits = 0

        def sleep(seconds: float) -> None:
            nonlocal waits
            waits += 1
            holder.kill()
            time.sleep(seconds)

        with gpu_lease("GPU-1", timeout_s=10, directory=tmp_path, sleep=sleep):
            assert waits > 0


def test_a_symbolic_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "ioaware-GPU-1.lock").symlink_to(tmp_path / "victim")
    with pytest.raises(MachineError, match="cannot be opened"), gpu_lease("GPU-1", timeout_s=0, directory=tmp_path):
        pass
    assert not (tmp_path / "victim").exists()


FOLLOW = """
import subprocess, sys, time
from pathlib import Path
from ioaware.measurement.parent_watchdog import watch_parent
watch_parent(Path(sys.argv[1]))
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
print(child.pid, flush=True)
time.sleep(60)
"""


def test_a_worker_is_killed_when_its_parent_ends(tmp_path: Path) -> None:
    with hold_parent_lock(tmp_path / "parent_lock"):
        worker = subprocess.Popen(
            [sys.executable, "-c", FOLLOW, tmp_path / "parent_lock"], stdout=subprocess.PIPE, start_new_session=True
        )
        assert worker.stdout is not None
        child = int(worker.stdout.readline())
        time.sleep(0.2)
        assert is_alive(worker.pid)
        assert is_alive(child)
    assert worker.wait(5) == -signal.SIGKILL
    assert gone_within(child, 2)
    worker.stdout.close()
