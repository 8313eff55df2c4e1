"""Provide the verbs of the command line as functions.

Each imports what it needs when called.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ioaware._deferred_gc import deferred_full_gc
from ioaware.display import notebook
from ioaware.result import ParamValue, Result

if TYPE_CHECKING:
    from pathlib import Path

    from ioaware.advice.advice_result import Advice
    from ioaware.analysis.fusion.answer import Fusion
    from ioaware.analysis.theory.claims.claim import Claim
    from ioaware.derivation.annotated_source import AnnotatedSource
    from ioaware.derivation.derived import Derived
    from ioaware.gate.untrusted.examine import KernelVerdict, Untrusted
    from ioaware.simulation.simulation_result import Simulated
    from ioaware.targets.target import Target
    from ioaware.walkthrough.walk import Walk


SIMPLE = (int, float, bool, str)


def _figures(result: Result) -> str:
    """Return a result's figures for a notebook."""
    from ioaware.report.notebook_figures import figures_html

    return figures_html(result)


notebook.DRAWERS.append(_figures)


def predict(case: str, *, machine: str | None = None, **params: ParamValue) -> Result:
    """Return the closed form of a case: bytes, lower bound, FLOPs, extra memory.

    `machine` names the GPU whose on-chip memory the lower bound assumes (default: H200). Raises `UsageError` for an unknown
    case, parameter or machine, and for a value out of range.
    """
    from ioaware.machine import DEFAULT_MACHINE, find_machine_or_file
    from ioaware.prediction import predict as closed_form

    return closed_form(case, machine=find_machine_or_file(machine) if machine else DEFAULT_MACHINE, **params)


def derive(
    target: str | Callable[..., object],
    *args: Any,
    gpu: str = "cuda:90",
    config: Mapping[str, ParamValue] | None = None,
    counters: bool = False,
    check: bool = False,
    eager: bool = False,
    **params: Any,
) -> Derived:
    """Derive exact formulas of the bytes that the kernels of `target` request.

    Needs no GPU.

    `target` is a case, `file.py:function`, `module:function`, or a function. A function also takes the arguments of its
    call: the sizes of a tensor `x` are then the parameters `x_0`, `x_1`, ... of the formulas. Kernels are compiled for
    `gpu`. An autotuned kernel takes its first configuration with the values of `config`. `counters` adds the L1 requests of
    each launch, under Nsight Compute's names. `check` counts each exact launch again by plain interpretation; one that
    differs is not exact. `eager` runs functions of torch.compile uncompiled; otherwise their kernels are those that the
    compiler generates for the GPU. A number that depends on data is a named unknown of the formulas; pass its value by that
    name, as in `**{"Lock@layer_norm.py:179": 0}`. The result's `evaluate` gives the bytes at other
    parameters. Raises `UsageError` for a target that cannot run, compile or be counted.
    """
    with deferred_full_gc():
        from ioaware.compilation.triton_ir import find_gpu
        from ioaware.derivation.data_dependent import split_unknowns
        from ioaware.derivation.derive import derive as run_derived
        from ioaware.targets.target import load_target

        chosen_gpu = find_gpu(gpu)
        params, data = split_unknowns(params)
        if callable(target) and _is_call(target, args, params):
            from ioaware.targets.call_target import call_target

            called, given = call_target(target, args, params)
        else:
            called = load_target(target, chosen_gpu)
            given = called.resolve(params)
        return run_derived(
            called, given, gpu=chosen_gpu, autotune=config, counters=counters, data=data, check=check, eager=eager
        )


def explain(
    target: str | Callable[..., object],
    *args: Any,
    gpu: str = "cuda:90",
    config: Mapping[str, ParamValue] | None = None,
    **params: Any,
) -> AnnotatedSource:
    """Annotate each line of the kernels' source with its share of the bytes.

    Needs no GPU.

    Arguments and errors are those of `derive`. The value's `kernels` hold the lines with their formulas.
    """
    derived = derive(target, *args, gpu=gpu, config=config, **params)
    from ioaware.derivation.annotated_source import AnnotatedSource

    return AnnotatedSource.of(derived)


