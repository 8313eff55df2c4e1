"""Theorem 2 on constructed evidence: wrong data change the verdict.

Wrong data are wrong counts, exponents or bounds.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from ioaware.analysis.theory.claims import theorem2
from ioaware.analysis.theory.claims.claim import Claim
from ioaware.analysis.theory.claims.evidence import Evidence, Observation
from ioaware.result import Traffic

Measured = Callable[..., Observation]


def scale_bytes(seen: Observation, reads: float = 1, writes: float = 1) -> Observation:
    was = seen.observed.requested
    assert was is not None
    assert was.read_bytes is not None
    assert was.write_bytes is not None
    requested = Traffic(round(was.read_bytes * reads), round(was.write_bytes * writes))
    return replace(seen, observed=replace(seen.observed, requested=requested))


def parts(claim: Claim, part: str) -> dict[str, str]:
    return {row["says"]: row["verdict"] for row in claim.evidence["parts"] if row["part"] == part}


def campaign(measured: Measured) -> Iterator[Observation]:
    """Yield measurements with N, head_dim and blocks varied."""
    for target in ("standard", "flash1", "flash2"):
        for seq_len in (4096, 8192, 16384):
            for head_dim in (64, 128):
                for block in (32, 64, 128):
                    yield measured(target, seq_len=seq_len, head_dim=head_dim, block_m=block, block_n=block, batch=2, heads=4)


def test_exact_agreement_holds(evidence: Evidence):
    claim = theorem2.judge(evidence)
    assert claim.verdict == "holds"
    assert "M = Omega(d^2)" in claim.statement
    json.dumps(claim.to_dict(), allow_nan=False)
    assert {row["part"] for row in claim.evidence["parts"]} == {"a", "c", "d", "e"}


def test_no_evidence_is_inconclusive():
    assert theorem2.judge(Evidence()).verdict == "inconclusive"


def test_one_missing_run_is_inconclusive(evidence: Evidence):
    dropped = next(need for need in evidence.answers if need.target == "flash2")
    left = Evidence({need: seen for need, seen in evidence.answers.items() if need != dropped})
    assert theorem2.judge(left).verdict == "inconclusive"


@pytest.mark.parametrize("change", [{"reads": 1.5}, {"writes": 0.5}, {"reads": 1.0001}])
def test_other_bytes_than_counted_fail(altered: Callable[..., Evidence], change: dict[str, float]):
    claim = theorem2.judge(altered("flash1", lambda seen: scale_bytes(seen, **change)))
    assert claim.verdict == "fails"
    assert parts(claim, "a") == {
        f"{target}: {found} reads and writes are the exact counts": "fails" if target == "flash1" else "holds"
        for target in ("standard", "flash1", "flash2")
        for found in ("traced", "derived")
    }


@pytest.mark.parametrize(("change", "verdict"), [({"reads": 1.0001}, "fails"), (None, "inconclusive")])
def test_derivations_are_judged_and_count_only_if_exact(
    altered: Callable[..., Evidence], change: dict[str, float] | None, verdict: str
) -> None:
    def derived(seen: Observation) -> Observation:
        if seen.observed.source != "derive":
            return seen
        return scale_bytes(seen, **change) if change else replace(seen, observed=replace(seen.observed, exact=False))

    assert theorem2.judge(altered("flash1", derived)).verdict == verdict


def test_bytes_moved_by_atomics_count(altered: Callable[..., Evidence]):
    def with_atomics(seen: Observation) -> Observation:
        assert seen.observed.requested is not None
        return replace(seen, observed=replace(seen.observed, requested=replace(seen.observed.requested, atomic_bytes=4)))

    assert theorem2.judge(altered("flash2", with_atomics)).verdict == "fails"


def test_bytes_that_grow_otherwise_fail_even_if_they_were_predicted(altered: Callable[..., Evidence]):
    """A cubic count on which trace and prediction agree."""

    def cubic(seen: Observation) -> Observation:
        requested = Traffic(seen.values["N"] ** 3 * seen.values["d"], 0)
        return Observation(
            replace(seen.observed, requested=requested), replace(seen.predicted, requested=requested), seen.values
        )

    claim = theorem2.judge(altered("flash1", cubic))
    assert set(parts(claim, "a").values()) == {"holds"}
    powers = {(row["quantity"], row["variable"]): row for row in claim.evidence["exponents"]}
    assert powers["flash1: traced bytes", "N"]["exponent"] == pytest.approx(3)


def test_measurements_determine_all_powers(evidence: Evidence, measured: Measured):
    claim = theorem2.judge(Evidence(evidence.answers, list(campaign(measured))))
    assert claim.verdict == "holds"
    rows = [row for row in claim.evidence["exponents"] if row["quantity"] == "flash1: measured bytes, leading term"]
    assert {row["variable"]: row["exponent"] for row in rows} == pytest.approx({"N": 2, "d": 2, "M": -1})
    assert {row["points"] for row in rows} == {18}


@pytest.mark.parametrize(("factor", "verdict"), [(1.0009, "holds"), (0.9991, "holds"), (1.002, "fails"), (0.998, "fails")])
def test_measured_within_a_tenth_of_a_percent(evidence: Evidence, measured: Measured, factor: float, verdict: str):
    records = [scale_bytes(seen, reads=factor) for seen in campaign(measured)]
    assert theorem2.judge(Evidence(evidence.answers, records)).verdict == verdict


@pytest.mark.parametrize(("factor", "verdict"), [(0.9, "holds"), (1.01, "fails")])
def test_the_l1_may_only_take_requests_away(evidence: Evidence, measured: Measured, factor: float, verdict: str):
    """O, l and m of 1024 rows, 139 KB at d = 64, fit in the L1 the kernel leaves."""
    records = [*campaign(measured), scale_bytes(measured("flash1", seq_len=1024, head_dim=64), reads=factor)]
    assert theorem2.judge(Evidence(evidence.answers, records)).verdict == verdict


@pytest.mark.parametrize(("factor", "verdict"), [(1.0, "holds"), (0.8, "holds"), (0.5, "fails"), (1.01, "fails")])
def test_the_l1_shares_tiles_between_programs_but_holds_only_so_much(
    evidence: Evidence, measured: Measured, factor: float, verdict: str
):
    """A fifth of standard attention's reads are repeated reads of Q and K.

    This is at N = 4096, d = 64.
    """
    records = [*campaign(measured), scale_bytes(measured("standard", seq_len=4096, head_dim=64), reads=factor)]
    assert theorem2.judge(Evidence(evidence.answers, records)).verdict == verdict


@pytest.mark.parametrize(("factor", "verdict"), [(0.999, "holds"), (0.98, "holds"), (0.9, "fails")])
def test_the_last_column_blocks_of_causal_flash1_fit_in_the_l1(
    evidence: Evidence, measured: Measured, factor: float, verdict: str
):
    seen = measured("flash1", seq_len=8192, head_dim=64, causal=True)
    assert theorem2.judge(Evidence(evidence.answers, [*campaign(measured), scale_bytes(seen, reads=factor)])).verdict == verdict


def test_writes_are_exact_even_where_the_l1_helps_reads(evidence: Evidence, measured: Measured):
    seen = scale_bytes(measured("flash1", seq_len=1024, head_dim=64), writes=0.99)
    assert theorem2.judge(Evidence(evidence.answers, [*campaign(measured), seen])).verdict == "fails"


def test_spilled_registers_are_named_and_not_compared(evidence: Evidence, measured: Measured):
    seen = measured("flash2", seq_len=4096, head_dim=128)
    launches = tuple(replace(launch, local_bytes=16) for launch in seen.observed.launches)
    spilled = scale_bytes(replace(seen, observed=replace(seen.observed, launches=launches)), writes=5.0)
    claim = theorem2.judge(Evidence(evidence.answers, [*campaign(measured), spilled]))
    assert claim.verdict == "holds"
    assert any(note.startswith("Not compared, measure flash2") for note in claim.evidence["notes"])


def test_points_served_by_the_l1_alone_decide_nothing(evidence: Evidence, measured: Measured):
    assert theorem2.judge(Evidence(evidence.answers, [measured("flash1", seq_len=512)])).verdict == "inconclusive"


def test_measurements_that_grow_otherwise_fail(evidence: Evidence, measured: Measured):
    """The deviation stays below the tolerance at every point but grows with N.

    Only the exponents show a cubic term.
    """
    records = [scale_bytes(seen, reads=(seen.values["N"] / 4096) ** 0.1) for seen in campaign(measured)]
    claim = theorem2.judge(Evidence(evidence.answers, records))
    failed = {(row["quantity"], row["variable"]) for row in claim.evidence["exponents"] if row["verdict"] == "fails"}
    assert ("flash1: measured bytes, leading term", "N") in failed
    assert claim.verdict == "fails"


def test_below_the_lower_bound_fails(altered: Callable[..., Evidence]):
    claim = theorem2.judge(altered("flash2", lambda seen: scale_bytes(seen, reads=0, writes=0.1)))
    assert "fails" in parts(claim, "e").values()


def test_a_record_without_counters_is_no_evidence(evidence: Evidence, measured: Measured):
    seen = measured("flash1", seq_len=4096)
    timed = replace(seen, observed=replace(seen.observed, requested=None))
    claim = theorem2.judge(Evidence(evidence.answers, [timed]))
    assert claim.verdict == "holds"
    assert parts(claim, "b") == {}


def test_few_measurements_give_the_power_of_n_or_none(evidence: Evidence, measured: Measured):
    """One d and one block leave the exponents of d and M open.

    Two sizes leave that of N open too.
    """
    for sizes, variables in (((4096, 8192, 16384), {"N"}), ((4096, 8192), set[str]())):
        records = [measured("flash1", seq_len=seq_len) for seq_len in sizes]
        claim = theorem2.judge(Evidence(evidence.answers, records))
        assert claim.verdict == "holds"
        shown = {row["variable"] for row in claim.evidence["exponents"] if row["quantity"].startswith("flash1: measured")}
        assert shown == variables
