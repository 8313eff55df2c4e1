"""Rank the choices that a target leaves open by predicted bytes and time.

Needs no GPU.

Every choice is compiled for the GPU and simulated. Choices that do not fit, that spill registers or that are other work are
listed with the reason.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from triton.backends.compiler import GPUTarget

from ioaware.advice.advice_result import Advice, Choice, Rejected, rank
from ioaware.advice.choices import (
    Candidate,
    case_candidates,
    configuration_candidates,
    fewest_requested_first,
    order_candidates,
)
from ioaware.advice.program_order import Work, same_work, work_of
from ioaware.capture.capture import Capture, alike_configurations, capture
from ioaware.cases import CASES
from ioaware.compilation.launch_limits import launch_failure
from ioaware.display.work_deadline import OutOfTime, deadline, step
from ioaware.errors import IoawareError, UsageError
from ioaware.kernels.attention.launching.launch import HOPPER_PROCESSORS
from ioaware.machine import Machine
from ioaware.machine.occupancy import most_registers
from ioaware.machine.time_bound import TimeBound, time_bound
from ioaware.result import Launch, Params, Traffic
from ioaware.simulation.simulate import simulate
from ioaware.simulation.simulation_result import Simulated
from ioaware.targets.target import Target, load_target

Progress = Callable[[str], None]
Tried = TypeVar("Tried")
REGISTERS_LEFT = 8
"""Registers that a kernel without room for one more may leave unused.

