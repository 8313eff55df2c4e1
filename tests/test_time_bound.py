"""Time bounds: the level that binds, and ceilings that are not known.

No bound exceeds the recorded times.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from ioaware.machine.presets import A100, H100, H200
from ioaware.machine.time_bound import TimeBound, peak_dtype, time_bound
from ioaware.simulation.predictions import measured_points


def test_the_longest_level_binds() -> None:
    bound = time_bound(H200, flops=989_000, dtype="float16", requested_bytes=14_270, hbm_read_bytes=4814, hbm_write_bytes=0)
    assert (bound.arithmetic_ns, bound.l2_ns) == (1.0, 1.0)
    assert bound.binds == "arithmetic" or (bound.hbm_ns or 0) > 1
    slow = time_bound(H200, flops=989_000, dtype="float16", requested_bytes=142_700, hbm_read_bytes=0, hbm_write_bytes=0)
    assert (slow.binds, slow.time_ns) == ("L2", pytest.approx(10.0))
    assert slow.to_dict()["binds"] == "L2"


def test_unknown_ceilings_bind_nothing() -> None:
    bound = time_bound(H100, requested_bytes=10**9, hbm_read_bytes=3_350, hbm_write_bytes=0)
    assert (bound.arithmetic_ns, bound.l2_ns, bound.binds) == (None, None, "HBM")
    assert time_bound(A100).binds is None
    assert time_bound(A100).to_dict() == {}


@pytest.mark.parametrize(
    ("types", "dtype", "name"),
    [
        (("f16",), None, "float16"),
        (("f32",), None, "tfloat32"),
        (("f8E4M3FN", "f16"), None, "float8"),
        (("f16", "f64"), None, "float8"),
        ((), "fp16", "float16"),
        ((), "float32", "tfloat32"),
        ((), None, "float8"),
    ],
)
def test_products_take_the_fastest_peak_that_they_may_have(types: tuple[str, ...], dtype: str | None, name: str) -> None:
    assert H200.peaks[peak_dtype(H200, dtype, types) or ""].flops_per_s == H200.peaks[name].flops_per_s
    assert time_bound(H200, flops=10**9, dtype=dtype, matmul_types=types).arithmetic_ns == pytest.approx(
        1e18 / H200.peaks[name].flops_per_s
    )


def test_writes_take_their_own_rate() -> None:
    hbm = replace(H200.level("hbm"), rates={"read": 4e12, "write": 1e12})
    machine = replace(H200, levels=tuple(hbm if one.name == "hbm" else one for one in H200.levels))
    assert time_bound(machine, hbm_read_bytes=4000, hbm_write_bytes=0).hbm_ns == pytest.approx(1.0)
    assert time_bound(machine, hbm_read_bytes=0, hbm_write_bytes=4000).hbm_ns == pytest.approx(4.0)


def test_bounds_add_up_level_by_level() -> None:
    assert TimeBound(1, 2, None) + TimeBound(3, 1, 5) == TimeBound(4, 3, None)


def test_no_recorded_launch_is_faster_than_its_bound() -> None:
    found = 0
    for point in measured_points():
        for launch in point.launches:
            if launch.requested is None or launch.hbm is None or not launch.time_ns:
                continue
            requested = (launch.requested.read_bytes or 0) + (launch.requested.write_bytes or 0)
            reads, writes = launch.hbm.read_bytes, launch.hbm.write_bytes
            bound = time_bound(H200, requested_bytes=requested, hbm_read_bytes=reads, hbm_write_bytes=writes)
            assert bound.time_ns is not None
            assert bound.time_ns <= launch.time_ns, (point.target, launch.kernel, bound)
            found += 1
    assert found > 300
