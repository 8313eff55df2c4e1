"""Bytes of shared memory by kernel and source line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from triton.backends.compiler import GPUTarget

from ioaware.analysis.ir.shared_memory import SharedAccess
from ioaware.capture.capture import Capture
from ioaware.compilation.launches import CapturedLaunch
from ioaware.compilation.shared_traffic import shared_traffic
from ioaware.display.time_limit import within
from ioaware.errors import IoawareError
from ioaware.report.table_cells import bytes_shown

Place = tuple[str, int]
"""File name and line."""
MAX_LAUNCHES, SECONDS = 16, 20.0


@dataclass(frozen=True, slots=True)
class SharedBytes:
    """Bytes that a line moves into and out of shared memory in one launch."""

    into: int = 0
    out: int = 0

    def __str__(self) -> str:
        ways = (("in", self.into), ("out", self.out))
        parts = (f"{name} {bytes_shown(value)}" for name, value in ways if value)
        return ", ".join(part.replace(" ", "\u00a0") for part in parts)


Lines = Mapping[Place, SharedBytes]


@dataclass(frozen=True, slots=True)
class SharedLines:
    """The lines of each kernel that is counted.

    `why_not` has a sentence for each other one.
    """

    kernels: Mapping[str, Lines] = field(default_factory=dict[str, Lines])
    why_not: tuple[str, ...] = ()


NOT_COUNTED = SharedLines()


def shared_lines(captured: Capture, gpu: GPUTarget) -> SharedLines:
    """Return the bytes of the lines of each kernel of a captured target.

    A kernel is left out where it has no rule, or where its launches differ. A line has what the functions that it calls move.
    """
    launches = [event for event in captured.events if isinstance(event, CapturedLaunch)]
    if len(launches) > MAX_LAUNCHES:
        return SharedLines(why_not=(f"shared memory is counted of at most {MAX_LAUNCHES} launches",))
    kernels: dict[str, Lines] = {}
    refused: dict[str, str] = {}
    partial: dict[str, str] = {}
    for launch in launches:
        try:
            traffic = within(SECONDS, lambda launch=launch: shared_traffic(launch, captured.values, gpu))
        except (IoawareError, KeyError, ValueError) as error:
            refused[launch.name] = f"shared memory of {launch.name} is not counted: {str(error).splitlines()[0]}"
            continue
        found = traffic and _lines(traffic.accesses)
        if traffic is not None and traffic.left_out:
            partial[launch.name] = f"shared memory of {launch.name} is counted without {', '.join(traffic.left_out)}"
        if traffic is None or found is None or kernels.setdefault(launch.name, found) != found:
            late, undecided = f"it takes over {SECONDS:g} s", "data decide how often an operation runs"
            reason = late if traffic is None else undecided if found is None else "its launches differ"
            refused[launch.name] = f"shared memory of {launch.name} is not counted: {reason}"
    kernels = {name: lines for name, lines in kernels.items() if name not in refused}
    return SharedLines(kernels, tuple((partial | refused).values()))


def _lines(accesses: Sequence[SharedAccess]) -> Lines | None:
    """Return the bytes by line; None where data decide."""
    found: dict[Place, SharedBytes] = {}
    for one in accesses:
        if one.bytes is None or one.bytes.symbols:
            return None
        moved = int(one.bytes.evaluate({}))  # pyright: ignore[reportArgumentType]
        for place in dict.fromkeys(map(_place, one.frames)):
            before = found.get(place, SharedBytes())
            added = (moved, 0) if one.way == "in" else (0, moved)
            found[place] = SharedBytes(before.into + added[0], before.out + added[1])
    return found


def _place(frame: str) -> Place:
    path, _, line = frame.rpartition(":")
    return Path(path).name, int(line) if line.isdecimal() else 0
