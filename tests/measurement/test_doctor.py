"""`doctor`: each finding with its remedy, for good and bad machines."""

import time
from pathlib import Path

import pytest

from ioaware.errors import MachineError
from ioaware.measurement.counters.ncu import Ncu
from ioaware.measurement.doctor import Finding, examine, torch_cuda_version
from tests.support.fakes import FIXTURES, FakeNvml, fake_ncu


def absent() -> Ncu:
    raise MachineError("ncu was not found", "Install Nsight Compute.")


def findings(nvml: FakeNvml, ncu: Ncu | None, params: Path) -> dict[str, Finding]:
    found = examine(nvml=lambda: nvml, ncu=absent if ncu is None else lambda: ncu, environ={}, driver_params=params)
    assert len({finding.name for finding in found}) == len(found)
    return {finding.name: finding for finding in found}


@pytest.fixture
def params(tmp_path: Path) -> Path:
    path = tmp_path / "params"
    path.write_text("RmProfilingAdminOnly: 1\n")
    return path


def test_a_machine_that_can_do_everything(tmp_path: Path, params: Path) -> None:
    params.write_text("RmProfilingAdminOnly: 0\n")
    ncu = Ncu(fake_ncu(tmp_path, log=FIXTURES / "h200_two_launches.csv", runs=False), (2025, 3, 1))
    found = findings(FakeNvml(), ncu, params)
    for name in (
        "python",
        "torch",
        "triton",
        "GPU",
        "driver",
        "HBM peak",
        "MIG",
        "GPM",
        "energy counter",
        "other processes",
        "ncu",
        "counters",
    ):
        assert found[name].ok, found[name]
    assert found["GPU"].detail == "NVIDIA H200"
    assert found["HBM peak"].detail == "4.81 TB/s"
    assert found["counters"].detail == "readable: one kernel was profiled; the driver's setting allows all users"


def test_forbidden_counters_come_with_the_remedies(tmp_path: Path, params: Path) -> None:
    ncu = Ncu(fake_ncu(tmp_path, log=FIXTURES / "permission.log", runs=False), (2025, 3, 1))
    counters = findings(FakeNvml(), ncu, params)["counters"]
    assert counters.ok is False
    assert "ERR_NVGPUCTRPERM" in counters.detail
    assert "administrators only" in counters.detail
    assert "NVreg_RestrictProfilingToAdminUsers=0" in counters.remedy


def test_without_a_gpu_nothing_is_probed_and_it_is_fast(params: Path) -> None:
    start = time.monotonic()
    found = findings(FakeNvml(count=0), None, params)
    assert time.monotonic() - start < 3
    assert found["GPU"].ok is False
    assert "ioaware predict" in found["GPU"].remedy
    assert found["ncu"].ok is False
    assert found["counters"].ok is None
    assert "not tried without a GPU" in found["counters"].detail


def test_a_gpu_without_ncu(params: Path) -> None:
    found = findings(FakeNvml(), None, params)
    assert found["GPU"].ok
    assert "not tried without ncu" in found["counters"].detail


def test_causes_of_unstable_points_are_findings(params: Path) -> None:
    found = findings(
        FakeNvml(mig=1, processes=lambda: (7, 8), gpm=None, missing=("nvmlDeviceGetTotalEnergyConsumption",)), None, params
    )
    assert found["MIG"].ok is False
    assert (found["other processes"].ok, found["other processes"].detail) == (False, "2 computing on this GPU")
    assert found["GPM"].ok is None
    assert found["energy counter"].ok is None
    assert all(finding.remedy for finding in found.values() if finding.ok is False)


def test_doctor_on_this_machine_never_raises() -> None:
    names = [finding.name for finding in examine()]
    assert names[:3] == ["python", "torch", "triton"]
    assert {"GPU", "ncu", "counters", "resvg_py", "msgspec", "pyarrow"} <= set(names)


@pytest.mark.parametrize(
    ("line", "version"),
    [("cuda: Optional[str] = '13.0'", "13.0"), ("cuda = '12.8'", "12.8"), ("cuda: Optional[str] = None", None), ("", None)],
)
def test_torchs_cuda_version_is_read_without_import(tmp_path: Path, line: str, version: str | None) -> None:
    (tmp_path / "version.py").write_text(f"__version__ = '2.11.0'\n{line}\nhip: Optional[str] = None\n")
    assert torch_cuda_version(tmp_path) == version
    assert torch_cuda_version(tmp_path / "absent") is None
