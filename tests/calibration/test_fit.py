"""Calibration: capacities, the self-test of counters, and the probes' bytes.

Capacities come from miss curves.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from ioaware.calibration.fit import PROFILER_DIRTY_BYTES, calibrate, check_counters, crossing
from ioaware.calibration.probes import Probe, plan
from ioaware.derivation.derive import derive
from ioaware.errors import DataError
from ioaware.targets.target import load_target
from tests.support.ideal_caches import SIZES, counted


def test_ideal_caches_are_found() -> None:
    found = calibrate([counted(probe) for probe in plan(SIZES)], SIZES)
    assert found.partitions == 2
    assert found.l2_shared.capacity_bytes == pytest.approx(30 << 20, rel=0.03)
    assert found.usable_l2_bytes == pytest.approx(60 << 20, rel=0.03)
    assert found.l2_private.capacity_bytes == pytest.approx(46 << 20, rel=0.03)
    assert found.largest_dirty_bytes == 29_000_000 + PROFILER_DIRTY_BYTES
    assert found.l1["l1_reread"] is not None
    assert found.l1["l1_reread"].capacity_bytes == pytest.approx(200 << 10, rel=0.05)


def test_one_partition_where_sharing_costs_no_room() -> None:
    found = calibrate([counted(probe, l2_bytes=46 << 20) for probe in plan(SIZES)], SIZES)
    assert (found.partitions, found.usable_l2_bytes) == (1, found.l2_shared.capacity_bytes)


@pytest.mark.parametrize("kernel", ["copy", "fill", "strided", "matmul"])
def test_a_counter_that_is_off_by_more_than_one_percent_is_refused(kernel: str) -> None:
    every = [counted(probe) for probe in plan(SIZES)]
    check_counters(every)
    at = next(i for i, one in enumerate(every) if one.probe.kernel == kernel)
    field = "requested_write_bytes" if kernel == "fill" else "requested_read_bytes"
    for factor in (0.98, 1.02):
        wrong = replace(every[at], **{field: round(getattr(every[at], field) * factor)})
        with pytest.raises(DataError, match=f"cannot be trusted: {kernel} "):
            calibrate([*every[:at], wrong, *every[at + 1 :]], SIZES)


def test_an_l2_that_never_misses_is_an_error_with_the_curve() -> None:
    with pytest.raises(DataError, match=r"no usable capacity of the L2, read by all SMs: .* 0\.00 at 108\.0 MiB"):
        calibrate([counted(probe, l2_bytes=1 << 40) for probe in plan(SIZES)], SIZES)


def test_the_half_is_interpolated_and_the_range_is_its_uncertainty() -> None:
    found = crossing([(10.0, 0.0), (20.0, 0.0), (30.0, 0.4), (40.0, 0.6), (50.0, 1.0)])
    assert found is not None
    assert found.capacity_bytes == pytest.approx(35.0)
    assert found.spread == pytest.approx((48.75 - 21.25) / 2 / 35)
    assert crossing([(10.0, 0.9), (20.0, 1.0)]) is None
    assert crossing([(10.0, 0.0), (20.0, 0.2)]) is None


@pytest.mark.parametrize("kernel", ["copy", "read", "fill", "add", "strided", "matmul"])
def test_known_bytes_equal_derived_ones(kernel: str) -> None:
    """The self-test of the counters uses these numbers."""
    size = next((probe.size_bytes for probe in plan(SIZES) if probe.kernel == kernel), 0)
    target = load_target(f"tests/support/targets/probe_targets.py:{kernel}")
    params = {} if kernel == "matmul" else {"size_bytes": size}
    found = derive(target, target.resolve(params), machine_code=False)
    assert found.exact
    assert found.requested is not None
    reads, writes = Probe(kernel, size).known_bytes  # type: ignore[arg-type]
    assert found.requested.read_sector_bytes == reads
    if writes is not None:
        assert found.requested.write_bytes == writes


def test_matmul_programs_request_the_bytes_that_time_the_l2() -> None:
    target = load_target("tests/support/targets/probe_targets.py:products")
    found = derive(target, target.resolve({}), machine_code=False)
    assert found.exact
    assert found.requested is not None
    assert found.requested.read_sector_bytes == 1056 * (64 * 64 * 128 * 2 + 64 * 64 * 2)


def test_sizes_of_private_sweeps_are_whole_slices() -> None:
    for probe in plan(SIZES):
        if probe.kernel == "l2_private":
            assert probe.size_bytes % (SIZES.sms << 14) == 0
