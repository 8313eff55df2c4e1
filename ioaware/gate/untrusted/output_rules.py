"""Apply rules about the output.

Kernels must compute all of it, from the inputs, at each call.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch

from ioaware.gate.untrusted.finding import Finding, Outcome
from ioaware.gate.untrusted.input_contents import RUN_TO_RUN, agree, agree_all, same_bits
from ioaware.gate.untrusted.kernel_evidence import Evidence
from ioaware.gate.untrusted.trial_session import Call
from ioaware.gate.untrusted.trials import made_by_kernels
from ioaware.targets.output_check import relative_error

TOLERANCES = {torch.float64: 1e-10, torch.float32: 1e-4, torch.float16: 2e-3, torch.bfloat16: 1e-2}
"""Relative Frobenius error allowed against the float64 reference.

It is given by the type of the output.
"""
COARSE = 0.1
"""The same for types of 8 bits."""
Outputs = Sequence[torch.Tensor]


def no_kernel(evidence: Evidence) -> Iterator[Finding]:
    """Find a call that launches no Triton kernel.

    Torch's operators compute, or nothing does.
    """
    first = evidence.trials.repeated[0]
    if not first.kernels:
        ran = ", ".join(first.operators) or "nothing"
        yield Finding("no_kernel", Outcome.REFUSED, f"no Triton kernel is launched; what ran is {ran}", evidence.target)


def no_output(evidence: Evidence) -> Iterator[Finding]:
    """Find a call that returns no element: there is nothing to examine."""
    if not sum(tensor.numel() for tensor in evidence.trials.repeated[0].outputs):
        what = "the function returns no tensor with elements; name what it writes with --inplace"
        yield Finding("no_output", Outcome.INCOMPLETE, what, evidence.target)


def decoy_kernel(evidence: Evidence) -> Iterator[Finding]:
    """Find kernels whose writes do not matter, or that copy an operator's result."""
    first, muted = evidence.trials.repeated[0], evidence.trials.muted
    if muted is not None and first.kernels and first.outputs and _same(first.outputs, muted.outputs):
        what = "the output is the same when the kernels write nothing: something else computes it"
        ran = {"kernels": list(first.kernels), "operators": list(first.operators)}
        yield Finding("decoy_kernel", Outcome.REFUSED, what, ", ".join(dict.fromkeys(first.kernels)), ran)
    for number in sorted(made_by_kernels(evidence.trials)):
        if all(number in call.copied for call in evidence.trials.repeated[:2]):
            what = f"the kernels copy what {first.copied[number]} computed: the output equals its result"
            yield Finding("decoy_kernel", Outcome.SUSPECT, what, f"output {number}", {"operator": first.copied[number]})


def unwritten_output(evidence: Evidence) -> Iterator[Finding]:
    """Find an output that shows what was in its memory: on a GPU, an earlier answer."""
    first, refilled = evidence.trials.repeated[0], evidence.trials.refilled
    if refilled is None:
        return
    for number, (one, other) in enumerate(zip(first.outputs, refilled.outputs, strict=False)):
        if not agree(one, other, RUN_TO_RUN):
            count = _differing(one, other)
            what = f"{count:,} of {one.numel():,} elements depend on what uninitialised memory held before"
            yield Finding("unwritten_output", Outcome.REFUSED, what, f"output {number}", {"elements": count})


def changed_input(evidence: Evidence) -> Iterator[Finding]:
    """Find an input that a call changes and that was not named as such."""
    names = dict.fromkeys(name for call in evidence.trials.repeated for name in call.changed)
    for name in names:
        if name not in evidence.trials.writable:
            what = "the input holds other values after the call; if that is meant, name it with --inplace"
            yield Finding("changed_input", Outcome.REFUSED, what, name)


def aliased_output(evidence: Evidence) -> Iterator[Finding]:
    """Find an output that is an input's memory."""
    for name in evidence.trials.repeated[-1].aliased:
        if name not in evidence.trials.writable:
            yield Finding("aliased_output", Outcome.SUSPECT, "an output has the memory of this input", name)


