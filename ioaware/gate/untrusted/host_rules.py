"""Apply rules about host code.

They judge where work runs, and what it does to the measurement.
"""

from __future__ import annotations

from collections.abc import Iterator

from ioaware.gate.untrusted.finding import Finding, Outcome
from ioaware.gate.untrusted.kernel_evidence import Evidence


def other_stream(evidence: Evidence) -> Iterator[Finding]:
    """Find work on a stream that the caller's stream never waits for.

    A timer misses such work.
    """
    streams = {name for events in evidence.trials.events for name in events.pending}
    if streams:
        what = "work is left on another stream, and the caller's stream does not wait for it"
        yield Finding("other_stream", Outcome.REFUSED, what, evidence.target, {"streams": len(streams)})


def background_thread(evidence: Evidence) -> Iterator[Finding]:
    """Find threads and processes: their work may run after the call was timed."""
    names = [name for events in evidence.trials.events for name in events.threads]
    if names:
        yield Finding("background_thread", Outcome.REFUSED, "a thread or process is started", names[0], {"threads": len(names)})


def callers_examined(evidence: Evidence) -> Iterator[Finding]:
    """Find host code that looks at its callers, which hold the expected output."""
    calls = list(dict.fromkeys(call for events in evidence.trials.events for call in events.looks))
    if calls:
        what = "the host code looks at its callers or at all objects: an evaluator holds the expected output there"
        yield Finding("callers_examined", Outcome.SUSPECT, what, calls[0], {"calls": calls})


def deferred_code(evidence: Evidence) -> Iterator[Finding]:
    """Find code that is registered to run later, after the call was timed."""
    calls = list(dict.fromkeys(call for events in evidence.trials.events for call in events.later))
    if calls:
        what = "the host code registers code that runs later, in the evaluator's time"
        yield Finding("deferred_code", Outcome.SUSPECT, what, calls[0], {"calls": calls})


def replaced_function(evidence: Evidence) -> Iterator[Finding]:
    """Find replaced public functions of torch, Triton and Python, and operators."""
    for name, place in evidence.trials.replaced.items():
        what = "a public function is replaced, and with it what an evaluator measures or compares with"
        yield Finding("replaced_function", Outcome.REFUSED, what, name, {"replacement": place})


def seed_set(evidence: Evidence) -> Iterator[Finding]:
    """Find global random generators that the call seeds.

    What an evaluator draws next is known to the target.
    """
    for name in dict.fromkeys(name for events in evidence.trials.events for name in events.seeds):
        what = "the call sets the seed of a global generator: the next random inputs are known in advance"
        yield Finding("seed_set", Outcome.REFUSED, what, name)


def l2_policy(evidence: Evidence) -> Iterator[Finding]:
    """Find a policy by which the L2 keeps lines.

    Flushing the L2 by writes does not undo it.
    """
    calls = list(dict.fromkeys(call for events in evidence.trials.events for call in events.l2_calls))
    if calls:
        what = "the host code sets how the L2 keeps lines: a measurement after a flush is still warm"
        yield Finding("l2_policy", Outcome.REFUSED, what, calls[0].partition("(")[0], {"calls": [one[:200] for one in calls]})


def native_code(evidence: Evidence) -> Iterator[Finding]:
    """Find compiled code beside Triton's, which no trial examines."""
    found = [one.partition(":")[0] for events in evidence.trials.events for one in events.native_code]
    if found:
        yield Finding("native_code", Outcome.INCOMPLETE, "native code is compiled, which is not examined", found[0])


def cuda_calls(evidence: Evidence) -> Iterator[Finding]:
    """Find calls of the CUDA runtime or driver."""
    calls = [call for events in evidence.trials.events for call in events.cuda_calls if call not in events.l2_calls]
    if calls:
        what = "the host code calls the CUDA runtime itself, and a trial does nothing there"
        yield Finding("cuda_calls", Outcome.INCOMPLETE, what, calls[0])


def hidden_failure(evidence: Evidence) -> Iterator[Finding]:
    """Find an output that comes though every launch fails: a fall-back hides it."""
    failing = evidence.trials.failing
    if failing is not None and evidence.trials.repeated[0].kernels:
        ran = ", ".join(failing.operators) or "nothing"
        what = f"every launch fails and the function returns all the same; what ran is {ran}"
        yield Finding("hidden_failure", Outcome.SUSPECT, what, evidence.target, {"operators": list(failing.operators)})
