"""Put the least time that a record's own counters allow beside its measured time."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from ioaware.errors import IoawareError
from ioaware.machine import Machine
from ioaware.machine.detect import preset_for
from ioaware.machine.time_bound import TimeBound, time_bound
from ioaware.result import Launch, ParamValue, Result, Traffic, total

IN_FLOAT16 = "ioaware.kernels.attention.targets:"
"""Targets that make float16 tensors, and whose records name no dtype."""


def machine_of(result: Result) -> Machine | None:
    """Return the preset of the GPU that a record was measured on; None for others."""
    found = result.environment or {}
    device, sms = found.get("gpu"), found.get("sm_count")
    return preset_for(device, sms) if isinstance(device, str) and isinstance(sms, int) else None


def bound_of(result: Result) -> TimeBound | None:
    """Return the least time of a record's bytes and FLOPs on its GPU.

    It holds for all kernels of the call that were counted. FLOPs that neither the record nor a case of the paper knows leave
    arithmetic out; `with_flops` adds those of a derivation. None for a GPU without a preset, and for a record without bytes
    and FLOPs.
    """
    machine = machine_of(result)
    if result.source != "measure" or machine is None:
        return None
    moved = [traffic for traffic in (result.requested, result.assumed) if traffic is not None]
    every = [launch.hbm for launch in result.launches]
    hbm = total(every) if every and None not in every else result.hbm
    types = {one for launch in result.launches for one in launch.matmul_types}
    return _bound(machine, result.flops or _flops(result), _dtype(result), types, total(moved), hbm)


def launch_bound(result: Result, launch: Launch) -> TimeBound | None:
    """Return the least time of one launch of a record; None as for `bound_of`."""
    machine = machine_of(result)
    if result.source != "measure" or machine is None:
        return None
    return _bound(machine, launch.flops, _dtype(result), launch.matmul_types, launch.requested, launch.hbm)


def has_flops(result: Result) -> bool:
    """Return whether a record or a closed form of its case has the FLOPs."""
    return result.flops is not None or _flops(result) is not None


def with_flops(result: Result, derived: Result | None) -> Result:
    """Return a measured record with the FLOPs that a derivation counted.

    Its least times are computed again. The record stays as it is where it has FLOPs, where nothing is derived, and where
    autotuned kernels ran in another configuration. Launches get theirs where the same kernels were launched in the same order.
    """
    if derived is None or derived.flops is None or result.flops is not None or result.source != "measure":
        return result
    measured = [one for one in result.launches if one.origin == "triton"]
    own = [one for one in derived.launches if one.origin == "triton"]
    alike = [one.kernel for one in own] == [one.kernel for one in measured]
    if any(one.configuration for one in measured) and result.tuning != derived.tuning:
        return result
    each = iter(own)
    launches = tuple(
        replace(launch, flops=other.flops, matmul_types=other.matmul_types, time_bound=None)
        if alike and launch.origin == "triton" and (other := next(each))
        else launch
        for launch in result.launches
    )
    return replace(result, flops=derived.flops, launches=launches, time_bound=None)


def with_known_flops(results: Iterable[Result]) -> list[Result]:
    """Return the records, measured ones with the FLOPs of the derivations among them."""
    every = list(results)
    derived = {_point(one): one for one in every if one.source == "derive" and one.status == "ok"}
    return [with_flops(one, derived.get(_point(one))) for one in every]


def _point(result: Result) -> tuple[str, frozenset[tuple[str, ParamValue]]]:
    return result.target, frozenset((name, value) for name, value in result.params.items() if value is not None)


def with_bounds(result: Result) -> Result:
    """Return a record with its least time, and that of each launch.

    A record that has them keeps them.
    """
    launches = tuple(
        replace(launch, time_bound=bound.to_dict())
        if launch.time_bound is None and launch.time_ns and (bound := launch_bound(result, launch))
        else launch
        for launch in result.launches
    )
    bound = bound_of(result) if result.time_bound is None and result.time_ns else None
    return replace(result, launches=launches, time_bound=bound.to_dict() if bound else result.time_bound)


def _bound(
    machine: Machine,
    flops: int | None,
    dtype: ParamValue,
    matmul_types: Collection[str],
    requested: Traffic | None,
    hbm: Traffic | None,
) -> TimeBound | None:
    found = time_bound(
        machine,
        flops=flops,
        dtype=dtype,
        matmul_types=matmul_types,
        requested_bytes=requested.total_bytes if requested else None,
        hbm_read_bytes=hbm.read_bytes if hbm else None,
        hbm_write_bytes=hbm.write_bytes if hbm else None,
    )
    return None if found.time_ns is None else found


def _dtype(result: Result) -> ParamValue:
    """Return the dtype of a call's matrices; None where nothing says it."""
    from ioaware.cases import CASES

    given = result.params.get("dtype")
    if given is None and result.target in CASES:
        return next((one.default for one in CASES[result.target].params if one.name == "dtype"), None)
    return "float16" if given is None and result.target.startswith(IN_FLOAT16) else given


def _flops(result: Result) -> int | None:
    """Return the FLOPs of a case by its closed form; None for another target."""
    from ioaware.cases import CASES

    if result.target not in CASES:
        return None
    from ioaware.prediction import predicted_flops

    try:
        return predicted_flops(result.target, result.params)
    except IoawareError:
        return None