They are allocated in eights.
"""
NO_L2_RATE = "the bandwidth of this machine's L2 is not known: it bounds no time (`ioaware calibrate` measures it)"


DEFAULT_SECONDS = 300.0
"""After which the search for choices ends."""


def advise(
    target: Target,
    params: Params,
    *,
    machine: Machine,
    gpu: GPUTarget,
    seconds: float = DEFAULT_SECONDS,
    on_start: Progress = lambda _: None,
) -> Advice:
    """Return the choices of `target` at resolved `params`, ranked.

    The one with the least time bound and bytes comes first.

    Of a case: orders, blocks and head grouping. Of another target: each configuration of each autotuned kernel, then the
    program order of the best one. Choices of a case that request the fewest bytes are tried first. After `seconds`, once one
    fits, the choice in work ends at its next step and no other is begun: a note says how many are left. `on_start` is called
    with the text of each choice. Raises `UsageError` for a target that leaves nothing open, that cannot be simulated as it is,
    or of which nothing fits.
    """
    found = _Search(machine, gpu, seconds, on_start)
    with alike_configurations():
        if target.name in CASES:
            found.try_cases(target, params)
        else:
            found.try_configurations(target, params)
    if not found.fitting:
        reasons = "; ".join(f"{_text(one.change)}: {one.reason}" for one in found.rejected[:3])
        raise UsageError(f"no choice of {target.name} fits {machine.name} ({reasons})", "Choose smaller sizes.")
    notes = [NO_L2_RATE] if machine.level("l2").bandwidth_bytes_per_s is None else []
    if found.untried:
        notes.append(f"{found.untried} more choices were not tried: {seconds:g} s were over. A better one may be among them")
    if found.orders_untried:
        notes.append(f"program orders were not tried: {seconds:g} s were over")
    ranked, rejected = tuple(rank(found.fitting)), tuple(found.rejected)
    return Advice(target.name, dict(params), machine.name, ranked, rejected, tuple(notes), found.untried)


class _Search:
    """Choices predicted so far."""

    def __init__(self, machine: Machine, gpu: GPUTarget, seconds: float, on_start: Progress) -> None:
        self._machine, self._gpu, self._on_start = machine, gpu, on_start
        self._end = time.monotonic() + seconds
        self._place = ""
        self.untried, self.orders_untried = 0, False
        self.fitting: list[Choice] = []
        self.rejected: list[Rejected] = []

    @property
    def _end_of_all(self) -> float | None:
        """When the search ends; None while nothing fits."""
        return self._end if self.fitting else None

    def _in_time(self, candidates: Sequence[Candidate], attempt: Callable[[Candidate], Tried]) -> list[tuple[Tried, Candidate]]:
        """Return what `attempt` makes of each candidate until the time is over.

        The one in work ends at its next step. It and those after it are counted.
        """
        done: list[tuple[Tried, Candidate]] = []
        for number, one in enumerate(candidates):
            self._place = f"{number + 1} of {len(candidates)}: "
            try:
                with deadline(self._end_of_all):
                    step()
                    done.append((attempt(one), one))
            except OutOfTime:
                self.untried += len(candidates) - number
                break
        return done

    def try_cases(self, target: Target, params: Params) -> None:
        """Predict the choices of a case."""
        candidates = case_candidates(target.name, params)
        if len(candidates) < 2:
            raise UsageError(f"{target.name} has no blocks, orders or head grouping to choose", "ioaware list has the cases.")
        self._in_time(fewest_requested_first(candidates), self._try_case)

    def _try_case(self, one: Candidate) -> None:
        """Predict a choice of a case.

        A wave of a sawtooth is as large as the kernel's own occupancy on this machine.
        """
        if one.params.get("order") != "wave_sawtooth" or self._machine.sms == HOPPER_PROCESSORS:
            self._try(one)
            return
        simulated = self._simulated(one)
        if simulated is None:
            return
        at_once = next(how.programs_at_once for how in simulated.simulations if how)
        self._try(replace(one, params={**one.params, "programs_at_once": at_once}))

    def try_configurations(self, target: Target, params: Params) -> None:
        """Predict configurations of autotuned kernels, then program orders of the best."""
        captured = capture(target, params, gpu=self._gpu)
        current, *others = configuration_candidates(target.name, params, captured.launches)
        candidates = [current, *others]
        if len(candidates) == 1 and not any(order_candidates(current, captured.launches)):
            raise UsageError(
                f"{target.name} leaves nothing to choose: no kernel of it is autotuned or takes a program order (GROUP_SIZE_M)",
                "Name a case, or a target that launches an autotuned kernel.",
            )
        tried = self._in_time(candidates, self._try)
        fitting = {id(choice): one for choice, one in tried if choice}
        if not fitting:
            return
        best = fitting[id(rank([choice for choice, _ in tried if choice])[0])]
        self._try_orders(best, target)

    def _try_orders(self, best: Candidate, target: Target) -> None:
        base = self._captured(best, target)
        candidates = list(order_candidates(best, base.launches))
        if candidates and time.monotonic() > self._end:
            self.orders_untried = True
            return
        works: list[Work] = []

        def attempt(one: Candidate) -> None:
            try:
                works.extend(() if works else self._works(base))
                same = all(same_work(*pair) for pair in zip(works, self._works(self._captured(one, target)), strict=True))
            except (IoawareError, ValueError) as error:
                self._reject(one, f"cannot be compared with its order now: {error}")
                return
            if same:
                self._try(one)
            else:
                self._reject(one, "changes what programs access, and not only their order")

        self._in_time(candidates, attempt)

    def _works(self, captured: Capture) -> list[Work]:
        return [work_of(launch, captured.values, self._gpu) for launch in captured.launches]

    def _captured(self, one: Candidate, target: Target) -> Capture:
        return capture(target, one.params, gpu=self._gpu, autotune=one.tuning)

    def _reject(self, one: Candidate, reason: str) -> None:
        self.rejected.append(Rejected(one.target, one.change, reason))

    def _simulated(self, one: Candidate) -> Simulated | None:
        """Return the simulation of a candidate.

        None, and its reason among the rejected, where it cannot run.
        """
        self._on_start(f"{self._place}{'as it is now' if one.current else _text(one.change)}")
        target = load_target(one.target)
        names = {param.name for param in target.params}
        params = {name: value for name, value in one.params.items() if name in names or ":" in one.target}
        try:
            return simulate(target, params, machine=self._machine, gpu=self._gpu, autotune=one.tuning, ranges=False)
        except IoawareError as error:
            if one.current:
                raise
            self._reject(one, str(error).splitlines()[0])
            return None

    def _try(self, one: Candidate) -> Choice | None:
        """Predict a candidate; return it where it fits."""
        simulated = self._simulated(one)
        if simulated is None:
            return None
        why_not = _misfit(one, simulated, self._machine, self._gpu)
        if why_not:
            self._reject(one, why_not)
            return None
        choice = _choice(one, simulated, self._machine)
        self.fitting.append(choice)
        return choice


def _text(change: Mapping[str, object]) -> str:
    return " ".join(f"{name}={value}" for name, value in change.items())


def _misfit(one: Candidate, simulated: Simulated, machine: Machine, gpu: GPUTarget) -> str:
    """Return why a launch does not fit the GPU, or empty text.

    Kernels that the choice leaves as they are may spill: they do so now, and their bytes count.
    """
    varied = {key.rpartition(":")[0] for key in one.tuning or one.change}
    capacity = machine.level("shared").capacity_bytes
    for launch, how in zip(_kernels(simulated), (one for one in simulated.simulations if one), strict=True):
        failure = launch_failure(launch.grid, launch.shared_bytes, gpu)
        if failure:
            return f"{launch.kernel}: {failure}"
        if (launch.shared_bytes or 0) > capacity:
            return f"{launch.kernel}: needs {launch.shared_bytes} bytes of shared memory, and an SM has {capacity}"
        most = most_registers(how.warps)
        if one.current or not varied & {launch.kernel, ""}:
            continue
        if launch.local_bytes and (launch.registers or 0) >= most - REGISTERS_LEFT:
            return f"{launch.kernel}: spills {launch.local_bytes} bytes a thread: it has {most} registers and needs more"
    return ""


def _kernels(simulated: Simulated) -> list[Launch]:
    return [one for one in simulated.launches if one.origin == "triton"]


def _choice(one: Candidate, simulated: Simulated, machine: Machine) -> Choice:
    launches = _kernels(simulated)
    registers = [launch.registers for launch in launches if launch.registers is not None]
    dtype = one.params.get("dtype")
    return Choice(
        one.target,
        one.change,
        simulated.requested or Traffic(),
        simulated.hbm or Traffic(),
        simulated.flops or 0,
        _bound_of(launches, machine, dtype),
        max(registers, default=None),
        max((launch.shared_bytes or 0 for launch in launches), default=0),
        min(how.programs_per_sm for how in simulated.simulations if how),
        one.current,
    )


def _bound_of(launches: Sequence[Launch], machine: Machine, dtype: object) -> TimeBound:
    """Return the bound of the work.

    Its launches run one after another, so the time of each is bounded on its own.
    """
    parts = [
        time_bound(
            machine,
            flops=launch.flops,
            dtype=str(dtype),
            matmul_types=launch.matmul_types,
            requested_bytes=launch.requested and launch.requested.moved_bytes,
            hbm_read_bytes=launch.hbm.read_bytes if launch.hbm else None,
            hbm_write_bytes=launch.hbm.write_bytes if launch.hbm else None,
        )
        for launch in launches
    ]
    return sum(parts[1:], parts[0])
