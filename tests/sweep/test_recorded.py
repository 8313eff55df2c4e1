"""The shipped records are complete, with provenance.

They equal predictions or derived bytes.
"""

from __future__ import annotations

from collections import Counter
from importlib.resources import files

import pytest

from ioaware.analysis.theory.claims.hardware import l1_savings_bytes, matches_algorithm
from ioaware.cases import CASES
from ioaware.derivation.derive import derive
from ioaware.report.kernel_points import pairs
from ioaware.result import BYTES_HOLD, Result
from ioaware.sweep.claim_evidence import observe, recorded, recorded_measurements
from ioaware.targets.target import load_target

EVERYTHING = recorded_measurements()
RECORDED = [record for record in EVERYTHING if record.target in CASES]
HOPPER = "ioaware.kernels.attention.targets:hopper"
PROVENANCE = {"gpu", "driver", "cuda", "torch", "triton", "ncu", "python", "ioaware", "commit", "max_sm_clock_mhz"}


def test_the_studies_are_whole() -> None:
    lengths = {(r.target, r.params["seq_len"], r.params["head_dim"], r.params["causal"]) for r in RECORDED}
    assert lengths >= {
        (target, 2**power, d, causal)
        for target in ("standard", "flash1", "flash2")
        for power in range(9, 17)
        for d in (64, 128)
        for causal in (False, True)
    }
    assert len(RECORDED) == 116


@pytest.mark.parametrize("record", EVERYTHING, ids=lambda r: f"{r.target}-{r.params['seq_len']}-{r.params['head_dim']}")
def test_every_record_has_provenance_and_a_passed_check(record: Result) -> None:
    assert record.environment is not None
    assert record.environment.keys() >= PROVENANCE
    assert "dirty" not in record.environment["commit"]
    assert record.status in BYTES_HOLD
    assert record.check is not None
    assert record.check.passed
    assert record.telemetry is not None
    assert record.telemetry["before"]["sm_clock_mhz"] > 0


def test_counters_differ_from_the_closed_forms_by_less_than_a_thousandth_of_a_percent() -> None:
    """As the README states, at points without repeated reads from the L1.

    There the kernel reads nothing twice that the L1 holds.
    """
    clear = [seen for seen in map(observe, RECORDED) if matches_algorithm(seen)]
    assert len(clear) == 65
    for seen in clear:
        assert seen.observed.requested is not None
        assert seen.predicted.requested is not None
        for name in ("read_bytes", "write_bytes"):
            measured, predicted = getattr(seen.observed.requested, name), getattr(seen.predicted.requested, name)
            assert abs(measured - predicted) < 1e-5 * predicted, seen.where


@pytest.mark.parametrize("head_dim", [64, 128, 256])
def test_measured_bytes_of_the_hopper_kernel_equal_derived_ones(head_dim: int) -> None:
    """Persistent, warp-specialised, with TMA. It has no closed form.

    At d = 64 its tiles of 192 rows extend beyond N, and TMA loads some rows outside.
    """
    target = load_target(HOPPER)
    record = next(
        r
        for r in EVERYTHING
        if r.target == HOPPER and (r.params["seq_len"], r.params["head_dim"], r.params["causal"]) == (4096, head_dim, False)
    )
    derived = derive(target, target.resolve(dict(record.params)), machine_code=False)
    assert derived.exact
    assert derived.requested is not None
    assert record.requested is not None
    assert record.requested.read_bytes == pytest.approx(derived.requested.read_bytes, rel=1e-3)
    assert record.requested.write_bytes == pytest.approx(derived.requested.write_bytes, rel=1e-3)


def test_sectors_of_the_hopper_kernel_are_derived_for_paired_heads() -> None:
    """Rows are whole sectors, so sector bytes equal requested bytes."""
    target = load_target(HOPPER)
    derived = derive(target, target.resolve({"seq_len": 2048, "heads": 64, "causal": True}), machine_code=False)
    assert derived.requested is not None
    assert derived.requested.read_sector_bytes == derived.requested.read_bytes
    assert derived.requested.write_sector_bytes == derived.requested.write_bytes


def test_the_readme_beside_the_records_lists_every_point_that_the_l1_can_serve() -> None:
    text = (files("ioaware") / "recorded" / "README.md").read_text(encoding="utf-8")
    for seen in map(observe, RECORDED):
        assert seen.observed.requested is not None
        assert seen.predicted.requested is not None
        measured, predicted = seen.observed.requested.read_bytes, seen.predicted.requested.read_bytes
        assert measured is not None
        assert predicted is not None
        mask, values = "causal" if seen.causal else "full", seen.values
        row = f"| {seen.target} | {mask} | {values['d']} | {values['N']:,} | {measured / predicted:.5f} |"
        assert (row in text) == (l1_savings_bytes(seen) > 0), row


def test_measured_bytes_of_the_hopper_kernels_equal_recorded_derived_ones() -> None:
    """An L1 holds some row statistics that backward kernels read again.

    These are the causal backward kernels of d 256.
    """
    seen = [
        pair for pair in pairs(recorded()) if pair.derived is not None and pair.name in ("hopper", "decode", "hopper_backward")
    ]
    assert Counter(pair.name for pair in seen) == {"hopper": 24, "hopper_backward": 22, "decode": 6}
    for pair in seen:
        assert pair.read_ratio is not None
        assert pair.write_ratio is not None
        served = pair.name == "hopper" or (pair.params["head_dim"], pair.params["causal"]) == (256, True)
        bound = 2e-5 if pair.name == "hopper_backward" and pair.params["heads"] == 256 else 1e-5  # README: 0.008 % of a kernel
        assert abs(pair.read_ratio - 1) < (0.005 if served else bound), pair.params
        assert abs(pair.write_ratio - 1) < (1e-4 if pair.name == "hopper" else 1e-5), pair.params


def test_measured_bytes_of_the_portable_kernels_equal_derived_ones() -> None:
    """Spilled registers are written and are not in the IR.

    An L1 holds rows of L and D.
    """
    seen = [pair for pair in pairs(recorded()) if pair.name in ("portable", "portable_backward")]
    assert Counter(pair.name for pair in seen) == {"portable": 6, "portable_backward": 6}
    spilling = 0
    for pair in seen:
        assert pair.derived is not None
        for launch, derived in zip(pair.measured.launches, pair.derived.launches, strict=True):
            assert launch.requested is not None
            assert derived.requested is not None
            assert launch.requested.read_bytes == pytest.approx(derived.requested.read_sector_bytes, rel=0.01)
            written, expected = launch.requested.write_bytes, derived.requested.write_sector_bytes
            assert written is not None
            assert expected is not None
            assert written > expected if launch.local_bytes else written == expected
            spilling += bool(launch.local_bytes)
    assert spilling == 3
