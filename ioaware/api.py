"""The verbs as functions: `ioaware.predict`, `derive`, `trace`, `measure`, `verify`. Each loads what it needs when called."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ioaware._deferred_gc import patient_collector
from ioaware.result import ParamValue, Result

if TYPE_CHECKING:
    from ioaware.analysis.theory.claims.claim import Claim
    from ioaware.derivation.derive import Derived


SIMPLE = (int, float, bool, str)


def predict(case: str, *, machine: str | None = None, **params: ParamValue) -> Result:
    """What the closed form of a case says: bytes requested, compulsory, lower bound, FLOPs, extra memory.

    `machine` names the GPU whose on-chip memory the lower bound is for (an H200 unless given). Raises `UsageError` for a
    case, parameter or machine that does not exist or a value that cannot work.
    """
    from ioaware.machine import DEFAULT_MACHINE, find_machine
    from ioaware.prediction import predict as closed_form

    return closed_form(case, machine=find_machine(machine) if machine else DEFAULT_MACHINE, **params)


def derive(
    target: str | Callable[..., object],
    *args: Any,
    gpu: str = "cuda:90",
    config: Mapping[str, ParamValue] | None = None,
    counters: bool = False,
    **params: Any,
) -> Derived:
    """Exact formulas of what the kernels of `target` request, in its parameters, from their compiled IR. Needs no GPU.

    `target` is a case, `file.py:function`, `module:function` or the function itself. A function can also be given the very
    arguments it would be called with: the sizes of a tensor `x` are then parameters `x_0`, `x_1`, ... of the formulas.
    Kernels are compiled for `gpu`; autotuned ones have the first configuration with the values of `config`. With `counters`
    each launch also has what its warps will ask of their L1s, by the counters' names. The result's `evaluate` gives the bytes
    at other parameters. What data decide has a name with a line in the formulas and is given a value by it, as in
    `**{"Lock@layer_norm.py:179": 0}`. Raises `UsageError` for what cannot run, compile or be counted.
    """
    with patient_collector():
        from ioaware.compilation.triton_ir import find_gpu
        from ioaware.derivation.data_dependent import apart
        from ioaware.derivation.derive import derive as run_derived
        from ioaware.targets.target import load_target

        params, data = apart(params)
        if callable(target) and (args or not all(value is None or type(value) in SIMPLE for value in params.values())):
            from ioaware.targets.call_target import call_target

            called, given = call_target(target, args, params)
            return run_derived(called, given, gpu=find_gpu(gpu), autotune=config, counters=counters, data=data)
        loaded = load_target(target)
        return run_derived(loaded, loaded.resolve(params), gpu=find_gpu(gpu), autotune=config, counters=counters, data=data)


def trace(target: str | Callable[..., object], **params: ParamValue) -> Result:
    """What the kernels access, counted in Triton's interpreter: `target` is a case, `file.py:function`, `module:function`
    or the function itself. Needs no GPU; small sizes only."""
    from ioaware.targets.target import load_target
    from ioaware.tracing.trace import trace as run_traced

    loaded = load_target(target)
    return run_traced(loaded, loaded.resolve(params))


def measure(target: str, **params: ParamValue) -> Result:
    """What the counters of the GPU say, in a process of its own. Raises `MachineError` where they cannot be read."""
    from ioaware.measurement.measure import measure as run_measured

    return run_measured(target, params)


class Claims(tuple["Claim", ...]):
    """Claims that a notebook shows as a table."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        from ioaware.display.notebook import claims_html

        return claims_html(self)


def verify(*claims: str) -> Claims:
    """The named claims (all of them without names), with evidence and verdict. Raises `UsageError` for an unknown name."""
    from ioaware.sweep.verify import verify as judge

    return Claims(judge(claims))
