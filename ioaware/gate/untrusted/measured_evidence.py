"""Find what was measured of an untrusted kernel: a record, or an evaluator's time."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

from ioaware.errors import UsageError
from ioaware.gate.measured.comparison import measured_results
from ioaware.gate.untrusted.kernel_evidence import Measured
from ioaware.gate.verdict import BaselineError
from ioaware.machine import find_machine_or_file
from ioaware.result import ParamValue, Result


def measured_evidence(
    machine: str, params: Mapping[str, ParamValue], *, target: str, record: Path | None = None, time_us: float | None = None
) -> Measured | None:
    """Return what was measured at `params`; None where nothing was.

    A record's time was taken with the L2 flushed before each repetition. Of another time that is not known. Raises
    `UsageError` for a time that is no positive number, `BaselineError` for a file without a record of these parameters.
    """
    if time_us is not None and not (math.isfinite(time_us) and time_us > 0):
        raise UsageError(f"a time is a positive number of microseconds, not {time_us}", "Correct --time-us.")
    if time_us is not None and record is not None:
        raise UsageError("a time and a record are both given", "A record has its own time: leave --time-us out.")
    if time_us is None and record is None:
        return None
    found = find_machine_or_file(machine)
    if record is None:
        return Measured(found, None if time_us is None else time_us * 1000)
    result = _at(measured_results(record), record, target, params)
    return Measured(found, result.timing.median_ns if result.timing else result.time_ns, cold=True, record=result)


def _at(results: list[Result], path: Path, target: str, params: Mapping[str, ParamValue]) -> Result:
    """Return the record of this target at these parameters."""
    fitting = [one for one in results if one.target == target and dict(one.params) == dict(params)]
    if len(fitting) != 1:
        names = ", ".join(dict.fromkeys(one.target for one in results))
        raise BaselineError(
            f"{path} has {len(fitting) or 'no'} record{'s' * (len(fitting) > 1)} of {target} at these parameters",
            f"Its targets: {names}. Measure it at the same parameters: ioaware measure, or a study.",
        )
    return fitting[0]
