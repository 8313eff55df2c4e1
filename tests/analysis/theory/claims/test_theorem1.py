"""Theorem 1 on constructed evidence: exact data hold.

Each wrong number fails its part.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace

import pytest

from ioaware.analysis.theory.claims import theorem1
from ioaware.analysis.theory.claims.claim import Claim, combine
from ioaware.analysis.theory.claims.evidence import Evidence, Observation
from ioaware.result import Check, Result


def verdicts(claim: Claim, part: str) -> set[str]:
    return {row["verdict"] for row in claim.evidence["parts"] if row["part"] == part}


def with_observed(seen: Observation, **changes: object) -> Observation:
    return replace(seen, observed=replace(seen.observed, **changes))


def test_exact_agreement_holds(evidence: Evidence):
    claim = theorem1.judge(evidence)
    assert claim.verdict == "holds"
    assert json.loads(json.dumps(claim.to_dict(), allow_nan=False))["verdict"] == "holds"
    assert {row["part"] for row in claim.evidence["parts"]} == {"a", "b", "c"}
    assert all(row["points"] > 0 for row in claim.evidence["parts"])


def test_the_verdict_follows_from_the_rows_shown(evidence: Evidence):
    claim = theorem1.judge(evidence)
    rows = [*claim.evidence["parts"], *claim.evidence["exponents"]]
    assert combine(row["verdict"] for row in rows) == claim.verdict


def test_no_evidence_is_inconclusive():
    assert theorem1.judge(Evidence()).verdict == "inconclusive"


def test_one_missing_run_is_inconclusive(evidence: Evidence):
    for dropped in evidence.answers:
        if dropped.target == "flash1":
            left = Evidence({need: seen for need, seen in evidence.answers.items() if need != dropped})
            assert theorem1.judge(left).verdict == "inconclusive"
            break


def test_one_output_without_a_check_leaves_its_part_open(evidence: Evidence):
    """Even if all other outputs are checked."""
    need = next(need for need in evidence.answers if need.target == "flash1")
    answers = {**evidence.answers, need: with_observed(evidence.answers[need], check=None)}
    assert verdicts(theorem1.judge(Evidence(answers)), "a") == {"holds", "inconclusive"}


def test_a_failed_run_is_inconclusive_with_a_reason(evidence: Evidence):
    need, seen = next(iter(evidence.answers.items()))
    broken = replace(
        seen, observed=Result("trace", need.target, seen.observed.params, status="failed", notes=("killed by SIGKILL",))
    )
    claim = theorem1.judge(Evidence({**evidence.answers, need: broken}))
    assert claim.verdict == "inconclusive"
    assert any("killed by SIGKILL" in note for note in claim.evidence["notes"])


@pytest.mark.parametrize(
    ("change", "part", "verdict"),
    [
        ({"check": Check(1.1e-5, 1e-5)}, "a", "fails"),
        ({"check": Check(math.nan, 1e-5)}, "a", "fails"),
        ({"check": None}, "a", "inconclusive"),
        ({"flops": None}, "b", "inconclusive"),
        ({"extra_memory_bytes": None}, "c", "inconclusive"),
    ],
)
def test_each_wrong_number_changes_its_part(
    altered: Callable[..., Evidence], change: dict[str, object], part: str, verdict: str
):
    claim = theorem1.judge(altered("flash1", lambda seen: with_observed(seen, **change)))
    assert claim.verdict == verdict
    assert verdict in verdicts(claim, part)


@pytest.mark.parametrize(("field", "part"), [("flops", "b"), ("extra_memory_bytes", "c")])
@pytest.mark.parametrize("off", [-1, 1])
def test_a_count_off_by_one_fails(altered: Callable[..., Evidence], field: str, part: str, off: int):
    claim = theorem1.judge(altered("flash2", lambda seen: with_observed(seen, **{field: getattr(seen.observed, field) + off})))
    assert claim.verdict == "fails"
    assert verdicts(claim, part) == {"fails", "holds"}


def test_memory_that_grows_as_n_squared_fails_even_if_it_was_predicted(altered: Callable[..., Evidence]):
    def quadratic(seen: Observation) -> Observation:
        extra = 4 * seen.values["N"] ** 2
        return replace(
            with_observed(seen, extra_memory_bytes=extra), predicted=replace(seen.predicted, extra_memory_bytes=extra)
        )

    claim = theorem1.judge(altered("flash1", quadratic))
    assert verdicts(claim, "c") == {"holds"}
    assert claim.verdict == "fails"
    assert [row["exponent"] for row in claim.evidence["exponents"] if row["verdict"] == "fails"] == [pytest.approx(2)]


def test_measurements_join_the_evidence(evidence: Evidence, measured: Callable[..., Observation]):
    good = measured("flash1", seq_len=4096)
    assert theorem1.judge(Evidence(evidence.answers, [good])).verdict == "holds"
    for bad in (with_observed(good, extra_memory_bytes=1), with_observed(good, check=Check(math.nan, 1e-2))):
        assert theorem1.judge(Evidence(evidence.answers, [good, bad])).verdict == "fails"


def test_numbers_that_are_not_trusted_are_no_evidence(evidence: Evidence, measured: Callable[..., Observation]):
    bad = with_observed(
        measured("flash1", seq_len=4096), extra_memory_bytes=1, status="impossible", notes=("faster than its HBM",)
    )
    claim = theorem1.judge(Evidence(evidence.answers, [bad]))
    assert claim.verdict == "holds"
    assert any("faster than its HBM" in note for note in claim.evidence["notes"])


def test_a_wrong_output_is_evidence_even_in_a_record_that_was_refused(evidence: Evidence, measured: Callable[..., Observation]):
    bad = with_observed(measured("flash1", seq_len=4096), status="failed", check=Check(0.5, 6e-3))
    assert theorem1.judge(Evidence(evidence.answers, [bad])).verdict == "fails"
