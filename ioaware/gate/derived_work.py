"""Give the gate what it needs of a derivation.

These are formulas and sizes for budgets, and the admission of other sizes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ioaware.gate.budgets import Work
from ioaware.gate.formulas.formula_order import Point

if TYPE_CHECKING:
    from ioaware.derivation.derived import Derived


def work_of(derived: Derived) -> Work:
    """Return what budgets judge.

    Only `max_torch_bytes` is about torch's own operators.
    """
    import sympy

    launches = [launch for launch in derived.launches if launch.origin == "triton"]
    spills = [launch.local_bytes for launch in launches]
    loads = [launch.tma_loads for launch in launches]
    none = sympy.S.Zero
    return Work(
        formulas={"torch_reads": none, "torch_writes": none} | formulas_of(derived) | operator_formulas_of(derived),
        point=dict(derived.values),
        admits=admission_of(derived),
        exact=derived.exact,
        compulsory=derived.compulsory.total_bytes if derived.compulsory else None,
        spills=None if not spills or None in spills else max(filter(None, spills), default=0),
        tma_loads=None if not loads or None in loads else sum(filter(None, loads)),
    )


def formulas_of(derived: Derived) -> dict[str, Any]:
    """Return the totals of the kernels as expressions.

    The keys are the names that a gate gives them. Bytes that are exact for their data alone are numbers.
    """
    import sympy

    totals, here = derived.formulas, derived.requested
    if derived.exact_here_only and here:
        counts = {"reads": here.read_bytes, "writes": here.write_bytes, "atomics": here.atomic_bytes}
        return {kind: sympy.Integer(count) for kind, count in counts.items() if count is not None}
    if totals is None:
        return {}
    return {"reads": totals.read_bytes.expr, "writes": totals.write_bytes.expr, "atomics": totals.atomic_bytes.expr}


def operator_formulas_of(derived: Derived) -> dict[str, Any]:
    """Return the bytes of torch's own operators as expressions.

    Kinds without any are left out. None stands for bytes that are unknown.
    """
    import sympy

    totals, here = derived.assumed_formulas, derived.assumed
    if totals is None or here is None:
        return {}
    formulas = {"torch_reads": totals.read_bytes.expr, "torch_writes": totals.write_bytes.expr}
    if derived.exact_here_only:
        counts = {"torch_reads": here.read_bytes, "torch_writes": here.write_bytes}
        formulas = {kind: None if count is None else sympy.Integer(count) for kind, count in counts.items()}
    return {kind: formula for kind, formula in formulas.items() if formula != 0}


def conditions_of(derived: Derived) -> tuple[str, ...]:
    """Return the conditions under which the formulas hold, as text.

    They are of sizes, and of what host code does: asks for an address, starts a thread, prints a tensor, writes a size
    or does more at a second call.
    """
    from ioaware.capture.host.second_call import MORE_LATER
    from ioaware.capture.interceptor import ALIGNED
    from ioaware.capture.printed_tensors import NO_COPIES
    from ioaware.symints.symbols import AS_TEXT
    from ioaware.targets.other_threads import UNSEEN

    known = (ALIGNED, UNSEEN, NO_COPIES, MORE_LATER)
    assumed = [text for text in known if any(note.startswith(text) for note in derived.notes)]
    texts = [note.partition(f" {AS_TEXT} ") for note in derived.notes]
    of_text = dict.fromkeys(f"the text of {names} decides nothing" for names, found, _ in texts if found)
    return (*map(str, derived.validity.conditions if derived.validity else ()), *assumed, *of_text)


def admission_of(derived: Derived) -> Callable[[Point], bool]:
    """Return whether the formulas of a derivation hold at given sizes.

    Its conditions must hold, and no integer may wrap around.
    """
    from ioaware.symints.guard_evaluation import UnknownFunctionError

    conditions = derived.validity.conditions if derived.validity else ()
    limits = [limit for kernel in derived.kernels if kernel for limit in kernel.limits]
    own = {**derived.params, **derived.values}

    def admits(point: Point) -> bool:
        full = {**derived.values, **point}
        if derived.exact_here_only and any(own.get(name) != value for name, value in point.items()):
            return False
        try:
            return all(condition.met(full) for condition in conditions) and not any(
                limit.value.symbols <= full.keys() and limit.broken(full) for limit in limits
            )
        except (UnknownFunctionError, ZeroDivisionError, OverflowError, KeyError, ValueError):
            return False

    return admits
