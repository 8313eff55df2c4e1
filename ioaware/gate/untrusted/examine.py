"""Examine an untrusted kernel and state the verdict.

The module gathers evidence and applies every rule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from ioaware._deferred_gc import deferred_full_gc
from ioaware.errors import IoawareError, UsageError
from ioaware.gate.untrusted import host_rules, number_rules, output_rules
from ioaware.gate.untrusted.finding import Finding, Outcome, together
from ioaware.gate.untrusted.guarded_functions import GuardedFunctions
from ioaware.gate.untrusted.kernel_evidence import Evidence, Measured
from ioaware.gate.untrusted.trial_session import LoadTarget
from ioaware.gate.untrusted.trials import Trials, run_trials
from ioaware.result import ParamValue, Traffic
from ioaware.targets.target import load_target

if TYPE_CHECKING:
    from ioaware.derivation.derived import Derived

Rule = Callable[[Evidence], Iterator[Finding]]
OUTPUT_RULES: tuple[Rule, ...] = (
    output_rules.no_kernel,
    output_rules.no_output,
    output_rules.decoy_kernel,
    output_rules.unwritten_output,
    output_rules.wrong_output,
    output_rules.constant_output,
    output_rules.cached_result,
    output_rules.recalled_result,
    output_rules.unread_input,
    output_rules.changed_input,
    output_rules.aliased_output,
    output_rules.deferred_output,
    host_rules.hidden_failure,
)
"""Rules that need every trial."""
HOST_RULES: tuple[Rule, ...] = (
    host_rules.other_stream,
    host_rules.background_thread,
    host_rules.callers_examined,
    host_rules.deferred_code,
    host_rules.replaced_function,
    host_rules.seed_set,
    host_rules.l2_policy,
    host_rules.native_code,
    host_rules.cuda_calls,
)
"""Rules that hold for whatever ran, also where a trial failed."""
NUMBER_RULES: tuple[Rule, ...] = (
    number_rules.not_derived,
    number_rules.other_kernels,
    number_rules.other_path,
    number_rules.impossible_time,
    number_rules.impossible_hbm,
)
RULES = tuple(rule.__name__ for rule in (*OUTPUT_RULES, *HOST_RULES, *NUMBER_RULES))


@dataclass(frozen=True)
class KernelVerdict:
    """The verdict on a target: its findings, and the evidence they come from."""

    evidence: Evidence
    findings: tuple[Finding, ...]
    also_params: Mapping[str, ParamValue] = field(default_factory=dict[str, ParamValue])
    """The second sizes at which the output was examined; empty where there are none."""

    @property
    def outcome(self) -> Outcome:
        """Return the most severe of the findings; SOUND where there is none."""
        return together(self.findings)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form. What is not known is null."""
        evidence, trials = self.evidence, self.evidence.trials
        call = trials.repeated[-1] if trials.repeated else None
        return {
            "schema": 1,
            "verdict": str(self.outcome),
            "target": evidence.target,
            "params": dict(evidence.params),
            "trial_params": dict(evidence.trial_params),
            "also_params": dict(self.also_params) or None,
            "findings": [finding.to_dict() for finding in self.findings],
            "rules": list(RULES),
            "numbers": self.numbers(),
            "kernels": list(call.kernels) if call else None,
            "library_operators": list(call.operators) if call else None,
            "reference": "compared" if trials.reference else None,
        }

    def numbers(self) -> dict[str, Any]:
        """Return the bytes, registers, spills and times; null for what is not known."""
        derived, measured = self.evidence.derived, self.evidence.measured
        launches = [launch for launch in derived.launches if launch.origin == "triton"] if derived else []
        floor, record = self.evidence.compulsory, measured.record if measured else None
        return {
            "compulsory": _bytes(floor),
            "requested": _bytes(derived.requested if derived else None),
            "assumed": _bytes(derived.assumed if derived else None),
            "hbm": _bytes(record.hbm if record else None),
            "exact": derived.exact if derived else None,
            "registers": _largest([launch.registers for launch in launches]),
            "spilled_bytes": _largest([launch.local_bytes for launch in launches]),
            "time_ns": measured.time_ns if measured else None,
            "least_time_ns": number_rules.least_time_ns(floor, measured) if floor and measured else None,
            "machine": measured.machine.name if measured else None,
        }


