"""`measure` on a GPU: known bytes are exact, and failures have the right status."""

import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from ioaware.errors import UsageError
from ioaware.measurement.doctor import examine
from ioaware.measurement.measure import Options, measure
from ioaware.prediction import predict
from ioaware.result import Result
from ioaware.result_file import encode
from tests.support import SUPPORT
from tests.support.gpu import NEEDS_GPU

TARGETS = SUPPORT / "targets/measured_targets.py"
CASES = ("standard", "flash1", "flash2")


pytestmark = NEEDS_GPU


def measure_target(target: str, *, options: Options | None = None, **params: Any) -> Result:
    """Measure a case, or one of the targets in measured_targets.py.

    The record is printed for `pytest -s`.
    """
    result = measure(target if target in CASES else f"{TARGETS}:{target}", params, options=options)
    print(encode(result))
    return result


def test_doctor_finds_what_measuring_needs() -> None:
    found = {finding.name: finding for finding in examine()}
    for name in ("GPU", "driver", "ncu", "counters"):
        assert found[name].ok, found[name]


def test_the_bytes_of_a_copy_are_exact() -> None:
    n = 2**26
    result = measure_target("copies", n=n)
    assert result.status == "ok", result.notes
    assert [launch.origin for launch in result.launches] == ["triton", "torch", "triton"]
    assert [launch.kernel for launch in result.launches][::2] == ["copy_kernel", "copy_kernel"]
    assert result.launches[0].grid == (n // 1024, 1, 1)
    assert result.requested is not None
    assert (result.requested.read_bytes, result.requested.write_bytes) == (4 * n, 4 * n)
    assert result.hbm is not None
    assert result.hbm.read_bytes == pytest.approx(4 * n, rel=0.01)
    assert result.extra_memory_bytes == 2 * n  # the intermediate copy; torch's softmax is freed before the output is allocated
    assert result.check is not None
    assert result.check.relative_error == 0.0


def test_time_energy_and_gpm_agree_with_the_bytes() -> None:
    result = measure_target("copies", options=Options(window_s=1.0))
    assert result.timing is not None
    assert result.telemetry is not None
    kernels = sum(launch.time_ns or 0 for launch in result.launches)
    assert result.timing.median_ns == pytest.approx(kernels, rel=0.3)
    window_ns = result.telemetry["window"]["ns_per_call"]
    assert window_ns > 0.7 * kernels  # a slow host leaves the GPU idle between launches
    assert 0 < result.telemetry["energy_per_call_mj"] < 1000
    gpm = result.telemetry.get("gpm")
    if gpm is not None:
        busy_ns = window_ns * gpm["sm_activity"]
        assert busy_ns == pytest.approx(kernels, rel=0.3)
        moved = sum((launch.hbm.total_bytes or 0) for launch in result.launches if launch.hbm)
        assert gpm["hbm_bytes_per_s_corrected_by_sm_activity"] == pytest.approx(moved / (busy_ns * 1e-9), rel=0.25)


@pytest.mark.parametrize("case", CASES)
def test_the_cases_match_their_theory(case: str) -> None:
    """Requested reads equal the prediction where nothing is reused in the L1.

    L1 hits only lower them.
    """
    params = {"batch": 1, "heads": 16, "seq_len": 2048, "head_dim": 64, "block_m": 64, "block_n": 64}
    result, theory = measure_target(case, **params), predict(case, **params)
    assert result.status == "ok", result.notes
    assert result.check is not None
    assert result.check.passed
    assert result.requested is not None
    assert theory.requested is not None
    assert result.compulsory == theory.compulsory
    tolerance = 0.001 if case == "flash2" else 0.12
    assert result.requested.read_bytes == pytest.approx(theory.requested.read_bytes, rel=tolerance)
    assert result.requested.write_bytes == pytest.approx(theory.requested.write_bytes, rel=0.001)
    assert result.extra_memory_bytes == theory.extra_memory_bytes


def test_an_autotuned_kernel_is_one_launch() -> None:
    result = measure_target("tuned")
    assert [(launch.kernel, launch.origin) for launch in result.launches] == [("tuned_kernel", "triton")]
    assert result.requested is not None
    assert result.requested.read_bytes == 4 * 2**24


@pytest.mark.parametrize(("target", "why"), [("unwritten", "the output is wrong"), ("in_place", "changes its input 0")])
def test_wrong_outputs_have_no_numbers(target: str, why: str) -> None:
    result = measure_target(target)
    assert result.status == "failed"
    assert why in result.notes[0]
    assert (result.requested, result.hbm, result.time_ns) == (None, None, None)


@pytest.mark.parametrize(
    ("target", "why"),
    [
        ("out_of_memory", "OutOfMemoryError"),
        ("illegal_address", "illegal memory access"),
        ("exits", "without a report"),
    ],
)
def test_works_that_crash_are_failed_points(target: str, why: str) -> None:
    result = measure_target(target, options=Options(timeout_s=60))
    assert result.status == "failed"
    assert why in result.notes[0]
    assert measure_target("tuned", n=2**20).status in ("ok", "throttled")  # the next point is not affected


def test_a_hang_ends_in_time_with_its_place() -> None:
    start = time.monotonic()
    result = measure_target("hangs", options=Options(timeout_s=5, counters="off"))
    assert time.monotonic() - start < 60
    assert result.status == "failed"
    assert "measured_targets.py" in result.notes[0] or "killed" in result.notes[0]


def test_concurrent_measurements_do_not_overlap() -> None:
    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(lambda _: measure_target("copies", options=Options(counters="off")), range(2)))
    for result in results:
        assert not any("other process" in note for note in result.notes)


def test_without_counters_time_is_still_measured() -> None:
    result = measure_target("copies", options=Options(counters="off"))
    assert result.requested is None
    assert result.time_ns is not None
    assert result.launches[0].registers is not None


def test_a_record_names_no_user_host_or_gpu() -> None:
    text = encode(measure_target("flash2", seq_len=512, options=Options(counters="off")))
    for secret in (str(Path.home()), os.uname().nodename, "GPU-"):
        assert len(secret) < 4 or secret not in text


def test_a_misspelt_parameter_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="seq_length"):
        measure_target("flash2", seq_length=512)
