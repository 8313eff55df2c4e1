"""Answer whether a program can run in one pass.

The answer is yes with a combiner and its proof, no with a certificate, or neither.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from ioaware.analysis.fusion.codegen.kernel_file import triton_source
from ioaware.analysis.fusion.expressions.formula_text import formula
from ioaware.analysis.fusion.expressions.interval_arithmetic import UndecidedError
from ioaware.analysis.fusion.lifting.combiner import Combiner
from ioaware.analysis.fusion.lifting.identities import Identity, identities
from ioaware.analysis.fusion.lifting.lifted_reductions import Lifted
from ioaware.analysis.fusion.lifting.map_rank import rank_of
from ioaware.analysis.fusion.lifting.pass_plan import FusedPass, Plan, as_expression, make_plan, plan_as_written
from ioaware.analysis.fusion.lifting.reference_guards import guard_of, with_divisors_apart
from ioaware.analysis.fusion.lifting.unused_components import without_unused
from ioaware.analysis.fusion.programs.program import NEUTRAL, Program
from ioaware.analysis.fusion.programs.program_tracing import trace_program
from ioaware.analysis.fusion.programs.rewriting import rewritings
from ioaware.analysis.fusion.refutation.impossibility import Refutation, refute
from ioaware.errors import InconclusiveError


@dataclass(frozen=True, slots=True)
class Number:
    """One number of the state: the `merge` of `meaning` over the elements seen.

    `neutral` is its value for no elements.
    """

    name: str
    meaning: str
    merge: str
    neutral: str

    def to_dict(self) -> dict[str, str]:
        """Return the fields."""
        return {"name": self.name, "meaning": self.meaning, "merge": self.merge, "neutral": self.neutral}


@dataclass(frozen=True)
class Fusion:
    """Result of `ioaware.fuse`.

    `refutation` proves that one pass is not enough; None where it is enough. `changes` are the identities by which the plan's
    program is written differently.
    """

    program: Program
    plan: Plan
    refutation: Refutation | None
    changes: tuple[str, ...] = ()

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
        """Return C as formulas, one per line.

        They give the numbers of the merged state (m) from those of two states (m1, m2).
        """
        lines: list[str] = []
        for number, part in enumerate(self.plan.passes):
            lines += [f"pass {number + 1}:"] if not self.fusable else []
            lines += Combiner(part).lines()
        return "\n".join(lines)

    @cached_property
    def guards(self) -> tuple[str, ...]:
        """Return the substitutes for undefined parameters.

        These occur for no elements, or for elements that are all -inf.
        """
        found = [guard_of(self.plan.program, p) for part in self.plan.passes for p in (*part.varying, *part.fixed)]
        sentences = list(dict.fromkeys(guard.sentence() for guard in found if guard.needed))
        repairs = [part.repair_of(component) for part in self.plan.passes for component in part.components]
        if any(factor != 1 for repair in repairs for factor in repair.values()):
            sentences.append("a sum that is 0 stays 0 and an extreme of no elements stays infinite, whatever repairs it")
        return tuple(sentences)

    @cached_property
    def certificate(self) -> str:
        """Return the proof, one line per step."""
        lines = _refutation_lines(self.refutation) if self.refutation else self._proof_lines()
        return "\n".join((*_rewritten_lines(self.changes), *lines))

    def _proof_lines(self) -> Iterator[str]:
        lifted = [one for part in self.plan.passes for one in part.lifted]
        yield "Merged as they are, their maps using no other reduction: " + ", ".join(
            one.reduction.name for one in lifted if not one.parameters
        )
        for one in lifted:
            if one.parameters:
                yield from _repair_lines(one, self.program)
        for part in self.plan.passes:
            yield from _known_lines(part)
        proven = dict.fromkeys(identity.what for one in lifted for identity in identities(one, self.program.inputs))
        if proven:
            yield "C repairs each side by T(a, b), from its own reference a to that of both, b. Decided symbolically for each:"
            yield from (f"  {what}" for what in proven)
            yield "So C is associative, its neutral element is no elements, and every bracketing gives the program's value."

    @cached_property
    def reads(self) -> tuple[int, int]:
        """Return how many inputs are read over all passes.

        There is one count for the program as written and one with the combiners.
        """
        plans = (plan_as_written(self.program), self.plan)
        before, after = (sum(len(part.inputs(self.program)) for part in plan.passes) for plan in plans)
        return before, after

    def predict(self, rows: int, length: int, element_bytes: int = 4) -> tuple[int, int]:
        """Return the bytes that the generated kernel reads and writes.

        They are those for [rows, length] inputs.
        """
        return self.reads[1] * rows * length * element_bytes, len(self.program.outputs) * rows * element_bytes

    @property
    def bytes_formulas(self) -> dict[str, str]:
        """Return the bytes of both kernels for [rows, length] inputs.

        The inputs have elements of e bytes.
        """
        before, after, outputs = (f"{n}*" if n != 1 else "" for n in (*self.reads, len(self.program.outputs)))
        return {
            "read_before": f"{before}e*rows*length",
            "read_after": f"{after}e*rows*length" if self.reads[1] else "0",
            "write": f"{outputs}e*rows",
        }

    @cached_property
    def kernel(self) -> str:
        """Return the source of a Triton file for these passes.

        It holds the kernel of these passes, the split form, and the program as written.
        """
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
    """Return whether one pass computes a program of `ioaware.fusion`.

    The answer has the combiner or the reason.

    Raises `UsageError` for a function that is not such a program, `InconclusiveError` where neither is proven.
    """
    forms = list(rewritings(trace_program(function)))
    written = with_divisors_apart(forms[0].program)
    plans: list[tuple[Plan, tuple[str, ...]]] = []
    for form in forms:
        plan = without_unused(make_plan(with_divisors_apart(form.program)))
        if plan.is_one_pass:
            return Fusion(written, _proven(plan), None, form.changes)
        plans.append((plan, form.changes))
    reasons: list[str] = []
    for plan, changes in plans:
        try:
            return Fusion(written, _proven(plan), refute(plan), changes)
        except UndecidedError as reason:
            reasons.append(str(reason))
    fewest = min(len(plan.passes) for plan, _ in plans)
    best = f"{fewest} passes are enough" + (f", {written.passes} as written" if fewest < written.passes else "")
    raise InconclusiveError(f"{written.name}: whether one pass is enough is undecided: {reasons[0]}", f"{best}.")


def _proven(plan: Plan) -> Plan:
    """Return the plan if every identity of its lifted reductions is proven."""
    for lifted, identity in _identities(plan):
        if not identity.proven:
            raise InconclusiveError(
                f"{lifted.reduction.name}: {identity.what} is not proven", "Write the map in a simpler form."
            )
    return plan


def _identities(plan: Plan) -> Iterator[tuple[Lifted, Identity]]:
    for part in plan.passes:
        for lifted in part.lifted:
            for identity in identities(lifted, plan.program.inputs):
                yield lifted, identity


def _repair_lines(lifted: Lifted, program: Program) -> Iterator[str]:
    """Yield how a reduction is repaired, and the rank of its map."""
    references = ", ".join(parameter.symbol.name for parameter in lifted.parameters)
    line = f"Repaired when {references} changes: {lifted.reduction.name} = {lifted.reduction.op} of f"
    if lifted.reduction.op == "sum":
        rank = rank_of(lifted, program.inputs)
        exact = "" if rank.at_least >= rank.at_most else "at most "
        line += f", f of rank {exact}{rank.at_most}, its derivative of rank {rank.of_derivative} or more"
    yield line


def _known_lines(part: FusedPass) -> Iterator[str]:
    bodies = {component.symbol: component.body for lifted in part.lifted for component in lifted.components}
    for symbol, form in part.known.items():
        yield f"Not carried: the sum of {formula(bodies[symbol])}, which is {formula(as_expression(form))}"


def _rewritten_lines(changes: tuple[str, ...]) -> Iterator[str]:
    if changes:
        yield "Written differently, with the same value wherever the program as written has one:"
        yield from (f"  {change}" for change in changes)


def _refutation_lines(found: Refutation) -> Iterator[str]:
    """Yield the proof that no finite state computes the program."""
    name, size, earlier = found.reduction.name, found.alternant.size, found.earlier_numbers
    yield f"No continuous state of finitely many numbers computes {name} = sum of {formula(found.reduction.body)} in one pass."
    yield f"Infinite rank: {found.moving.argument}."
    yield "  So the maps at n values of the parameters are linearly independent, for every n."
    yield f"Later data move the parameters: proven for {found.sample.sentence()}, and so for these data repeated."
    yield "  So the continuation distinguishes n elements: a state needs n numbers, less a constant, for every n."
    yield found.alternant.sentence(found.reduction)
    if found.alternant.of_derivative:
        counted = f"{earlier} for earlier reductions among them"
        yield f"  By itself it refutes every state for {name} of fewer than {size} numbers, {counted}."
    else:
        yield f"  By itself it refutes every state for {name} of fewer than {size} sums of functions of single elements."
    yield "Continuous: a state may not pack several numbers into the digits of one."