@dataclass(frozen=True)
class Untrusted:
    """A target that `load` loads anew each time.

    Its parameters are those judged, those of the trials, and those of second trials, if there are any.
    """

    name: str
    load: LoadTarget
    params: Mapping[str, ParamValue]
    trial_params: Mapping[str, ParamValue]
    load_to_derive: LoadTarget | None = None
    """What is derived, where it differs from what is run."""
    config: Mapping[str, ParamValue] = field(default_factory=dict[str, ParamValue])
    gpu: str = "cuda:90"
    also_params: Mapping[str, ParamValue] = field(default_factory=dict[str, ParamValue])

    @classmethod
    def named(
        cls,
        spec: str | Callable[..., Any],
        given: Mapping[str, ParamValue],
        trial: Mapping[str, ParamValue],
        *,
        also: Mapping[str, ParamValue] | None = None,
        typed: bool = False,
        config: Mapping[str, ParamValue] | None = None,
        gpu: str = "cuda:90",
    ) -> Untrusted:
        """Return a target by its name with all parameters; `typed`: they are text.

        Raises `UsageError` for a target or parameter that does not exist, and for second sizes that are the first ones.
        """
        with GuardedFunctions():
            target = load_target(spec)
            params = target.resolve(given, typed=typed)
            trial_params = target.resolve({**given, **trial}, typed=typed)
            also_params = target.resolve({**given, **trial, **also}, typed=typed) if also else {}
        if also and also_params == trial_params:
            raise UsageError("the second sizes are those of the first trials", "Give others, for example --also n=1300.")
        load = partial(load_target, spec)
        return cls(target.name, load, params, trial_params, config=dict(config or {}), gpu=gpu, also_params=also_params)


def examine(
    target: Untrusted,
    *,
    reference: LoadTarget | None = None,
    output_checked_elsewhere: bool = False,
    writable: Iterable[str] = (),
    measured: Measured | None = None,
) -> KernelVerdict:
    """Return the verdict on a target from its trials, its derivation and measurements.

    `reference` loads a trusted function with the same inputs in the same order. `writable` names the inputs that the target is
    meant to change. Raises nothing for what the target does: what cannot be examined is a finding.
    """
    run = partial(run_trials, target.load, reference=reference, writable=frozenset(writable), autotune=target.config)
    with deferred_full_gc():
        trials = run(target.trial_params)
        also = run(target.also_params) if target.also_params else None
        derived, why = _derived(target)
    evidence = Evidence(
        target.name,
        dict(target.params),
        dict(target.trial_params),
        trials,
        derived,
        why,
        measured,
        output_checked_elsewhere,
    )
    found = [*findings(evidence), *(_also_found(evidence, also, target.also_params) if also else ())]
    return KernelVerdict(evidence, tuple(found), target.also_params)


def _also_found(evidence: Evidence, trials: Trials, params: Mapping[str, ParamValue]) -> Iterator[Finding]:
    """Yield what the rules about outputs and host code find at second sizes."""
    changed = ", ".join(f"{name}={params[name]}" for name in params if params[name] != evidence.trial_params.get(name))
    second = replace(evidence, params=params, trial_params=params, trials=trials, derived=None, not_derived="", measured=None)
    for one in findings(second):
        yield replace(one, where=f"{one.where} at {changed}" if one.where else f"at {changed}")


def findings(evidence: Evidence) -> Iterator[Finding]:
    """Yield what every rule finds; a trial that failed is a finding too."""
    if evidence.trials.error or not _all_ran(evidence.trials):
        what = evidence.trials.error or "not every trial ran"
        yield Finding("trials", Outcome.INCOMPLETE, what, evidence.target)
    else:
        for rule in OUTPUT_RULES:
            yield from rule(evidence)
    for rule in (*HOST_RULES, *NUMBER_RULES):
        yield from rule(evidence)


def _all_ran(trials: Trials) -> bool:
    """Return whether there is every call that the rules compare."""
    return len(trials.repeated) > 2 and len(trials.reversed) == 2 and trials.refilled is not None


def _derived(target: Untrusted) -> tuple[Derived | None, str]:
    """Return the derivation, or why there is none."""
    from ioaware.compilation.triton_ir import find_gpu
    from ioaware.derivation.derive import derive

    gpu = find_gpu(target.gpu)
    try:
        with GuardedFunctions():
            loaded = (target.load_to_derive or target.load)()
            return derive(loaded, loaded.resolve(target.params), gpu=gpu, autotune=target.config), ""
    except IoawareError as error:
        return None, error.what


def _bytes(moved: Traffic | None) -> dict[str, Any] | None:
    return None if moved is None else {name: value for name, value in asdict(moved).items() if value is not None}


def _largest(values: list[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return max(known) if known and len(known) == len(values) else None