def deferred_output(evidence: Evidence) -> Iterator[Finding]:
    """Find an output that may compute when it is used, after the timer stops."""
    for name in dict.fromkeys(evidence.trials.repeated[0].subclasses):
        what = "an output is a subclass of a tensor, whose methods may compute after the call"
        yield Finding("deferred_output", Outcome.SUSPECT, what, name)


def constant_output(evidence: Evidence) -> Iterator[Finding]:
    """Find an output that is the same for other inputs, where the reference's is not."""
    first, other = evidence.trials.fresh
    varied = any(not same_bits(*pair) for pair in zip(*evidence.trials.inputs, strict=True))
    if not first.outputs or not _same(first.outputs, other.outputs):
        return
    reference = evidence.trials.reference
    if not varied:
        what = "the inputs could not be varied, so what the output depends on was not examined"
        yield Finding("constant_output", Outcome.INCOMPLETE, what)
    elif reference is None:
        what = "the output is the same for other inputs; with a reference it is known whether it should be"
        yield Finding("constant_output", Outcome.SUSPECT, what)
    elif not _same(*reference.outputs):
        yield Finding("constant_output", Outcome.REFUSED, "the output is the same for other inputs; the reference's is not")


def cached_result(evidence: Evidence) -> Iterator[Finding]:
    """Find a call that does nothing, or whose output depends on earlier calls."""
    trials = evidence.trials
    first = trials.repeated[0]
    idle = [number for number, call in enumerate(trials.repeated) if first.kernels and not call.kernels]
    if idle:
        what = f"call {idle[0] + 1} launches no kernel, call 1 did: a result is kept from an earlier call"
        yield Finding("cached_result", Outcome.REFUSED, what, evidence.target, _kept(trials.repeated[idle[0]]))
        return
    sessions = ((trials.repeated, (0, 1)), (trials.reversed, (1, 0)))
    for calls, contents in sessions:
        for number, call in enumerate(calls):
            fresh = trials.fresh[contents[number % 2]]
            if not agree_all(call.outputs, fresh.outputs):
                what = f"call {number + 1} gives another output than a first call with the same inputs"
                yield Finding("cached_result", Outcome.REFUSED, what, evidence.target, _kept(call))
                return


def recalled_result(evidence: Evidence) -> Iterator[Finding]:
    """Find an output that the kernels of a later call do not make: it is kept.

    They make it in a first call, and it depends on the inputs.
    """
    trials = evidence.trials
    first = trials.repeated[0]
    for number in sorted(made_by_kernels(trials)):
        made, again = first.outputs[number], trials.untouched
        if any(len(call.outputs) > number and same_bits(made, call.outputs[number]) for call in trials.recalled):
            what = "a later call gives the output of an earlier one though its kernels write nothing: it is kept"
        elif again is not None and (not again.kernels or not agree(again.outputs[number], made, RUN_TO_RUN)):
            what = "on inputs that nothing touched a second call does not compute the output again: it is kept"
        elif number not in first.kept and any(number in call.kept for call in trials.repeated[1:]):
            what = "the kernels of a later call write nothing that this output is made of: it is kept"
        else:
            continue
        yield Finding("recalled_result", Outcome.REFUSED, what, f"output {number}")
        return


def unread_input(evidence: Evidence) -> Iterator[Finding]:
    """Find input bytes that nothing reads: requested is below compulsory."""
    trials = evidence.trials
    last = trials.repeated[-1]
    inputs = dict(zip(trials.names, trials.inputs[0], strict=True))
    unread = {
        name: int(mask.sum()) * inputs[name].element_size()
        for name, mask in zip(trials.names, last.unread, strict=True)
        if name not in trials.writable and bool(mask.any())
    }
    if not unread:
        return
    where = ", ".join(f"{name}: {count:,} of {inputs[name].nbytes:,} B" for name, count in unread.items())
    found = {"unread_bytes": unread, "compulsory_bytes": sum(tensor.nbytes for tensor in inputs.values())}
    if trials.reference is not None:
        if not trials.reference.ignores_unread:
            what = "input bytes are never read, and the reference's output depends on them"
            yield Finding("unread_input", Outcome.REFUSED, what, where, found)
    elif any(not tensor.is_floating_point() for tensor in inputs.values()):
        what = "input bytes are never read; integers among the inputs may decide which, and only a reference shows that"
        yield Finding("unread_input", Outcome.INCOMPLETE, what, where, found)
    else:
        what = "requested is below compulsory: input bytes are never read, so the output cannot depend on them"
        yield Finding("unread_input", Outcome.SUSPECT, what, where, found)


