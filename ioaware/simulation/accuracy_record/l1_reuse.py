"""Say of each recorded launch whether its loads hit in the L1.

Where the record has the L1's own counters, they say so, otherwise the model. Neither looks at the number that is compared: a
class that follows from the error would make any prediction look good.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ioaware.errors import IoawareError
from ioaware.machine import Machine
from ioaware.measurement.counters import l1_counters
from ioaware.result import Launch, Result
from ioaware.simulation.accuracy import PredictedLaunch, point_key
from ioaware.simulation.accuracy_record.steady_state import is_steady
from ioaware.simulation.accuracy_record.torch_attention import backend_of
from ioaware.simulation.l1.l1_replay import L1Reads
from ioaware.simulation.predictions import RECORDED, read_lines, write_lines

L1_ANSWERS = RECORDED / "l1" / "h200-reuse.jsonl"
LOADS, HITS = l1_counters.READ_SECTORS, l1_counters.HITS
REUSE_SHARE = 0.001
"""Least share of the requested sectors that the L1s serve where there is reuse.

It is the error allowed at the 95th percentile where there is none.
"""


@dataclass(frozen=True, slots=True)
class L1Launch:
    """Requested sector bytes of a launch's loads, and those that the L1s serve.

    None where the launch is too large to replay.
    """

    kernel: str
    requested_bytes: int | None
    served_bytes: int | None

    @property
    def reuse(self) -> bool | None:
        """Whether the L1s serve more than `REUSE_SHARE`; None where it is not known."""
        if self.served_bytes is None:
            return None
        return self.served_bytes > REUSE_SHARE * (self.requested_bytes or 0)


@dataclass(frozen=True, slots=True)
class L1Answer:
    """What the model's L1s serve of one recorded point."""

    target: str
    params: Mapping[str, Any]
    launches: tuple[L1Launch, ...] = ()
    failed: str = ""


def l1_answer(measured: Result, machine: Machine) -> L1Answer:
    """Replay the launches of a recorded point through the L1s."""
    from ioaware.simulation.simulate import l1_of_launches
    from ioaware.targets.target import load_target

    if backend_of(measured.target):
        return L1Answer(measured.target, measured.params, failed="no IR: the stated model has no L1")
    try:
        target = load_target(measured.target)
        found = l1_of_launches(target, target.resolve(measured.params), machine=machine, autotune=measured.tuning)
    except (IoawareError, ImportError, FileNotFoundError) as error:
        return L1Answer(measured.target, measured.params, failed=str(error).splitlines()[0])
    return L1Answer(measured.target, measured.params, tuple(_launch(launch, l1) for launch, l1 in found))


def _launch(launch: Launch, l1: L1Reads | None) -> L1Launch:
    requested = launch.requested.read_sector_bytes if launch.requested else None
    return L1Launch(launch.kernel, requested, l1.served_bytes if l1 else None)


def answer_missing(
    points: Iterable[Result],
    machine: Machine,
    path: Path,
    on_start: Callable[[str], None],
    answer: Callable[[Result, Machine], L1Answer] = l1_answer,
) -> None:
    """Add the points that a file lacks and no counter answers for, one by one."""
    found = read_lines(path, L1Answer)
    known = {point_key(one.target, one.params) for one in found}
    for point in points:
        key = point_key(point.target, point.params)
        counted = all(counted_reuse(one) is not None for one in point.launches) and bool(point.launches)
        if key not in known and not counted:
            on_start(key)
            found.append(answer(point, machine))
            known.add(key)
            write_lines(found, path)


def read_l1_answers(path: Path = L1_ANSWERS) -> dict[str, L1Answer]:
    """Return the answers of a file by the point's name."""
    return {point_key(one.target, one.params): one for one in read_lines(path, L1Answer)}


def counted_reuse(launch: Launch) -> bool | None:
    """Return whether more than `REUSE_SHARE` of a launch's loads hit, as counted.

    None where they are not recorded.
    """
    counters = launch.counters or {}
    if LOADS not in counters or HITS not in counters:
        return None
    return counters[HITS] > REUSE_SHARE * counters[LOADS]


def predicted_reuse(one: PredictedLaunch) -> bool | None:
    """Return whether a launch has L1 reuse by its prediction; None where it has no L1."""
    return L1Launch(one.kernel, _all_reads(one), one.l1_served_bytes).reuse


def _all_reads(one: PredictedLaunch) -> int:
    return (one.requested_read_bytes or 0) + (one.l1_served_bytes or 0)


def reuse_by_launch(
    measured: Result, launches: Sequence[Launch], predicted: Sequence[PredictedLaunch], answer: L1Answer | None
) -> list[bool]:
    """Return of each of the compared launches whether it has L1 reuse.

    The L1's counters say so where they are recorded, then the prediction, then the answer for a prediction that has no L1. One
    of which none of them says it counts as one with reuse. A call in steady state is one launch here, and has reuse where any
    of its launches does. The stated model of torch's back ends has none.
    """
    if backend_of(measured.target):
        return [False] * len(launches)
    answered = _of_a_call(answer) if is_steady(measured) else [one.reuse for one in answer.launches] if answer else []
    known = answered if len(answered) == len(launches) else [None] * len(launches)
    each = zip(map(counted_reuse, launches), map(predicted_reuse, predicted), known, strict=True)
    return [next((said for said in sources if said is not None), True) for sources in each]


def _of_a_call(answer: L1Answer | None) -> list[bool | None]:
    """Return whether a call of several launches has L1 reuse, as one launch."""
    each = [one.reuse for one in answer.launches] if answer else []
    return [True if True in each else None if None in each or not each else False]
