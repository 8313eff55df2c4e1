"""What goes from a target to its trials, and on to the verdict."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from ioaware.compilation.triton_ir import find_gpu
from ioaware.derivation.derived import Derived
from ioaware.errors import UsageError
from ioaware.gate.untrusted import examine as module
from ioaware.gate.untrusted.examine import Untrusted, examine
from ioaware.gate.untrusted.finding import Finding, Outcome
from ioaware.gate.untrusted.host_events import HostEvents
from ioaware.gate.untrusted.kernel_evidence import Evidence
from ioaware.gate.untrusted.trial_session import Call
from ioaware.gate.untrusted.trials import Reference, Trials
from ioaware.result import Launch

ONES, TWOS = torch.ones(4), 2 * torch.ones(4)
READ = torch.zeros(4, dtype=torch.bool)
FIRST = Call((ONES,), (Launch("k"),), (), (), (READ,), HostEvents(), same_memory=False)
OTHER = replace(FIRST, outputs=(TWOS,))
SOUND = Trials(
    names=("x",), inputs=((ONES,), (TWOS,)), repeated=(FIRST, OTHER, FIRST), reversed=(OTHER, FIRST), refilled=FIRST,
    reference=Reference(((ONES,), (TWOS,)), (ONES,), ignores_unread=False, tolerance=None),
)  # fmt: skip


@pytest.fixture
def handed(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return what the trials were run with; the derivation launches the same kernel."""
    calls: list[Any] = []

    def run_trials(*args: Any, **kwargs: Any) -> Trials:
        calls.append((args, kwargs))
        return replace(SOUND, error="it raised" if args[1].get("n") == 9 else "")

    monkeypatch.setattr(module, "run_trials", run_trials)
    monkeypatch.setattr(module, "_derived", lambda target: (Derived("derive", "f", launches=(Launch("k"),)), "data decide"))
    return calls


def test_trials_get_the_targets_parameters_and_options(handed: list[Any]) -> None:
    load, reference = (lambda: None), (lambda: None)
    target = Untrusted("f", load, {"n": 64}, {"n": 4}, config={"BLOCK": 32})  # type: ignore[arg-type]
    verdict = examine(target, reference=reference, writable=["y", "y"], output_checked_elsewhere=True)  # type: ignore[arg-type]
    ((args, kwargs),) = handed
    assert args == (load, {"n": 4})
    assert kwargs == {"reference": reference, "writable": frozenset({"y"}), "autotune": {"BLOCK": 32}}
    evidence = verdict.evidence
    assert (evidence.target, evidence.params, evidence.trial_params) == ("f", {"n": 64}, {"n": 4})
    assert (evidence.output_checked_elsewhere, evidence.measured, evidence.not_derived) == (True, None, "data decide")
    assert [one.rule for one in verdict.findings] == ["not_derived", "other_path"]
    assert verdict.to_dict()["also_params"] is None


def test_second_trials_are_judged_apart(handed: list[Any]) -> None:
    target = Untrusted("f", lambda: None, {"n": 4, "m": 1}, {"n": 4, "m": 1}, also_params={"n": 9, "m": 1})  # type: ignore[arg-type, return-value]
    verdict = examine(target)
    assert [args[1] for args, _ in handed] == [{"n": 4, "m": 1}, {"n": 9, "m": 1}]
    found = [(one.rule, one.outcome, one.what, one.where) for one in verdict.findings]
    assert found == [
        ("not_derived", Outcome.INCOMPLETE, "there are no formulas: data decide", "f"),
        ("trials", Outcome.INCOMPLETE, "it raised", "f at n=9"),
    ]
    assert verdict.to_dict()["also_params"] == {"n": 9, "m": 1}


def test_a_named_target_has_all_its_parameters(tmp_path: Path) -> None:
    (tmp_path / "t.py").write_text("def f(x, scale=2): ...\n")
    spec = f"{tmp_path / 't.py'}:f"
    target = Untrusted.named(
        spec, {"x": "f32[n=8]"}, {"n": "5"}, also={"scale": "3"}, typed=True, config={"B": 1}, gpu="cuda:80"
    )
    assert target.name.endswith("t.py:f")
    assert target.params == {"x": "float32[n]", "n": 8, "scale": 2}
    assert target.trial_params == {"x": "float32[n]", "n": 5, "scale": 2}
    assert target.also_params == {"x": "float32[n]", "n": 5, "scale": 3}
    assert (target.config, target.gpu, target.load_to_derive) == ({"B": 1}, "cuda:80", None)
    assert target.load().name == target.name
    plain = Untrusted.named(spec, {"x": "f32[n=8]"}, {}, typed=True)
    assert (plain.also_params, plain.config, plain.gpu) == ({}, {}, "cuda:90")
    with pytest.raises(UsageError) as raised:
        Untrusted.named(spec, {"x": "f32[n=8]"}, {"n": "5"}, also={"n": "5"}, typed=True)
    assert raised.value.what == "the second sizes are those of the first trials"
    assert raised.value.remedy == "Give others, for example --also n=1300."


def test_second_trials_are_judged_at_their_own_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was derived and measured at the first sizes says nothing of them."""
    seen: list[Evidence] = []
    monkeypatch.setattr(module, "run_trials", lambda load, params, **_: replace(SOUND, names=tuple(params)))
    monkeypatch.setattr(module, "_derived", lambda target: (Derived("derive", "f", launches=(Launch("k"),)), "data decide"))
    monkeypatch.setattr(
        module, "findings", lambda evidence: seen.append(evidence) or iter([Finding("a", Outcome.SUSPECT, "w")])
    )
    target = Untrusted("f", lambda: None, {"n": 64, "m": 1}, {"n": 4, "m": 1}, also_params={"n": 9, "m": 2})  # type: ignore[arg-type, return-value]
    found = examine(target, output_checked_elsewhere=True)
    first, second = seen
    assert (first.params, first.trial_params, first.not_derived) == ({"n": 64, "m": 1}, {"n": 4, "m": 1}, "data decide")
    assert second.params == second.trial_params == {"n": 9, "m": 2}
    assert (second.derived, second.not_derived, second.measured) == (None, "", None)
    assert (second.target, second.output_checked_elsewhere) == ("f", True)
    assert [one.where for one in found.findings] == ["", "at n=9, m=2"]


def test_the_derivation_is_of_the_gpu_and_the_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []

    def derive(loaded: Any, params: Any, **options: Any) -> Any:
        calls.append((loaded.name, params, options))
        if params == {"n": 9}:
            raise UsageError("it cannot run", "Leave it.")
        return "derived"

    monkeypatch.setattr("ioaware.derivation.derive.derive", derive)

    def load(name: str) -> Any:
        return lambda: SimpleNamespace(name=name, resolve=lambda given: {**given})

    target = Untrusted("f", load("run"), {"n": 4}, {"n": 4}, config={"BLOCK": 32}, gpu="cuda:80")
    of: Any = vars(module)["_derived"]
    assert of(target) == ("derived", "")
    ((name, params, options),) = calls
    assert (name, params, options) == ("run", {"n": 4}, {"gpu": find_gpu("cuda:80"), "autotune": {"BLOCK": 32}})
    assert of(replace(target, load_to_derive=load("derive"))) == ("derived", "")
    assert calls[-1][0] == "derive"
    assert of(replace(target, params={"n": 9})) == (None, "it cannot run")
