"""Walk a target.

Its kernels run in the interpreter, step by step, and the bytes are compared with trace and closed form.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate, islice
from typing import Any

from ioaware.cases import CASES
from ioaware.machine import DEFAULT_MACHINE
from ioaware.prediction import predict
from ioaware.result import ParamValue, Result, Traffic
from ioaware.targets.target import Target
from ioaware.tracing.trace import trace
from ioaware.walkthrough.hbm_tensors import HbmTensor
from ioaware.walkthrough.input_values import with_inputs
from ioaware.walkthrough.recorder import Recorder
from ioaware.walkthrough.steps import Step, WalkedLaunch

MAX_ROWS = 100
"""Steps that a notebook shows."""


@dataclass(frozen=True)
class Walk:
    """Steps of a run, with its totals.

    They are those of the same run's byte counter and of the closed form.
    """

    traced: Result
    """The result of the run itself, as `trace` gives it."""
    predicted: Result | None
    """The closed form; None for a target that is no case."""
    launches: tuple[WalkedLaunch, ...]
    tensors: tuple[HbmTensor, ...]
    steps: tuple[Step, ...]
    running_bytes: tuple[int, ...]
    """Bytes moved until the end of each step."""
    has_values: bool
    source: str | None
    """Where the inputs came from; None for the case's own."""

    @property
    def target(self) -> str:
        """The target's name."""
        return self.traced.target

    @property
    def params(self) -> Mapping[str, ParamValue]:
        """The resolved parameters."""
        return self.traced.params

    @property
    def total_bytes(self) -> int:
        """Bytes of all steps."""
        return self.running_bytes[-1] if self.running_bytes else 0

    @property
    def compulsory_bytes(self) -> int | None:
        """Every distinct byte of inputs and output once.

        None for a target that is no case.
        """
        return self.traced.compulsory.total_bytes if self.traced.compulsory else None

    @property
    def predicted_bytes(self) -> int | None:
        """The total of the closed form; None for a target that is no case."""
        return self.predicted.requested.total_bytes if self.predicted and self.predicted.requested else None

    def rows_on_chip(self, launch: int) -> frozenset[str]:
        """Return the vectors on chip that are a matrix's row.

        They are `s` where the kernel moves single rows of S.
        """
        rows = {
            move.tile.tensor.name.lower()
            for step in self.steps
            if step.launch == launch
            for move in step.moves
            if move.tile.tensor and len(move.tile.ranges) > 1 and all(end == start + 1 for start, end in move.tile.ranges[:-1])
        }
        return frozenset(name for step in self.steps if step.launch == launch for name in step.on_chip if name.lower() in rows)

    @property
    def command(self) -> str:
        """The command of this walk, without parameters that have their default."""
        defaults = {param.name: param.default for param in CASES[self.target].params} if self.target in CASES else {}
        given = {name: value for name, value in self.params.items() if value is not None and defaults.get(name) != value}
        words = [f"-p {name}={str(value).lower() if isinstance(value, bool) else value}" for name, value in given.items()]
        return " ".join(("ioaware walk", self.target, *words, *(("--input", self.source) if self.source else ())))

    @property
    def agrees(self) -> bool:
        """Return whether the steps' bytes equal those of the closed form, if any.

        Reads, writes and atomics are compared.
        """
        if self.predicted is None or self.predicted.requested is None:
            return True
        return _parts(self.predicted.requested) == self.moved

    @property
    def moved(self) -> tuple[int, int, int]:
        """Bytes read, written and updated by atomics in all steps."""
        read, write, atomic = (sum(step.moved(kind) for step in self.steps) for kind in ("read", "write", "atomic"))
        return read, write, atomic

    def to_dict(self, steps: int | None = None, program: tuple[int, ...] | None = None) -> dict[str, Any]:
        """Return the walk as JSON values.

        With `steps` and `program` a part of the steps, the totals being the walk's.
        """
        from ioaware.walkthrough.walk_data import walk_data

        return walk_data(self, steps=steps, program=program)

    def _repr_html_(self) -> str:
        from ioaware.display.notebook import table_html

        title = f"{self.target}: {len(self.steps)} steps, {self.total_bytes:,} bytes"
        columns = ("step", "kernel", "program", "loop", "from HBM", "to HBM", "bytes", "so far")
        rows = (
            (
                str(number),
                self.launches[step.launch].kernel,
                str(step.program),
                step.loop_text,
                ", ".join(move.tile.label for move in step.moves if move.kind == "read"),
                ", ".join(move.tile.label for move in step.moves if move.kind != "read"),
                f"{step.bytes:,}",
                f"{running:,}",
            )
            for number, step, running in islice(self.chosen(None), MAX_ROWS)
        )
        return table_html(title, columns, rows)

    def chosen(self, program: tuple[int, ...] | None) -> Iterator[tuple[int, Step, int]]:
        """Yield number (from 1), step and running bytes of the steps of a program.

        Of all where it is None.
        """
        for number, (step, running) in enumerate(zip(self.steps, self.running_bytes, strict=True), 1):
            if program is None or step.program[: len(program)] == program:
                yield number, step, running


def walk(
    target: Target,
    params: Mapping[str, ParamValue],
    *,
    source: str | None = None,
    keep_values: bool = False,
    autotune: Mapping[str, ParamValue] | None = None,
    report: Callable[[str], None] | None = None,
) -> Walk:
    """Run the kernels of `target` in Triton's interpreter, step by step.

    The result says what moved at each step.

    `source` chooses the inputs (`input_values.py`); `keep_values` records the variables on chip and the values written.
    Other arguments and errors are those of `trace`. The steps' bytes are counted apart from the trace's.
    """
    recorder = Recorder(keep_values=keep_values)
    chosen = with_inputs(target, source) if source else target
    with recorder.extents():
        traced = trace(chosen, params, autotune=autotune, report=report, observer=recorder)
    recorder.tensors.resolve_names()
    predicted = predict(target.name, machine=DEFAULT_MACHINE, **traced.params) if target.name in CASES else None
    found = Walk(
        traced=traced,
        predicted=predicted,
        launches=tuple(recorder.launches),
        tensors=tuple(recorder.tensors.all),
        steps=tuple(recorder.steps),
        running_bytes=tuple(accumulate(step.bytes for step in recorder.steps)),
        has_values=keep_values,
        source=source,
    )
    counted = traced.requested
    if counted is None or _parts(counted) != found.moved:
        raise RuntimeError(f"the steps of {target.name} move {found.moved}, the byte counter has {counted}")
    return found


def _parts(traffic: Traffic) -> tuple[int | None, int | None, int]:
    return traffic.read_bytes, traffic.write_bytes, traffic.atomic_bytes or 0
