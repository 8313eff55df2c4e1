"""Predict a case's traffic from its closed form as a `Result`.

It is in bytes over batch and heads, with its lower bound.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache

from sympy import Expr

from ioaware.analysis.formulas.evaluate import evaluate
from ioaware.analysis.formulas.printing import show
from ioaware.analysis.theory.counting import LIVE_SET, B_c, B_r, Counts, Elements, N, N_k, Step
from ioaware.analysis.theory.lower_bounds import compulsory, lower_bound_bytes
from ioaware.case import Case
from ioaware.cases import find_case
from ioaware.machine import DEFAULT_MACHINE, Machine
from ioaware.params import resolve
from ioaware.result import Launch, ParamValue, Result, Traffic


def predict(case: str, *, machine: Machine = DEFAULT_MACHINE, **params: ParamValue) -> Result:
    """Return the exact traffic of a case's algorithm, by the closed form of its paper.

    `machine` gives the M of the lower bound where `sram_elements` does not. Raises `UsageError` for an unknown case or
    parameter, or a value out of range.
    """
    found = find_case(case)
    given = resolve(found.params, params, case)
    counted = _counted(found, tuple(given.items()))
    bound, bound_note = counted.compulsory and counted.compulsory.total_bytes, "lower bound: the compulsory bytes"
    causal = bool(given.get("causal", False))
    if found.counts(causal).compulsory is None:
        bound, bound_note = _lower_bound(found.values(given), given, machine, causal=causal)
    return replace(counted, params=given, lower_bound_bytes=bound, notes=(*counted.notes, bound_note))


@lru_cache(maxsize=4096)
def _counted(case: Case, parameters: tuple[tuple[str, ParamValue], ...]) -> Result:
    """Return a prediction without its lower bound.

    Why cached: figures, tables and claims share most points.
    """
    given = dict(parameters)
    causal = bool(given.get("causal", False))
    values, counts = case.values(given), case.counts(causal)
    square = "N" in values and values["N"] == values.get("N_k")
    must_touch = counts.compulsory or compulsory(causal)
    step = Step(case.name, counts.reads, counts.writes, atomics=counts.atomics)
    return Result(
        source="predict",
        target=case.name,
        params=given,
        requested=_traffic(step, counts, values, square=square),
        compulsory=_traffic(must_touch, counts, values, square=square),
        flops=evaluate(counts.instances * counts.flops, values),
        extra_memory_bytes=evaluate(counts.instances * counts.extra.bytes, values),
        exact=True,
        notes=(
            f"closed form of {counts.source}",
            *_extra_memory_notes(counts, square=square),
            *_block_notes(counts, values, given),
        ),
        launches=tuple(_launch(step, counts, values, square=square) for step in counts.steps),
    )


def predicted_flops(case: str, params: Mapping[str, ParamValue]) -> int:
    """Return the FLOPs of `predict` alone; raises as it does."""
    found = find_case(case)
    given = resolve(found.params, params, case)
    counts = found.counts(bool(given.get("causal", False)))
    return evaluate(counts.instances * counts.flops, found.values(given))


def _traffic(step: Step, counts: Counts, values: Mapping[str, int], *, square: bool) -> Traffic:
    """Return a step's bytes over all instances of the problem, with their formulas."""
    reads, read_formula = _formula(step.reads, counts.instances, square)
    writes, write_formula = _formula(step.writes, counts.instances, square)
    return Traffic(
        read_bytes=evaluate(reads, values),
        write_bytes=evaluate(writes, values),
        atomic_bytes=evaluate(counts.instances * step.atomics.bytes, values),
        read_formula=read_formula,
        write_formula=write_formula,
    )


@lru_cache(maxsize=256)
def _formula(elements: Elements, instances: Expr, square: bool) -> tuple[Expr, str]:
    """Return the bytes over all instances as expression and text.

    They are in N alone where N_k = N.
    """
    formula: Expr = instances * elements.bytes
    merged: Expr = formula.subs(N_k, N) if square else formula  # pyright: ignore[reportUnknownMemberType]
    return formula, show(merged)


def _launch(step: Step, counts: Counts, values: Mapping[str, int], *, square: bool) -> Launch:
    return Launch(
        kernel=step.name,
        requested=_traffic(step, counts, values, square=square),
        flops=evaluate(counts.instances * step.flops, values),
    )


def _extra_memory_notes(counts: Counts, *, square: bool) -> tuple[str, ...]:
    """Return the formula of the extra memory, if there is some."""
    _, formula = _formula(counts.extra, counts.instances, square)
    return () if formula == "0" else (f"extra memory = {formula}",)


def _block_notes(counts: Counts, values: Mapping[str, int], given: Mapping[str, ParamValue]) -> tuple[str, ...]:
    """Return notes on the blocks at which the formulas were evaluated.

    There are some where M sets the blocks.
    """
    memory = given.get("sram_elements")
    if memory is None:
        return ()
    held = evaluate(LIVE_SET, values)
    fits = "fit in M" if isinstance(memory, int) and held <= memory else "exceed M, as the paper's rule leaves no room for S"
    rule = ", ".join(f"{name} = {show(block)}" for name, block in sorted(counts.blocks.items()))
    chosen = f"B_c = {values[str(B_c)]}, B_r = {values[str(B_r)]}"
    return (
        f"blocks from M = {memory} elements: {chosen}" + (f" ({rule})" if rule else ""),
        f"K, V, Q, O, S, l, m of one step hold {held} elements and {fits}",
    )


def _lower_bound(
    values: Mapping[str, int], given: Mapping[str, ParamValue], machine: Machine, *, causal: bool
) -> tuple[int, str]:
    """Return the bound in bytes for all heads, and the note that names its M."""
    memory, processors = given.get("sram_elements"), 1
    whose = "as given, one fast memory"
    if not isinstance(memory, int):
        memory, processors = machine.sram_elements(str(given["dtype"])), machine.sms
        whose = f"the shared memory of each of the {machine.sms} SMs of the {machine.name}"
    heads = values["B"] * values["H"]
    bound = lower_bound_bytes({**values, "M": memory}, causal=causal, heads=heads, processors=processors)
    return bound, f"lower bound for M = {memory} elements ({whose}): max(compulsory, N^2 d^2/(M + 4 d^2) - M)"
