"""Put the least time that a record's own counters allow beside its measured time."""

from __future__ import annotations

from dataclasses import replace

from ioaware.errors import IoawareError
from ioaware.machine import DEFAULT_MACHINE, Machine
from ioaware.machine.detect import preset_for
from ioaware.machine.time_bound import TimeBound, time_bound
from ioaware.result import Launch, ParamValue, Result, Traffic, total


def machine_of(result: Result) -> Machine | None:
    """Return the preset of the GPU that a record was measured on; None for others."""
    found = result.environment or {}
    device, sms = found.get("gpu"), found.get("sm_count")
    return preset_for(device, sms) if isinstance(device, str) and isinstance(sms, int) else None


def bound_of(result: Result, flops: int | None = None) -> TimeBound | None:
    """Return the least time of a record's bytes and FLOPs on its GPU.

    It holds for all kernels of the call that were counted. FLOPs that neither the record nor a case of the paper knows leave
    arithmetic out. None for a GPU without a preset, and for a record without bytes and FLOPs.
    """
    machine = machine_of(result)
    if result.source != "measure" or machine is None:
        return None
    moved = [traffic for traffic in (result.requested, result.assumed) if traffic is not None]
    every = [launch.hbm for launch in result.launches]
    hbm = total(every) if every and None not in every else result.hbm
    return _bound(machine, flops or result.flops or _flops(result), result.params.get("dtype"), total(moved), hbm)


def launch_bound(result: Result, launch: Launch) -> TimeBound | None:
    """Return the least time of one launch of a record; None as for `bound_of`."""
    machine = machine_of(result)
    if result.source != "measure" or machine is None:
        return None
    return _bound(machine, launch.flops, result.params.get("dtype"), launch.requested, launch.hbm)


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
    machine: Machine, flops: int | None, dtype: ParamValue, requested: Traffic | None, hbm: Traffic | None
) -> TimeBound | None:
    found = time_bound(
        machine,
        flops=flops,
        dtype=dtype,
        requested_bytes=requested.total_bytes if requested else None,
        hbm_read_bytes=hbm.read_bytes if hbm else None,
        hbm_write_bytes=hbm.write_bytes if hbm else None,
    )
    return None if found.time_ns is None else found


def _flops(result: Result) -> int | None:
    """Return the FLOPs of a case by its closed form; None for another target."""
    from ioaware.cases import CASES

    if result.target not in CASES:
        return None
    from ioaware.prediction import predict

    try:
        return predict(result.target, machine=DEFAULT_MACHINE, **result.params).flops
    except IoawareError:
        return None
