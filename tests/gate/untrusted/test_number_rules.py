"""Rules about numbers: times and bytes that cannot be.

Kernels that were not examined are covered too.
"""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from ioaware.derivation.derived import Derived
from ioaware.errors import UsageError
from ioaware.gate.untrusted.examine import findings
from ioaware.gate.untrusted.finding import Finding, Outcome, together
from ioaware.gate.untrusted.host_events import HostEvents
from ioaware.gate.untrusted.kernel_evidence import Evidence, Measured
from ioaware.gate.untrusted.measured_evidence import measured_evidence
from ioaware.gate.untrusted.number_rules import impossible_hbm, impossible_time, other_kernels
from ioaware.gate.untrusted.trial_session import Call
from ioaware.gate.untrusted.trials import Trials
from ioaware.gate.verdict import BaselineError
from ioaware.machine.presets import H200
from ioaware.result import Launch, Result, Timing, Traffic
from ioaware.result_file import write_jsonl

MIB = 2**20
X = torch.zeros(64 * MIB, dtype=torch.uint8)
"""Larger than the L2 of an H200, 60 MiB."""
READ = torch.zeros(X.shape, dtype=torch.bool)
CALL = Call((X,), (Launch("kernel"),), (), (), (READ,), HostEvents(), same_memory=False)
TRIALS = Trials(names=("x",), inputs=((X,), (X,)), repeated=(CALL,))
EVIDENCE = Evidence("target", {"n": 1}, {"n": 1}, TRIALS)
SECONDS = 64 * MIB / H200.bandwidth_bytes_per_s("hbm")


def measured(time_ns: float | None, *, cold: bool = True, record: Result | None = None) -> Evidence:
    return replace(EVIDENCE, measured=Measured(H200, time_ns, cold, record))


def outcomes(found: object) -> list[Outcome]:
    return [one.outcome for one in found if isinstance(one, Finding)]  # type: ignore[attr-defined]


def test_a_time_below_the_read_ceiling_is_impossible() -> None:
    """After a flush the 64 MiB of the input come from HBM.

    4 MiB of the output do not fit in the L2.
    """
    least_ns = (64 + 4) / 64 * SECONDS * 1e9
    assert outcomes(impossible_time(measured(0.97 * least_ns))) == [Outcome.IMPOSSIBLE]
    assert outcomes(impossible_time(measured(0.99 * least_ns))) == []
    assert outcomes(impossible_time(measured(math.nan))) == [Outcome.IMPOSSIBLE]


def test_without_a_flush_the_l2_may_hold_its_capacity() -> None:
    least_ns = (64 + 64 - 60) / 64 * SECONDS * 1e9
    assert outcomes(impossible_time(measured(0.97 * least_ns, cold=False))) == [Outcome.IMPOSSIBLE]
    assert outcomes(impossible_time(measured(0.99 * least_ns, cold=False))) == []


def test_a_time_is_not_judged_where_the_compulsory_bytes_are_not_known() -> None:
    elsewhere = replace(measured(1.0), params={"n": 2})
    assert outcomes(impossible_time(elsewhere)) == [Outcome.INCOMPLETE]


def test_hbm_reads_below_the_inputs_are_impossible() -> None:
    def record(read_bytes: int | None, status: str = "ok") -> Evidence:
        moved = None if read_bytes is None else Traffic(read_bytes, 0)
        return measured(1e9, record=Result("measure", "target", {"n": 1}, hbm=moved, status=status))  # type: ignore[arg-type]

    assert outcomes(impossible_hbm(record(64 * MIB))) == []
    assert outcomes(impossible_hbm(record(63 * MIB))) == [Outcome.IMPOSSIBLE]
    assert outcomes(impossible_hbm(record(0))) == [Outcome.IMPOSSIBLE]
    assert outcomes(impossible_hbm(record(None))) == [Outcome.INCOMPLETE]
    assert outcomes(impossible_hbm(record(64 * MIB, "impossible"))) == [Outcome.IMPOSSIBLE]
    assert outcomes(impossible_hbm(record(64 * MIB, "unstable"))) == [Outcome.INCOMPLETE]


def test_a_record_of_other_kernels_is_suspect() -> None:
    derived = Derived("derive", "target", launches=(Launch("kernel"),))
    same, other = (Result("measure", "target", launches=(Launch(name),)) for name in ("kernel", "another"))
    assert outcomes(other_kernels(replace(measured(1.0, record=same), derived=derived))) == []
    assert outcomes(other_kernels(replace(measured(1.0, record=other), derived=derived))) == [Outcome.SUSPECT]


def test_evidence_without_trials_is_never_sound() -> None:
    assert together(findings(Evidence("target", {}, {}, Trials()))) is Outcome.INCOMPLETE
    assert together(findings(Evidence("target", {}, {}, Trials(error="it raised")))) is Outcome.INCOMPLETE


@pytest.mark.parametrize("outcome", list(Outcome))
def test_only_sound_passes(outcome: Outcome) -> None:
    codes = {Outcome.SOUND: 0, Outcome.REFUSED: 1, Outcome.SUSPECT: 1, Outcome.IMPOSSIBLE: 3, Outcome.INCOMPLETE: 3}
    assert outcome.exit_code == codes[outcome]
    assert (
        together([Finding("rule", Outcome.INCOMPLETE, "")] * (outcome is not Outcome.SOUND)) is not Outcome.SOUND
        or not codes[outcome]
    )


def test_a_record_is_found_by_target_and_parameters(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    timing = Timing(2000.0, 1900.0, 2100.0, 1800.0, 5)
    write_jsonl(path, [Result("measure", "target", {"n": 1}, timing=timing), Result("measure", "target", {"n": 2})])
    found = measured_evidence("H200", {"n": 1}, target="target", record=path)
    assert found is not None
    assert (found.time_ns, found.cold) == (2000.0, True)
    for params in ({"n": 3}, {}):
        with pytest.raises(BaselineError, match="no record of target"):
            measured_evidence("H200", params, target="target", record=path)


@pytest.mark.parametrize("time_us", [0.0, -1.0, math.nan, math.inf])
def test_a_time_that_is_none_is_refused(time_us: float) -> None:
    with pytest.raises(UsageError, match="positive number"):
        measured_evidence("H200", {}, target="target", time_us=time_us)
