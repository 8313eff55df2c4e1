"""Simulate HBM traffic through a model of a named GPU's L2.

Needs no GPU.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from triton.backends.compiler import GPUTarget

from ioaware.capture.capture import DEFAULT_GPU
from ioaware.derivation.derive import derive_with_launches
from ioaware.errors import UsageError
from ioaware.fakegpu.autotuning import Override
from ioaware.machine import Machine
from ioaware.result import Launch, ParamValue
from ioaware.simulation.hbm_ranges import check_bounds, launch_simulation, with_data_dependent
from ioaware.simulation.l1.behind_l1 import behind_l1
from ioaware.simulation.l1.l1_replay import L1Reads
from ioaware.simulation.l1.requested_reads import requested_reads
from ioaware.simulation.planned_launch import PlannedLaunch, planned_launches, served_by_l1
from ioaware.simulation.sequence import run
from ioaware.simulation.simulated_totals import simulated_result
from ioaware.simulation.simulation_result import Simulated
from ioaware.targets.target import Target


def simulate(
    target: Target,
    params: Mapping[str, ParamValue],
    *,
    machine: Machine,
    gpu: GPUTarget = DEFAULT_GPU,
    autotune: Mapping[str, ParamValue | Override] | None = None,
    data: Mapping[str, int] | None = None,
    cold: bool = False,
    ranges: bool = True,
) -> Simulated:
    """Replay the launches of `target` through the L2 of `machine`.

    Kernels are compiled for `gpu`.

    `cold` empties the L2 before each launch and does not count what a launch leaves dirty, as `measure` does. Otherwise the L2
    keeps its contents between launches, and all that is dirty after the last one counts as written. `autotune` and `data` are
    as in `derive`. Raises `UsageError` for what `derive` cannot derive or bound, and for launches too large to replay.
    """
    derivation = derive_with_launches(target, params, gpu=gpu, autotune=autotune, data=data)
    derived, sizes = derivation.derived, list[int]()
    launches = planned_launches(derivation, machine, gpu, sizes)
    try:
        replays = [one.plan.replay() for one in launches]
        check_bounds(launches, replays, derived)
        served = [served_by_l1(one, replayed, machine) for one, replayed in zip(launches, replays, strict=True)]
        done = run(
            [one.plan for one in launches],
            [behind_l1(*each) for each in zip(replays, served, strict=True)],
            sizes,
            machine.level("l2").capacity_bytes,
            machine.l2_model,
            cold=cold,
            ranges=ranges,
        )
    except ValueError as error:
        remedy = (
            "Simulate a kernel whose loops the parameters decide." if "data decide" in str(error) else "Choose smaller sizes."
        )
        raise UsageError(f"{target.name} cannot be simulated: {error}", remedy) from error
    usable = int(machine.level("l2").capacity_bytes * machine.l2_model.reach / machine.l2_model.partitions)
    capacity, model = machine.level("l2").capacity_bytes, machine.l2_model
    dirty = capacity * model.dirty_share
    each = zip(launches, done.launches, replays, strict=True)
    done = replace(done, launches=tuple(with_data_dependent(*one, derived, dirty, cold=cold) for one in each))
    simulations = [
        replace(
            launch_simulation(one, end, replayed, reads, writes, derived, usable * (1 - model.capacity_spread)),
            l1=l1,
            usable_l2_bytes=usable,
            requested_read_bytes=requested_reads(one, replayed, l1, derived, machine.sms),
        )
        for one, end, replayed, reads, writes, l1 in zip(
            launches, done.launches, replays, done.reads, done.writes, [one and one.reads for one in served], strict=True
        )
    ]
    return simulated_result(derived, machine, launches, done, simulations, cold=cold)


def l1_of_launches(
    target: Target,
    params: Mapping[str, ParamValue],
    *,
    machine: Machine,
    gpu: GPUTarget = DEFAULT_GPU,
    autotune: Mapping[str, ParamValue | Override] | None = None,
) -> list[tuple[Launch, L1Reads | None]]:
    """Return each Triton launch with what the L1s serve; None where it is not known.

    The L2 is not replayed. Raises `UsageError` for what `derive` cannot derive.
    """
    launches = planned_launches(derive_with_launches(target, params, gpu=gpu, autotune=autotune), machine, gpu, [])
    return [(one.launch, _l1_without_l2(one, machine)) for one in launches]


def _l1_without_l2(one: PlannedLaunch, machine: Machine) -> L1Reads | None:
    if not any(one.by_l1):
        return L1Reads(0, 0)
    try:
        served = served_by_l1(one, one.plan.replay(), machine)
    except ValueError:
        return None
    return served and served.reads
