"""Find which configuration of an autotuned kernel a recorded launch ran with.

Records name it. Older ones do not, but they have registers, shared and local memory of each launch, which a configuration
compiles to.
"""

from __future__ import annotations

from collections.abc import Sequence

from ioaware.capture.capture import capture
from ioaware.compilation.launches import CapturedLaunch
from ioaware.derivation.derive import derive
from ioaware.result import Launch, Params, ParamValue, Result
from ioaware.targets.target import Target

Tuning = dict[str, ParamValue]


def compiled_otherwise(predicted: Result, measured: Result) -> bool:
    """Return whether an autotuned kernel was measured in another configuration.

    That is where the record names none, and its resources are not those of the predicted launch.
    """
    pairs = zip(_launches(predicted), _launches(measured), strict=False)
    return any(
        one.configuration is not None and other.configuration is None and _resources(one) != _resources(other)
        for one, other in pairs
    )


def measured_tuning(measured: Result, target: Target, params: Params) -> Tuning:
    """Return the configurations of a recorded point's kernels, as `derive` takes them.

    A kernel whose record names none has the only configuration that compiles to the recorded resources. It is left out where
    several do or none does.
    """
    tuning, recorded = dict(measured.tuning), _launches(measured)
    unnamed = {launch.kernel for launch in recorded if launch.configuration is None}
    events = {one.name: one for one in capture(target, params, autotune=tuning).launches}
    for kernel in sorted(unnamed & events.keys()):
        choices = _choices(events[kernel])
        found = [choice for choice in choices if _compiles_to(recorded, kernel, target, params, tuning | choice)]
        if len(found) == 1:
            tuning |= found[0]
    return tuning


def _launches(result: Result) -> list[Launch]:
    return [launch for launch in result.launches if launch.origin == "triton"]


def _choices(launch: CapturedLaunch) -> list[Tuning]:
    """Return the configurations of a kernel that has several."""
    known = {tuple(sorted(one.items())): one for one in launch.alternatives}
    named = [{f"{launch.name}:{name}": value for name, value in one.items()} for one in known.values()]
    return named if len(named) > 1 else []


def _compiles_to(recorded: Sequence[Launch], kernel: str, target: Target, params: Params, tuning: Tuning) -> bool:
    """Return whether a kernel's launches have the recorded resources."""
    derived = [launch for launch in derive(target, params, autotune=tuning).launches if launch.kernel == kernel]
    return [_resources(one) for one in derived] == [_resources(one) for one in recorded if one.kernel == kernel]


def _resources(launch: Launch) -> tuple[object, ...]:
    return launch.grid, launch.registers, launch.shared_bytes, launch.local_bytes or 0
