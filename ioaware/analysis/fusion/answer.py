"""The answer to "can this program run in one pass?": yes with a combiner and its proof, no with a certificate, or neither."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from ioaware.analysis.fusion.combiner import Combiner
from ioaware.analysis.fusion.display import formula
from ioaware.analysis.fusion.guards import guard_of
from ioaware.analysis.fusion.identities import Identity, identities
from ioaware.analysis.fusion.impossibility import Refutation, refute
from ioaware.analysis.fusion.intervals import UndecidedError
from ioaware.analysis.fusion.kernel import triton_source
from ioaware.analysis.fusion.lifting import Lifted
from ioaware.analysis.fusion.plan import Plan, make_plan, plan_as_written
from ioaware.analysis.fusion.program import NEUTRAL, Program
from ioaware.analysis.fusion.rank import rank_of
from ioaware.analysis.fusion.tracing import trace_program
from ioaware.errors import InconclusiveError


@dataclass(frozen=True, slots=True)
class Number:
    """One number of the state: the `merge` of `meaning` over the elements seen; `neutral` is its value for no elements."""

    name: str
    meaning: str
    merge: str
    neutral: str

    def to_dict(self) -> dict[str, str]:
        """Return the fields."""
        return {"name": self.name, "meaning": self.meaning, "merge": self.merge, "neutral": self.neutral}


@dataclass(frozen=True)
class Fusion:
    """What `ioaware.fuse` found. `refutation` says why one pass is not enough, None where it is."""

    program: Program
    plan: Plan
    refutation: Refutation | None

    @property
    def fusable(self) -> bool:
        """Return whether one pass with a finite state computes the program."""
        return self.plan.is_one_pass

    @property
    def passes_before(self) -> int:
        """Return how often the program as written reads its data."""
        return self.program.passes

    @property
    def passes_after(self) -> int:
        """Return in how many passes the program runs with the combiners found."""
        return len(self.plan.passes)

    @cached_property
    def state(self) -> tuple[Number, ...]:
        """Return the numbers that the passes carry."""
        components = [component for part in self.plan.passes for component in part.components]
        neutral = {op: formula(value).replace("oo", "inf") for op, value in NEUTRAL.items()}
        return tuple(Number(c.symbol.name, f"{c.op} of {formula(c.body)}", c.op, neutral[c.op]) for c in components)

    @cached_property
    def combine(self) -> str:
        """Return C as formulas, one per line: of the numbers of two states (m1, m2) those of both together (m)."""
        lines: list[str] = []
        for number, part in enumerate(self.plan.passes):
            lines += [f"pass {number + 1}:"] if not self.fusable else []
            lines += Combiner(part).lines()
        return "\n".join(lines)

    @cached_property
    def guards(self) -> tuple[str, ...]:
        """Return what stands in where a parameter is undefined: no elements, or all of them -inf."""
        found = [guard_of(self.program, p) for part in self.plan.passes for p in (*part.varying, *part.fixed)]
        sentences = list(dict.fromkeys(guard.sentence() for guard in found if guard.needed))
        repairs = [part.repair_of(component) for part in self.plan.passes for component in part.components]
        if any(factor != 1 for repair in repairs for factor in repair.values()):
            sentences.append("a sum that is 0 stays 0, a maximum of nothing stays -inf, whatever the factor")
        return tuple(sentences)

    @cached_property
    def certificate(self) -> str:
        """Return what is proven, a line for each step."""
        return "\n".join(_refutation_lines(self.refutation) if self.refutation else self._proof_lines())

    def _proof_lines(self) -> Iterator[str]:
        for part in self.plan.passes:
            for lifted in part.lifted:
                yield from _lifted_lines(lifted, self.program)
            for symbol, form in part.known.items():
                text = " + ".join(f"({formula(c)})*{s.name}" for s, c in form.items()) or "0"
                yield f"{symbol.name} need not be carried: it is {text}"

    @cached_property
    def reads(self) -> tuple[int, int]:
        """Return how many inputs are read over all passes: as the program is written, and with the combiners."""
        plans = (plan_as_written(self.program), self.plan)
        before, after = (sum(len(part.inputs(self.program)) for part in plan.passes) for plan in plans)
        return before, after

    def predict(self, rows: int, length: int, element_bytes: int = 4) -> tuple[int, int]:
        """Return the bytes that the generated kernel reads and writes for [rows, length] inputs."""
        return self.reads[1] * rows * length * element_bytes, len(self.program.outputs) * rows * element_bytes

    @property
    def bytes_formulas(self) -> dict[str, str]:
        """Return the bytes of both kernels for [rows, length] inputs of elements of e bytes."""
        before, after = (f"{count}*e*rows*length" for count in self.reads)
        return {"read_before": before, "read_after": after, "write": f"{len(self.program.outputs)}*e*rows"}

    @cached_property
    def kernel(self) -> str:
        """Return the source of a Triton file: the kernel of these passes, the split form, and the program as written."""
        return triton_source(self.plan, plan_as_written(self.program))

    def write_kernel(self, path: str | Path) -> None:
        """Write the Triton file."""
        Path(path).write_text(self.kernel, encoding="utf-8")

    def to_dict(self) -> dict[str, Any]:
        """Return what `ioaware fuse --json` prints."""
        return {
            "schema": 1,
            "fusable": self.fusable,
            "passes_before": self.passes_before,
            "passes_after": self.passes_after,
            "state": [number.to_dict() for number in self.state],
            "combine": self.combine,
            "guards": list(self.guards),
            "certificate": self.certificate,
            "bytes": self.bytes_formulas,
        }

    def _repr_html_(self) -> str:
        from html import escape

        rows = [("passes over the data", f"{self.passes_before} as written, {self.passes_after} with the combiner")]
        rows += [(number.name, number.meaning) for number in self.state]
        rows += [("combiner", self.combine), ("guards", "\n".join(self.guards)), ("certificate", self.certificate)]
        cells = "".join(f"<tr><th>{escape(name)}</th><td><pre>{escape(text)}</pre></td></tr>" for name, text in rows)
        verdict = "one pass" if self.fusable else "no finite state"
        return f"<div><b>{escape(self.program.name)}</b>: {verdict}<table>{cells}</table></div>"


def fuse(function: Callable[..., Any]) -> Fusion:
    """Return whether one pass computes a program of `ioaware.fusion`, with the combiner or the reason.

    Raises `UsageError` for a function that is no such program, `InconclusiveError` where neither is proven.
    """
    program = trace_program(function)
    plan = make_plan(program)
    unproven = [(lifted, identity) for lifted, identity in _identities(plan) if not identity.proven]
    if unproven:
        lifted, identity = unproven[0]
        raise InconclusiveError(f"{lifted.reduction.name}: {identity.what} is not proven", "Write the map in a simpler form.")
    if plan.is_one_pass:
        return Fusion(program, plan, None)
    try:
        return Fusion(program, plan, refute(plan))
    except UndecidedError as reason:
        best = f"{len(plan.passes)} passes are enough" + (f", {program.passes} as written" if len(plan.passes) < program.passes else "")
        raise InconclusiveError(f"{program.name}: whether one pass is enough is undecided: {reason}", f"{best}.") from reason


def _identities(plan: Plan) -> Iterator[tuple[Lifted, Identity]]:
    for part in plan.passes:
        for lifted in part.lifted:
            for identity in identities(lifted, plan.program.inputs):
                yield lifted, identity


def _lifted_lines(lifted: Lifted, program: Program) -> Iterator[str]:
    """Yield what is proven of one reduction."""
    name = lifted.reduction.name
    if not lifted.parameters:
        yield f"{name}: its map uses no other reduction; partial results merge by {lifted.reduction.op}"
        return
    references = ", ".join(parameter.symbol.name for parameter in lifted.parameters)
    yield f"{name} (reference {references}): {'; '.join(i.what for i in identities(lifted, program.inputs))}: decided symbolically"
    if lifted.reduction.op == "sum":
        rank = rank_of(lifted, program.inputs)
        exact = f"rank {rank.at_most}" if rank.at_least >= rank.at_most else f"rank at most {rank.at_most}"
        yield f"{name}: f has {exact}, d f has at least {rank.of_derivative} (nonsingular alternants in interval arithmetic)"


def _refutation_lines(found: Refutation) -> Iterator[str]:
    """Yield the proof that no finite state computes the program."""
    name, size, earlier = found.reduction.name, found.alternant.size, found.earlier_numbers
    yield f"no continuous state of finitely many numbers computes {name} = sum of {formula(found.reduction.body)} in one pass"
    yield f"its map f has infinite rank: {found.moving.argument}, so that the maps at n parameters are independent for every n"
    yield f"data that come later move the parameters: proven for {found.sample.sentence()}, and for these data repeated"
    yield found.alternant.sentence(found.reduction)
    if found.alternant.of_derivative:
        yield f"by itself it refutes every state of fewer than {size} numbers, those of the earlier reductions ({earlier}) included"
    else:
        yield f"by itself it refutes every state that sums fewer than {size} functions of single elements"
    yield "continuous excludes packing several numbers into the digits of one"