def wrong_output(evidence: Evidence) -> Iterator[Finding]:
    """Find an output that differs from the reference's, for either contents."""
    trials = evidence.trials
    reference = trials.reference
    if reference is None:
        if trials.reference_error or not evidence.output_checked_elsewhere:
            remedy = "give --reference, or --no-reference if it is checked elsewhere"
            what = trials.reference_error or f"whether the output is right was not examined: {remedy}"
            yield Finding("wrong_output", Outcome.INCOMPLETE, what)
        return
    yield from _wrong_form(trials.repeated[0], reference.plain, float64_allowed=torch.float64 not in _types(trials.inputs[0]))
    for call, expected in zip(trials.fresh, reference.outputs, strict=True):
        for number, (output, exact) in enumerate(zip(call.outputs, expected, strict=False)):
            allowed = reference.tolerance or TOLERANCES.get(output.dtype, COARSE)
            if output.shape == exact.shape and (problem := _problem(output, exact, allowed)):
                yield Finding("wrong_output", Outcome.REFUSED, problem, f"output {number}")
                return


def _wrong_form(call: Call, expected: Outputs, *, float64_allowed: bool) -> Iterator[Finding]:
    """Find outputs of another number, shape or type than the reference's.

    A reference may compute in float64 what the target gives in the type of its inputs: `float64_allowed`.
    """
    if len(call.outputs) != len(expected):
        what = f"{len(call.outputs)} tensors are returned, the reference returns {len(expected)}"
        yield Finding("wrong_output", Outcome.REFUSED, what)
    for number, (output, plain) in enumerate(zip(call.outputs, expected, strict=False)):
        in_float64 = float64_allowed and plain.dtype is torch.float64 and output.is_floating_point()
        if output.shape != plain.shape or (output.dtype != plain.dtype and not in_float64):
            forms = (f"{str(one.dtype).removeprefix('torch.')}{list(one.shape)}" for one in (output, plain))
            what = "the output is {}, the reference's {}".format(*forms)
            yield Finding("wrong_output", Outcome.REFUSED, what, f"output {number}")


def _types(tensors: Outputs) -> set[torch.dtype]:
    return {tensor.dtype for tensor in tensors}


def _problem(output: torch.Tensor, exact: torch.Tensor, allowed: float) -> str:
    """Return how an output differs from the reference's; empty where it does not."""
    if not output.is_floating_point():
        count = int((output != exact.to(output.dtype)).sum())
        return f"{count:,} of {output.numel():,} elements differ from the reference" if count else ""
    wide, finite = output.double(), exact.double().isfinite()  # torch has no isfinite for types of 8 bits
    if not bool((wide.isfinite() == finite).all()):
        return "NaN or infinity stands where the reference has a number, or the other way round"
    error = relative_error(wide[finite], exact[finite])
    return "" if error <= allowed else f"the relative error against the reference is {error:.3g}, {allowed:.3g} is allowed"


def _same(ones: Outputs, others: Outputs) -> bool:
    return len(ones) == len(others) and all(same_bits(*pair) for pair in zip(ones, others, strict=True))


def _kept(call: Call) -> dict[str, Any]:
    return {"kernels": list(call.kernels), "same_memory_as_an_earlier_output": call.same_memory}


def _differing(one: torch.Tensor, other: torch.Tensor) -> int:
    if one.shape != other.shape or one.dtype != other.dtype:
        return one.numel()
    return int((one != other).sum())