def trace(
    target: str | Callable[..., object],
    *args: Any,
    config: Mapping[str, ParamValue] | None = None,
    eager: bool = False,
    **params: Any,
) -> Result:
    """Count what the kernels of `target` access, in Triton's interpreter.

    Needs no GPU.

    `target` is a case, `file.py:function`, `module:function`, or a function. A function also takes the arguments of its
    call; its tensors are copied. An autotuned kernel takes its first configuration with the values of `config`. The
    interpreter is slow: use small sizes. `eager`: as in `derive`. Raises `UsageError` for a target that cannot run, and for an
    access outside of the tensor that its pointer belongs to.
    """
    from ioaware.targets.target import load_target
    from ioaware.tracing.trace import trace as run_traced

    if callable(target) and _is_call(target, args, params):
        from ioaware.targets.call_target import call_target

        called, given = call_target(target, args, params, with_data=True)
        return run_traced(called, given, autotune=config, eager=eager, compiles=True)
    loaded = load_target(target)
    return run_traced(loaded, loaded.resolve(params), autotune=config, eager=eager, compiles=True)


def walk(
    target: str | Callable[..., object],
    *args: Any,
    source: str | None = None,
    values: bool = False,
    config: Mapping[str, ParamValue] | None = None,
    **params: Any,
) -> Walk:
    """Return which tiles the kernels of `target` move, step by step.

    They are moved between HBM and on-chip memory. Needs no GPU.

    Arguments and errors are those of `trace`, whose run it is. `source` chooses a case's inputs: `seed`, a toy example's Q, K
    and V, or an .npz file. `values` keeps the variables on chip and what is written.
    """
    from ioaware.targets.target import load_target
    from ioaware.walkthrough.walk import walk as run_walked

    if callable(target) and _is_call(target, args, params):
        from ioaware.targets.call_target import call_target

        called, given = call_target(target, args, params, with_data=True)
        return run_walked(called, given, source=source, keep_values=values, autotune=config)
    loaded = load_target(target)
    return run_walked(loaded, loaded.resolve(params), source=source, keep_values=values, autotune=config)


def _is_call(target: object, args: tuple[Any, ...], params: Mapping[str, Any]) -> bool:
    """Return whether a function is given the arguments of its call, not parameters."""
    simple = all(value is None or type(value) in SIMPLE for value in params.values())
    return callable(target) and (bool(args) or not simple)


def simulate(
    target: str | Callable[..., object],
    *,
    machine: str = "H200",
    gpu: str | None = None,
    config: Mapping[str, ParamValue] | None = None,
    cold: bool = False,
    **params: Any,
) -> Simulated:
    """Predict the bytes between HBM and the L2 that the kernels of `target` move.

    Needs no GPU.

    `machine` is a preset or a TOML file: the GPU whose L2 and SMs are modelled. Kernels are compiled for `gpu`, the machine's
    unless given. `config`, `params`: as in `derive`. `cold` empties the L2 before each launch and leaves dirty lines unwritten,
    as `measure` does. Raises `UsageError` for what cannot be derived, bounded or replayed, `DataError` for a damaged machine
    file.
    """
    with deferred_full_gc():
        from ioaware.compilation.triton_ir import gpu_or_machines
        from ioaware.derivation.data_dependent import split_unknowns
        from ioaware.machine import find_machine_or_file
        from ioaware.simulation.simulate import simulate as run_simulated
        from ioaware.targets.target import load_target

        found = find_machine_or_file(machine)
        params, data = split_unknowns(params)
        compiled_for = gpu_or_machines(gpu, found)
        loaded = load_target(target, compiled_for)
        resolved = loaded.resolve(params)
        return run_simulated(loaded, resolved, machine=found, gpu=compiled_for, autotune=config, data=data, cold=cold)


def advise(
    target: str | Callable[..., object],
    *,
    machine: str = "H200",
    gpu: str | None = None,
    seconds: float = 300.0,
    **params: Any,
) -> Advice:
    """Rank the choices that `target` leaves open by predicted bytes and time.

    Needs no GPU. The choices are orders, blocks and head groupings of a case, configurations and program orders of another
    target. Kernels are compiled for `gpu`, the machine's unless given. The value's `ranked` begins with the best choice;
    `rejected` has those that do not fit. The search ends after `seconds`, once a choice fits. Raises `UsageError` for a target
    that leaves nothing to choose or cannot be simulated, `DataError` for a damaged machine file.
    """
    with deferred_full_gc():
        from ioaware.advice.advise import advise as run_advised
        from ioaware.compilation.triton_ir import gpu_or_machines
        from ioaware.machine import find_machine_or_file
        from ioaware.targets.target import load_target

        found = find_machine_or_file(machine)
        compiled_for = gpu_or_machines(gpu, found)
        loaded = load_target(target, compiled_for)
        return run_advised(loaded, loaded.resolve(params), machine=found, gpu=compiled_for, seconds=seconds)


