"""ncu: found in its usual places, called with the right options.

Each failure is explained.
"""

from pathlib import Path

import pytest

from ioaware.errors import MachineError
from ioaware.measurement.counters.ncu import Ncu, command, counters_refused, counters_restricted, find_ncu, run_failed
from ioaware.measurement.subprocesses import Finished
from tests.support.fakes import FIXTURES, fake_ncu, script

NCU = Ncu(Path("/opt/ncu"), (2025, 3, 1))


def finish(code: int = 0, out: str = "", err: str = "", *, timed_out: bool = False) -> Finished:
    return Finished(code, timed_out, out, err)


def test_found_on_path_with_its_version(tmp_path: Path) -> None:
    path = fake_ncu(tmp_path)
    found = find_ncu({"PATH": str(tmp_path)}, root=tmp_path / "nowhere")
    assert found == Ncu(path.resolve(), (2025, 3, 1))
    assert found.version_text == "2025.3.1"


@pytest.mark.parametrize("place", ["usr/local/cuda-13.0/bin", "opt/nvidia/nsight-compute/2025.3.1"])
def test_found_where_toolkits_put_it(tmp_path: Path, place: str) -> None:
    (tmp_path / place).mkdir(parents=True)
    fake_ncu(tmp_path / place)
    assert find_ncu({"PATH": ""}, root=tmp_path).path == (tmp_path / place / "ncu").resolve()


def test_found_in_cuda_home(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    fake_ncu(tmp_path / "bin")
    assert (
        find_ncu({"PATH": "", "CUDA_HOME": str(tmp_path)}, root=tmp_path / "nowhere").path.parent
        == (tmp_path / "bin").resolve()
    )


def test_absent(tmp_path: Path) -> None:
    with pytest.raises(MachineError, match="was not found") as error:
        find_ncu({"PATH": ""}, root=tmp_path)
    assert "Install Nsight Compute" in error.value.remedy


def test_too_old(tmp_path: Path) -> None:
    fake_ncu(tmp_path, version="2019.5.0.0")
    with pytest.raises(MachineError, match=r"is version 2019\.5, older than 2022\.3"):
        find_ncu({"PATH": str(tmp_path)}, root=tmp_path)


def test_an_old_ncu_on_path_does_not_hide_a_newer_one(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "usr/local/cuda/bin"
    old.mkdir()
    new.mkdir(parents=True)
    fake_ncu(old, version="2019.5.0.0")
    fake_ncu(new)
    assert find_ncu({"PATH": str(old)}, root=tmp_path).path.parent == new.resolve()


def test_an_ncu_that_hangs_or_fails_to_start(tmp_path: Path) -> None:
    script(tmp_path / "ncu", "import time; time.sleep(60)")
    with pytest.raises(MachineError, match="prints no version"):
        find_ncu({"PATH": str(tmp_path)}, root=tmp_path, timeout_s=0.3)
    (tmp_path / "ncu").write_text("#!/nonexistent/interpreter\n")
    with pytest.raises(MachineError, match="prints no version"):
        find_ncu({"PATH": str(tmp_path)}, root=tmp_path)


def test_command_profiles_one_call_without_touching_clocks() -> None:
    argv = command(NCU, ["dram__bytes_read.sum"], Path("/tmp/x.csv"), ["python", "-m", "worker"])  # noqa: S108
    assert argv[0] == "/opt/ncu"
    assert argv[-3:] == ["python", "-m", "worker"]
    text = " ".join(argv)
    for part in (
        "--csv --page raw",
        "--print-units base",
        "--clock-control none",
        "--cache-control all",
        "--profile-from-start off",
        "--nvtx",
    ):
        assert part in text
    assert "sudo" not in text


@pytest.mark.parametrize("name", ["--import", "; rm", "$(x)", "-o/etc/x", "a b", "a\nb", ""])
def test_an_invalid_metric_name_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="not the name of a metric"):
        command(NCU, [name], Path("x"), [])


def test_permission_denied_names_three_remedies_and_the_risk() -> None:
    error = counters_refused(finish(), (FIXTURES / "permission.log").read_text())
    assert error is not None
    assert error.exit_code == 5
    for word in ("NVreg_RestrictProfilingToAdminUsers=0", "--cap-add=SYS_ADMIN", "CAP_SYS_ADMIN", "CVE-2018-6260"):
        assert word in error.remedy
    assert "sudo" not in str(error)


@pytest.mark.parametrize(
    ("message", "what"),
    [
        ("==ERROR== Failed to initialize the profiler: LibraryNotLoaded", "cannot profile on this machine"),
        ("==ERROR== Profiling failed because a driver resource was unavailable.", "another profiler"),
        ("==ERROR== Failed to open /tmp/nsight-compute-lock", "lock file"),
        ("==ERROR== Failed to find metric nonexistent__metric.sum", "does not know one of the counters"),
    ],
)
def test_other_refusals(message: str, what: str) -> None:
    for finished, log in ((finish(err=message), ""), (finish(out=message), ""), (finish(), message)):
        error = counters_refused(finished, log)
        assert error is not None
        assert what in error.what
        assert error.remedy


def test_real_logs_of_good_runs_are_not_refusals() -> None:
    good = (FIXTURES / "h200_two_launches.csv").read_text()
    assert counters_refused(finish(), good) is None
    assert run_failed(finish(), good) is None


@pytest.mark.parametrize(
    ("finished", "log", "what"),
    [
        (finish(), (FIXTURES / "no_kernels.csv").read_text(), "profiled no kernel"),
        (
            finish(3),
            (FIXTURES / "program_failed.csv").read_text(),
            r"exit code 3: The application returned an error code \(3\)",
        ),
        (finish(-9, timed_out=True), "", "did not end within its time"),
        (finish(-11), "", "killed by SIGSEGV"),
    ],
)
def test_failed_runs(finished: Finished, log: str, what: str) -> None:
    error = run_failed(finished, log)
    assert error is not None
    with pytest.raises(MachineError, match=what):
        raise error


@pytest.mark.parametrize(
    ("text", "restricted"), [("RmProfilingAdminOnly: 1\n", True), ("A: 2\nRmProfilingAdminOnly: 0\n", False), ("", None)]
)
def test_counter_restriction_of_the_driver(tmp_path: Path, text: str, restricted: bool | None) -> None:
    (tmp_path / "params").write_text(text)
    assert counters_restricted(tmp_path / "params") is restricted
    assert counters_restricted(tmp_path / "absent") is None
