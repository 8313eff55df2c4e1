"""What each rule finds in evidence by hand: words, place and numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from ioaware.derivation.derived import Derived
from ioaware.errors import IoawareError
from ioaware.gate.untrusted import host_rules, number_rules, output_rules
from ioaware.gate.untrusted.examine import KernelVerdict, findings
from ioaware.gate.untrusted.finding import Finding, Outcome
from ioaware.gate.untrusted.host_events import HostEvents
from ioaware.gate.untrusted.kernel_evidence import Evidence, Measured
from ioaware.gate.untrusted.measured_evidence import measured_evidence
from ioaware.gate.untrusted.trial_session import Call
from ioaware.gate.untrusted.trials import Reference, Trials
from ioaware.machine.presets import H200
from ioaware.result import Launch, Result, Timing, Traffic
from ioaware.result_file import write_jsonl

ONES, TWOS = torch.ones(4), 2 * torch.ones(4)
READ = torch.zeros(4, dtype=torch.bool)
FIRST = Call((ONES,), (Launch("k"), Launch("sum", origin="torch")), (), (), (READ,), HostEvents(), same_memory=False)
OTHER = replace(FIRST, outputs=(TWOS,))
TRIALS = Trials(
    names=("x",), inputs=((ONES,), (TWOS,)), repeated=(FIRST, OTHER, FIRST), reversed=(OTHER, FIRST), refilled=FIRST,
    muted=replace(FIRST, outputs=(0 * ONES,)),
    reference=Reference(((ONES,), (TWOS,)), (ONES,), ignores_unread=False, tolerance=None),
)  # fmt: skip
SOUND = Evidence("f", {"n": 4}, {"n": 4}, TRIALS, Derived("derive", "f", launches=(Launch("k"),)))
REFUSED, SUSPECT, IMPOSSIBLE, INCOMPLETE = Outcome.REFUSED, Outcome.SUSPECT, Outcome.IMPOSSIBLE, Outcome.INCOMPLETE


def trials(**changes: Any) -> Evidence:
    return replace(SOUND, trials=replace(TRIALS, **changes))


def only(rule: Callable[[Evidence], Iterator[Finding]], evidence: Evidence) -> tuple[Any, ...]:
    """Return the one finding of a rule, and check that sound evidence has none."""
    assert list(rule(SOUND)) == []
    (found,) = rule(evidence)
    assert found.rule == rule.__name__
    return found.outcome, found.what, found.where, dict(found.evidence)


def test_sound_evidence_has_no_finding() -> None:
    assert list(findings(SOUND)) == []


def test_outputs_that_no_kernel_computes() -> None:
    idle = replace(FIRST, launches=(Launch("sum", origin="torch"),))
    what = "no Triton kernel is launched; what ran is "
    assert only(output_rules.no_kernel, trials(repeated=(idle,))) == (REFUSED, what + "sum", "f", {})
    assert only(output_rules.no_kernel, trials(repeated=(replace(FIRST, launches=()),)))[1] == what + "nothing"
    empty = trials(repeated=(replace(FIRST, outputs=(torch.ones(0),)),))
    what = "the function returns no tensor with elements; name what it writes with --inplace"
    assert only(output_rules.no_output, empty) == (INCOMPLETE, what, "f", {})
    what = "the output is the same when the kernels write nothing: something else computes it"
    ran = {"kernels": ["k"], "operators": ["sum"]}
    assert only(output_rules.decoy_kernel, trials(muted=FIRST)) == (REFUSED, what, "k", ran)
    twice = replace(FIRST, launches=(Launch("k"), Launch("k"), Launch("l")))
    assert only(output_rules.decoy_kernel, trials(repeated=(twice,), muted=FIRST))[2] == "k, l"
    copied = replace(FIRST, copied={0: "aten.add"})
    what = "the kernels copy what aten.add computed: the output equals its result"
    found = only(output_rules.decoy_kernel, trials(repeated=(copied, copied)))
    assert found == (SUSPECT, what, "output 0", {"operator": "aten.add"})
    assert not list(output_rules.decoy_kernel(trials(repeated=(copied, FIRST))))
    assert not list(output_rules.decoy_kernel(trials(repeated=(replace(FIRST, copied={1: "aten.add"}),) * 2)))


def test_outputs_that_depend_on_memory_or_earlier_calls() -> None:
    half = torch.tensor([1.0, 1.0, 3.0, 3.0])
    what = "2 of 4 elements depend on what uninitialised memory held before"
    changed = trials(refilled=replace(FIRST, outputs=(half,)))
    assert only(output_rules.unwritten_output, changed) == (REFUSED, what, "output 0", {"elements": 2})
    count = torch.tensor([1, 1, 3, 3])
    counted = trials(repeated=(replace(FIRST, outputs=(count * 0 + 1,)),), refilled=replace(FIRST, outputs=(count,)))
    assert only(output_rules.unwritten_output, counted)[3] == {"elements": 2}
    wider = trials(refilled=replace(FIRST, outputs=(torch.ones(5),)))
    assert only(output_rules.unwritten_output, wider)[3] == {"elements": 4}
    eight_bits = trials(
        repeated=(replace(FIRST, outputs=(ONES.to(torch.float8_e5m2),)),),
        refilled=replace(FIRST, outputs=(half.to(torch.float8_e5m2),)),
    )
    assert only(output_rules.unwritten_output, eight_bits)[3] == {"elements": 2}
    typed = trials(refilled=replace(FIRST, outputs=(TWOS.half(),)))
    assert only(output_rules.unwritten_output, typed)[3] == {"elements": 4}
    assert list(output_rules.unwritten_output(trials(refilled=None))) == []
    idle = replace(FIRST, launches=(), same_memory=True)
    what = "call 2 launches no kernel, call 1 did: a result is kept from an earlier call"
    kept = {"kernels": [], "same_memory_as_an_earlier_output": True}
    assert only(output_rules.cached_result, trials(repeated=(FIRST, idle, FIRST))) == (REFUSED, what, "f", kept)
    late = trials(repeated=(FIRST, OTHER, OTHER))
    what = "call 3 gives another output than a first call with the same inputs"
    kept = {"kernels": ["k"], "same_memory_as_an_earlier_output": False}
    assert only(output_rules.cached_result, late) == (REFUSED, what, "f", kept)
    second = trials(reversed=(OTHER, OTHER))
    assert only(output_rules.cached_result, second)[1].startswith("call 2 gives")


def test_inputs_that_are_changed_returned_or_not_read() -> None:
    changed = trials(repeated=(replace(FIRST, changed=("x", "y")), replace(FIRST, changed=("x",))), writable=frozenset({"y"}))
    what = "the input holds other values after the call; if that is meant, name it with --inplace"
    assert only(output_rules.changed_input, changed) == (REFUSED, what, "x", {})
    aliased = trials(repeated=(FIRST, FIRST, replace(FIRST, aliased=("y", "x"))), writable=frozenset({"y"}))
    assert only(output_rules.aliased_output, aliased) == (SUSPECT, "an output has the memory of this input", "x", {})
    half = replace(FIRST, unread=(torch.tensor([True, False, True, True]),))
    where, found = "x: 12 of 16 B", {"unread_bytes": {"x": 12}, "compulsory_bytes": 16}
    what = "input bytes are never read, and the reference's output depends on them"
    assert only(output_rules.unread_input, trials(repeated=(half,))) == (REFUSED, what, where, found)
    ignoring = replace(TRIALS.reference, ignores_unread=True)  # type: ignore[type-var]
    assert list(output_rules.unread_input(trials(repeated=(half,), reference=ignoring))) == []
    assert list(output_rules.unread_input(trials(repeated=(half,), writable=frozenset({"x"})))) == []
    what = "requested is below compulsory: input bytes are never read, so the output cannot depend on them"
    assert only(output_rules.unread_input, trials(repeated=(half,), reference=None)) == (SUSPECT, what, where, found)
    integers = (torch.ones(4, dtype=torch.int32),)
    what = "input bytes are never read; integers among the inputs may decide which, and only a reference shows that"
    blind = trials(repeated=(half,), reference=None, inputs=(integers, integers))
    assert only(output_rules.unread_input, blind) == (INCOMPLETE, what, where, found)


def test_outputs_that_are_constant() -> None:
    constant: dict[str, Any] = {"repeated": (FIRST,) * 3, "reversed": (FIRST,) * 2}
    what = "the output is the same for other inputs; the reference's is not"
    assert only(output_rules.constant_output, trials(**constant)) == (REFUSED, what, "", {})
    what = "the output is the same for other inputs; with a reference it is known whether it should be"
    assert only(output_rules.constant_output, trials(**constant, reference=None)) == (SUSPECT, what, "", {})
    what = "the inputs could not be varied, so what the output depends on was not examined"
    same_inputs = trials(**constant, inputs=((ONES,), (ONES,)))
    assert only(output_rules.constant_output, same_inputs) == (INCOMPLETE, what, "", {})
    flat = Reference(((ONES,), (ONES,)), (ONES,), ignores_unread=False, tolerance=None)
    assert list(output_rules.constant_output(trials(**constant, reference=flat))) == []


def wrong(output: torch.Tensor, expected: torch.Tensor, tolerance: float | None = None) -> list[tuple[Any, ...]]:
    reference = Reference(((expected,), (expected,)), (expected,), ignores_unread=False, tolerance=tolerance)
    call = replace(FIRST, outputs=(output,))
    found = output_rules.wrong_output(trials(repeated=(call,) * 3, reversed=(call,) * 2, reference=reference))
    return [(one.outcome, one.what, one.where) for one in found]


def test_outputs_that_are_wrong() -> None:
    place = "output 0"
    assert wrong(ONES, ONES) == []
    assert wrong(ONES, ONES.double()) == []  # a reference may compute in float64
    assert wrong(1.001 * ONES, ONES.double()) == [
        (REFUSED, "the relative error against the reference is 0.001, 0.0001 is allowed", place)
    ]
    assert wrong(1.001 * ONES, ONES.double(), tolerance=0.01) == []
    assert wrong((1.001 * ONES).half(), ONES.half()) == []  # 0.002 is allowed
    assert wrong(torch.ones(5), ONES) == [(REFUSED, "the output is float32[5], the reference's float32[4]", place)]
    assert wrong(ONES.half(), ONES) == [(REFUSED, "the output is float16[4], the reference's float32[4]", place)]
    what = "NaN or infinity stands where the reference has a number, or the other way round"
    assert wrong(ONES * math.nan, ONES) == [(REFUSED, what, place)]
    assert wrong(ONES * math.inf, ONES * math.inf) == []
    integers = torch.arange(4)
    what = "2 of 4 elements differ from the reference"
    assert wrong(integers, torch.tensor([0, 1, 0, 0])) == [(REFUSED, what, place)]
    assert wrong(integers, integers) == []
    fewer = trials(repeated=(replace(FIRST, outputs=(ONES, ONES)),) * 3)
    found = [(one.rule, one.outcome, one.what) for one in output_rules.wrong_output(fewer)]
    assert found == [("wrong_output", REFUSED, "2 tensors are returned, the reference returns 1")]
    eight_bits = ONES.to(torch.float8_e4m3fn)
    coarse = replace(FIRST, outputs=(eight_bits,))
    for factor, count in ((1.09, 0), (1.2, 1)):
        expected = Reference(((factor * ONES,),) * 2, (eight_bits,), ignores_unread=False, tolerance=None)
        given = trials(repeated=(coarse,) * 3, reversed=(coarse,) * 2, reference=expected)
        assert len(list(output_rules.wrong_output(given))) == count
    remedy = "give --reference, or --no-reference if it is checked elsewhere"
    what = f"whether the output is right was not examined: {remedy}"
    assert only(output_rules.wrong_output, trials(reference=None)) == (INCOMPLETE, what, "", {})
    elsewhere = replace(trials(reference=None), output_checked_elsewhere=True)
    assert list(output_rules.wrong_output(elsewhere)) == []
    failed = replace(trials(reference=None, reference_error="it raised"), output_checked_elsewhere=True)
    assert only(output_rules.wrong_output, failed) == (INCOMPLETE, "it raised", "", {})


def test_what_host_code_did() -> None:
    events = [
        HostEvents({"stream 1"}, ["worker", "other"], ["cudaMalloc(3)"], native_code=["load: ('m',) {'sources': 'a.cpp'}"]),
        HostEvents(pending={"stream 1", "stream 2"}),
    ]  # fmt: skip
    did = trials(events=events)
    what = "work is left on another stream, and the caller's stream does not wait for it"
    assert only(host_rules.other_stream, did) == (REFUSED, what, "f", {"streams": 2})
    assert only(host_rules.background_thread, did) == (REFUSED, "a thread or process is started", "worker", {"threads": 2})
    what = "native code is compiled, which is not examined"
    assert only(host_rules.native_code, did) == (INCOMPLETE, what, "load", {})
    what = "the host code calls the CUDA runtime itself, and a trial does nothing there"
    assert only(host_rules.cuda_calls, did) == (INCOMPLETE, what, "cudaMalloc(3)", {})
    policy = "cudaDeviceSetLimit(cudaLimitPersistingL2CacheSize, " + "9" * 300 + ")"
    what = "the host code sets how the L2 keeps lines: a measurement after a flush is still warm"
    warm = trials(events=[HostEvents(cuda_calls=[policy, policy])])
    assert only(host_rules.l2_policy, warm) == (REFUSED, what, "cudaDeviceSetLimit", {"calls": [policy[:200]]})
    assert list(host_rules.cuda_calls(warm)) == []
    what = "a public function is replaced, and with it what an evaluator measures or compares with"
    replaced = trials(replaced={"time.time": "a.py:3"})
    assert only(host_rules.replaced_function, replaced) == (REFUSED, what, "time.time", {"replacement": "a.py:3"})
    what = "every launch fails and the function returns all the same; what ran is "
    ran = {"operators": ["sum"]}
    assert only(host_rules.hidden_failure, trials(failing=FIRST)) == (SUSPECT, what + "sum", "f", ran)
    nothing = replace(FIRST, launches=())
    assert only(host_rules.hidden_failure, trials(failing=nothing)) == (SUSPECT, what + "nothing", "f", {"operators": []})


def test_kernels_that_are_others() -> None:
    assert only(number_rules.not_derived, replace(SOUND, not_derived="data decide")) == (
        INCOMPLETE, "there are no formulas: data decide", "f", {},
    )  # fmt: skip
    other = replace(SOUND, derived=Derived("derive", "f", launches=(Launch("l"), Launch("sum", origin="torch"))))
    what = "the function launches other kernels when it is derived than when its output is examined"
    found = {"derived": ["l"], "examined": ["k"]}
    assert only(number_rules.other_kernels, other) == (SUSPECT, what, "f", found)
    elsewhere = replace(other, trial_params={"n": 2})
    assert only(number_rules.other_kernels, elsewhere) == (INCOMPLETE, what, "f", found)
    assert list(number_rules.other_kernels(replace(SOUND, derived=None))) == []
    record = Result("measure", "f", launches=(Launch("k"), Launch("m"), Launch("sum", origin="torch")))
    recorded = replace(SOUND, measured=Measured(H200, 1e9, True, record))
    what = "the record has kernels that the function does not launch here"
    found = {"derived": ["k"], "measured": ["k", "m"]}
    assert only(number_rules.other_kernels, recorded) == (SUSPECT, what, "m", found)


class Condition(SimpleNamespace):
    """A condition on n, met from a size on."""

    def met(self, values: dict[str, int]) -> bool:
        return values["n"] >= self.least

    def __str__(self) -> str:
        return f"n >= {self.least}"


def path(least: int, *, reason: str = "f.py:3", tried: Any = 4, values: Any = None) -> Evidence:
    validity = SimpleNamespace(conditions=(), implicit=(Condition(least=least, reason=reason),))
    derived: Any = SimpleNamespace(values=values or {"n": 64}, validity=validity, launches=(Launch("k"),))
    return replace(SOUND, params={"n": 64}, trial_params={"n": tried}, derived=derived)


def test_paths_that_only_the_trial_takes() -> None:
    what = "host code takes another branch at the trial's sizes: what was examined is not what is judged"
    assert only(number_rules.other_path, path(8)) == (INCOMPLETE, what, "f.py:3", {"condition": "n >= 8"})
    assert list(number_rules.other_path(path(4))) == []
    assert list(number_rules.other_path(path(8, reason="constexpr BLOCK"))) == []
    assert list(number_rules.other_path(path(8, tried=64))) == []
    assert list(number_rules.other_path(replace(path(8), derived=None))) == []
    unmet = replace(path(8), derived=SimpleNamespace(  # type: ignore[arg-type]
        values={"n": 64}, validity=SimpleNamespace(conditions=(Condition(reason="r", least=None),), implicit=()), launches=(),
    ))  # fmt: skip
    with pytest.raises(TypeError):
        list(number_rules.other_path(unmet))
    what = "the launches depend on this size in a way that no formula shows: try the judged size itself"
    assert only(number_rules.other_path, path(8, values={"m": 64})) == (INCOMPLETE, what, "n", {})
    blind = replace(path(8), derived=replace(SOUND.derived, validity=None))  # type: ignore[type-var]
    assert only(number_rules.other_path, blind)[:2] == (INCOMPLETE, what)


def test_the_read_ceiling_is_as_calibrated_else_the_peak() -> None:
    def machine(rates: dict[str, float]) -> Any:
        level = SimpleNamespace(rates=rates)
        return SimpleNamespace(level=lambda name: {"hbm": level}[name], bandwidth_bytes_per_s=lambda name: {"hbm": 9.0}[name])

    assert number_rules.read_ceiling(machine({"read": 7.0, "write": 5.0})) == 7.0
    assert number_rules.read_ceiling(machine({"write": 5.0})) == 9.0


def test_writes_take_time_beyond_what_the_l2_holds() -> None:
    cold, warm = Measured(H200, cold=True), Measured(H200)
    l2, rate = H200.level("l2").capacity_bytes, number_rules.read_ceiling(H200) / 1e9
    assert number_rules.least_time_ns(Traffic(100, l2), cold) == pytest.approx(100 / rate)
    assert number_rules.least_time_ns(Traffic(100, l2 + 50), cold) == pytest.approx(150 / rate)
    assert number_rules.least_time_ns(Traffic(None, None), cold) == 0
    assert number_rules.least_time_ns(Traffic(60, l2), warm) == pytest.approx(60 / rate)
    assert number_rules.least_time_ns(Traffic(l2, 0), warm) == 0


def timed(time_ns: float, **how: Any) -> Evidence:
    return replace(SOUND, measured=Measured(H200, time_ns, True, **how))


def test_numbers_that_are_impossible() -> None:
    least = number_rules.least_time_ns(Traffic(10**12, 0), Measured(H200, cold=True))
    assert least == pytest.approx(10**12 / number_rules.read_ceiling(H200) * 1e9)
    small = number_rules.least_time_ns(Traffic(16, 16), Measured(H200, cold=True))
    what = f"0 ns is less than the {small:,.0f} ns in which the compulsory bytes can come from HBM"
    found = {"time_ns": 0.0, "least_time_ns": small, "compulsory_bytes": 32}
    assert only(number_rules.impossible_time, timed(0.0)) == (IMPOSSIBLE, what, "H200", found)
    stable = timed(0.0, record=Result("measure", "f", status="ok"))
    assert only(number_rules.impossible_time, stable)[0] is IMPOSSIBLE
    unstable = timed(1e9, record=Result("measure", "f", status="unstable"))
    what = "the record is marked unstable: its time does not count"
    assert only(number_rules.impossible_time, unstable) == (INCOMPLETE, what, "", {})
    what = "the compulsory bytes are not known at these sizes, so the time cannot be judged"
    unknown = replace(timed(1e9), trial_params={"n": 2}, derived=None)
    assert only(number_rules.impossible_time, unknown) == (INCOMPLETE, what, "", {})
    few = timed(1e9, record=Result("measure", "f", hbm=Traffic(15, 0)))
    assert only(number_rules.impossible_hbm, few) == (
        IMPOSSIBLE,
        "15 B came from HBM, less than the 16 B of the inputs",
        "",
        {},
    )
    what = "the record is marked impossible: its numbers contradict physics"
    impossible = timed(1e9, record=Result("measure", "f", status="impossible"))
    assert only(number_rules.impossible_hbm, impossible) == (IMPOSSIBLE, what, "", {})
    what = "the record has no HBM bytes that count, or no compulsory ones"
    assert only(number_rules.impossible_hbm, timed(1e9, record=Result("measure", "f"))) == (INCOMPLETE, what, "", {})


def test_the_document_of_a_verdict() -> None:
    derived = replace(
        Derived("derive", "f", launches=(Launch("k", registers=8, local_bytes=0), Launch("l", registers=9, local_bytes=4))),
        requested=Traffic(16, 16), assumed=Traffic(1, 2, 3),
    )  # fmt: skip
    record = Result("measure", "f", hbm=Traffic(17, 5))
    evidence = replace(SOUND, derived=derived, measured=Measured(H200, 1e6, True, record), trial_params={"n": 4})
    found = Finding("rule", SUSPECT, "what", "where", {"bytes": 3})
    document = KernelVerdict(evidence, (found,)).to_dict()
    rules = document.pop("rules")
    assert (len(rules), rules[0], rules[-1]) == (27, "no_kernel", "impossible_hbm")
    assert document == {
        "schema": 1, "verdict": "SUSPECT", "target": "f", "params": {"n": 4}, "trial_params": {"n": 4}, "also_params": None,
        "findings": [{"rule": "rule", "outcome": "SUSPECT", "what": "what", "where": "where", "evidence": {"bytes": 3}}],
        "numbers": {
            "compulsory": {"read_bytes": 16, "write_bytes": 16}, "requested": {"read_bytes": 16, "write_bytes": 16},
            "assumed": {"read_bytes": 1, "write_bytes": 2, "atomic_bytes": 3}, "hbm": {"read_bytes": 17, "write_bytes": 5},
            "exact": True, "registers": 9, "spilled_bytes": 4, "time_ns": 1e6,
            "least_time_ns": number_rules.least_time_ns(Traffic(16, 16), Measured(H200, cold=True)), "machine": "H200",
        },
        "kernels": ["k"], "library_operators": ["sum"], "reference": "compared",
    }  # fmt: skip
    bare = KernelVerdict(Evidence("f", {}, {}, Trials()), ()).to_dict()
    assert bare["verdict"] == "SOUND"
    assert {bare[name] for name in ("kernels", "library_operators", "reference")} == {None}
    assert set(bare["numbers"].values()) == {None}


def test_trials_that_did_not_run() -> None:
    def first(evidence: Evidence) -> tuple[Any, ...]:
        one = next(findings(evidence))
        return one.rule, one.outcome, one.what, one.where

    assert first(trials(error="it raised")) == ("trials", INCOMPLETE, "it raised", "f")
    for missing in ({"repeated": (FIRST, OTHER)}, {"reversed": (OTHER,)}, {"refilled": None}):
        assert first(trials(**missing)) == ("trials", INCOMPLETE, "not every trial ran", "f")


def test_records_that_are_not_of_the_target(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    timing = Timing(2000.0, 1900.0, 2100.0, 1800.0, 5)
    write_jsonl(
        path,
        [Result("measure", "g", {"n": 1}), Result("measure", "f", {"n": 1}, timing=timing), Result("measure", "f", {"n": 1})],
    )

    def raised(*given: Any, **named: Any) -> tuple[str, str]:
        with pytest.raises(IoawareError) as error:
            measured_evidence(*given, **named)
        return error.value.what, error.value.remedy

    remedy = "Its targets: g, f. Measure it at the same parameters: ioaware measure, or a study."
    assert raised("H200", {"n": 1}, target="f", record=path) == (f"{path} has 2 records of f at these parameters", remedy)
    assert raised("H200", {"n": 2}, target="g", record=path) == (f"{path} has no record of g at these parameters", remedy)
    both = ("a time and a record are both given", "A record has its own time: leave --time-us out.")
    assert raised("H200", {"n": 1}, target="f", record=path, time_us=1.0) == both
    for time in (-1.0, 0.0, math.inf):
        what = f"a time is a positive number of microseconds, not {time}"
        assert raised("H200", {}, target="f", time_us=time) == (what, "Correct --time-us.")
    assert measured_evidence("H200", {}, target="f") is None
    assert measured_evidence("H200", {}, target="f", time_us=2.0) == Measured(H200, 2000.0)
    found = measured_evidence("H200", {"n": 1}, target="g", record=path)
    assert found == Measured(H200, None, cold=True, record=Result("measure", "g", {"n": 1}))


def test_outputs_that_compute_later_or_are_kept() -> None:
    lazy = replace(FIRST, subclasses=("Lazy", "Lazy"))
    what = "an output is a subclass of a tensor, whose methods may compute after the call"
    assert only(output_rules.deferred_output, trials(repeated=(lazy, OTHER, FIRST))) == (SUSPECT, what, "Lazy", {})
    kept = "it is kept"
    again = "a later call gives the output of an earlier one though its kernels write nothing: " + kept
    assert only(output_rules.recalled_result, trials(recalled=(FIRST,))) == (REFUSED, again, "output 0", {})
    idle = "on inputs that nothing touched a second call does not compute the output again: " + kept
    for untouched in (OTHER, replace(FIRST, launches=())):
        assert only(output_rules.recalled_result, trials(untouched=untouched)) == (REFUSED, idle, "output 0", {})
    assert list(output_rules.recalled_result(trials(untouched=FIRST, recalled=(OTHER,)))) == []
    unwritten = "the kernels of a later call write nothing that this output is made of: " + kept
    later = trials(repeated=(FIRST, replace(OTHER, kept=frozenset({0})), FIRST))
    assert only(output_rules.recalled_result, later) == (REFUSED, unwritten, "output 0", {})
    always = replace(FIRST, kept=frozenset({0}))
    assert list(output_rules.recalled_result(trials(repeated=(always, always, always)))) == []


def test_code_that_looks_at_its_callers() -> None:
    looks = trials(events=[HostEvents(looks=["sys._getframe", "sys._getframe"]), HostEvents(looks=["gc.get_objects"])])
    what = "the host code looks at its callers or at all objects: an evaluator holds the expected output there"
    found = {"calls": ["sys._getframe", "gc.get_objects"]}
    assert only(host_rules.callers_examined, looks) == (SUSPECT, what, "sys._getframe", found)


def test_code_that_runs_later() -> None:
    later = trials(events=[HostEvents(later=["atexit.register"]), HostEvents(later=["signal.alarm", "atexit.register"])])
    what = "the host code registers code that runs later, in the evaluator's time"
    found = {"calls": ["atexit.register", "signal.alarm"]}
    assert only(host_rules.deferred_code, later) == (SUSPECT, what, "atexit.register", found)


def test_seeds_that_a_call_sets() -> None:
    once = trials(events=[HostEvents(seeds=["torch"]), HostEvents(seeds=["torch"])])
    what = "the call sets the seed of a global generator: the next random inputs are known in advance"
    assert only(host_rules.seed_set, once) == (REFUSED, what, "torch", {})
    both = list(host_rules.seed_set(trials(events=[HostEvents(seeds=["torch", "random"])])))
    assert [(one.rule, one.where) for one in both] == [("seed_set", "torch"), ("seed_set", "random")]