def verdict(
    target: str | Callable[..., object],
    *args: Any,
    reference: str | Callable[..., object] | None = None,
    no_reference: bool = False,
    inplace: Sequence[str] = (),
    trial: Mapping[str, ParamValue] | None = None,
    also: Mapping[str, ParamValue] | None = None,
    record: Path | None = None,
    time_us: float | None = None,
    machine: str = "H200",
    gpu: str | None = None,
    config: Mapping[str, ParamValue] | None = None,
    **params: Any,
) -> KernelVerdict:
    """Judge an untrusted kernel from runs in Triton's interpreter.

    Needs no GPU, and is no sandbox.

    `target` is what `trace` takes. `reference` is a trusted function with the same inputs; `no_reference` says that the output
    is checked elsewhere. `inplace` names inputs that the target is meant to write. `trial` has the sizes at which the output is
    examined, where they differ from `params`, and `also` second ones, at which it must be right too. `record` is a file with a
    measured record, `time_us` a measured time, of `machine`. The value's `outcome` is SOUND, REFUSED, SUSPECT, IMPOSSIBLE or
    INCOMPLETE; its `findings` give reasons.

    Raises `UsageError` for a target or reference that does not exist.
    """
    from ioaware.errors import UsageError
    from ioaware.gate.untrusted.examine import Untrusted, examine
    from ioaware.gate.untrusted.measured_evidence import measured_evidence
    from ioaware.targets.target import load_target

    gpu = gpu or machine
    if callable(target) and _is_call(target, args, params):
        if trial or also:
            raise UsageError(
                "trial and also name sizes, and tensors have theirs", 'Name them: x="f32[n=1000]", also={"n": 1300}.'
            )
        untrusted, trusted = _untrusted_call(target, reference, args, params, gpu, config)
    else:
        untrusted = Untrusted.named(target, params, trial or {}, also=also, config=config, gpu=gpu)
        trusted = None if reference is None else lambda: load_target(reference)
    measured = measured_evidence(machine, untrusted.params, target=untrusted.name, record=record, time_us=time_us)
    return examine(untrusted, reference=trusted, output_checked_elsewhere=no_reference, writable=inplace, measured=measured)


def _untrusted_call(
    target: Callable[..., object],
    reference: str | Callable[..., object] | None,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    gpu: str,
    config: Mapping[str, ParamValue] | None,
) -> tuple[Untrusted, Callable[[], Target] | None]:
    """Return a call of a function as an untrusted target, and of its reference.

    Both calls are the same.
    """
    from ioaware.gate.untrusted.examine import Untrusted
    from ioaware.targets.call_target import call_target
    from ioaware.targets.loading import load_function

    called, given = call_target(target, args, kwargs)
    run = lambda: call_target(target, args, kwargs, with_data=True)[0]  # noqa: E731
    untrusted = Untrusted(called.name, run, given, given, lambda: called, dict(config or {}), gpu)
    if reference is None:
        return untrusted, None
    trusted = load_function(reference) if isinstance(reference, str) else reference
    return untrusted, lambda: call_target(trusted, args, kwargs, with_data=True)[0]


def measure(target: str, **params: ParamValue) -> Result:
    """Read the hardware counters of the GPU, in a separate process.

    Raises `MachineError` where they cannot be read.
    """
    from ioaware.derivation.measured_flops import with_derived_flops
    from ioaware.measurement.measure import measure as run_measured

    return with_derived_flops(run_measured(target, params))


def fuse(program: Callable[..., Any]) -> Fusion:
    """Return how one pass computes dependent reductions, or a proof against it.

    The reductions use each other's results, and the proof is that no finite state can.

    `program` is a function of sequences written with `ioaware.fusion`. Raises `UsageError` for one that is not, and
    `InconclusiveError` where neither answer is proven.
    """
    from ioaware.analysis.fusion.answer import fuse as find

    return find(program)


class Claims(tuple["Claim", ...]):
    """A tuple of claims that a notebook shows as a table."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        from ioaware.display.notebook import claims_html

        return claims_html(self)


def verify(*claims: str) -> Claims:
    """Check the named claims (default: all) and return them with evidence and verdict.

    Raises `UsageError` for an unknown name.
    """
    from ioaware.sweep.verify import verify as judge

    return Claims(judge(claims))
