"""Print a result as one line.

It has source, target, parameters, bytes at each place, time and verdict.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ioaware.display.text import clean, params_text
from ioaware.display.units import bytes_text, time_text

if TYPE_CHECKING:
    from ioaware.result import Result


def result_line(result: Result) -> str:
    """Return a result as one line of text.

    An example is `predict flash2 (seq_len=4096): requested reads 138.4 MB, writes 524.3 kB; exact`.
    """
    params = params_text(result.params)
    head = f"{result.source} {clean(result.target)}" + (f" ({params})" if params else "")
    return f"{head}: {'; '.join(_facts(result)) or 'no numbers'}"


def _facts(result: Result) -> Iterator[str]:
    for place, traffic in (("requested", result.requested), ("hbm", result.hbm)):
        if traffic is not None:
            yield f"{place} reads {bytes_text(traffic.read_bytes)}, writes {bytes_text(traffic.write_bytes)}"
    if result.time_ns is not None:
        yield f"time {time_text(result.time_ns)}"
    if result.check is not None and not result.check.passed:
        yield "the output is WRONG"
    if result.status != "ok":
        yield result.status
    elif result.source != "measure":
        yield "exact" if result.exact else "not exact"
