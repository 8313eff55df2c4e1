"""`verify` end to end: the kernels satisfy both theorems.

A planted fault fails its part.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from ioaware.analysis.theory.claims import theorem1, theorem2
from ioaware.analysis.theory.claims.claim import Claim
from ioaware.analysis.theory.claims.evidence import Evidence
from ioaware.analysis.theory.claims.traced_points import series
from ioaware.errors import UsageError
from ioaware.sweep.claim_evidence import gather
from ioaware.sweep.verify import CLAIMS, verify
from ioaware.targets.target import load_target
from ioaware.tracing.trace import trace
from tests.support import SUPPORT

PLANTED = SUPPORT / "sweep/planted.py"


@pytest.fixture(scope="module")
def evidence() -> Evidence:
    """Return the runs of both theorems, made once for this file."""
    calls: list[tuple[int, int]] = []
    gathered = gather(theorem2.points(), measurements=(), progress=lambda done, total, _: calls.append((done, total)))
    total = len(theorem2.points())
    assert calls == [(done, total) for done in range(1, total + 1)]
    return gathered


def plant(evidence: Evidence, function: str) -> Evidence:
    """Return the evidence with flash2's series in N traced from another kernel."""
    answers = dict(evidence.answers)
    target = load_target(f"{PLANTED}:{function}")
    for need in series("flash2")["N"]:
        seen = answers[need]
        traced = trace(target, {name: seen.observed.params[name] for name in ("seq_len", "head_dim")})
        answers[need] = replace(seen, observed=replace(traced, target="flash2", params=seen.observed.params))
    return Evidence(answers)


def failing(claim: Claim) -> set[str]:
    """Return part and case of every failed row."""
    rows = [(row["part"], row["says"]) for row in claim.evidence["parts"] if row["verdict"] == "fails"]
    return {f"{part} {says.split(':')[0]}" for part, says in rows}


def test_the_kernels_satisfy_both_theorems(evidence: Evidence):
    assert not list(evidence.failures(theorem2.points()))
    for claim in (theorem1.judge(evidence), theorem2.judge(evidence)):
        assert claim.verdict == "holds", failing(claim)


def test_another_sound_kernel_changes_nothing(evidence: Evidence):
    replaced = plant(evidence, "sound")
    assert theorem1.judge(replaced).verdict == "holds"
    assert theorem2.judge(replaced).verdict == "holds"


@pytest.mark.parametrize(
    ("fault", "in_theorem1", "in_theorem2"),
    [
        ("reads_k_twice", set[str](), {"a flash2"}),
        ("keeps_s", {"c flash2"}, {"a flash2"}),
        ("multiplies_twice", {"b flash2"}, set[str]()),
        ("forgets_to_rescale", {"a flash2"}, set[str]()),
        ("divides_by_zero", {"a flash2"}, set[str]()),
    ],
)
def test_a_planted_fault_fails_exactly_its_part(evidence: Evidence, fault: str, in_theorem1: set[str], in_theorem2: set[str]):
    replaced = plant(evidence, fault)
    for claim, expected in ((theorem1.judge(replaced), in_theorem1), (theorem2.judge(replaced), in_theorem2)):
        assert failing(claim) == expected
        assert claim.verdict == ("fails" if expected else "holds")


def test_memory_of_a_kernel_that_keeps_s_grows_as_n_squared(evidence: Evidence):
    rows = theorem1.judge(plant(evidence, "keeps_s")).evidence["exponents"]
    (power,) = [row for row in rows if row["quantity"] == "flash2: traced extra memory"]
    assert power["verdict"] == "fails"
    assert power["low"] > 1.9


def test_an_unknown_claim_names_the_valid_ones_before_anything_runs():
    with pytest.raises(UsageError, match="Did you mean theorem2") as error:
        verify(["theorem1", "theorem_2"])
    assert all(name in str(error.value) for name in CLAIMS)
