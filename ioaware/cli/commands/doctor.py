"""`ioaware doctor`: what this machine can do, and the remedy for what it cannot."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ioaware.cli import exit_codes
from ioaware.cli.options import json_option, verb
from ioaware.cli.output import emit

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ioaware.measurement.doctor import Finding

TRACE_NEEDS = ("python", "torch", "triton")
WORDS = {True: "ok", False: "MISSING", None: "-"}


@verb
@json_option
def doctor(as_json: bool) -> int:
    """Check versions, GPU, ncu, counter permission and telemetry.

    A remedy is given for each thing missing.

    Exits with 0 where kernels can be traced, which needs no GPU, and with 5 where they cannot.
    """
    from ioaware.measurement.doctor import examine

    findings = examine()
    emit(lambda: _data(findings), lambda: _text(findings), as_json=as_json)
    return exit_codes.OK if _traces(findings) else exit_codes.ENVIRONMENT


def _traces(findings: Sequence[Finding]) -> bool:
    return {finding.name for finding in findings if finding.ok} >= set(TRACE_NEEDS)


def _measures(findings: Sequence[Finding]) -> bool:
    return not any(finding.ok is False for finding in findings)


def _data(findings: Sequence[Finding]) -> dict[str, Any]:
    rows = [{"name": f.name, "ok": f.ok, "detail": f.detail, "remedy": f.remedy} for f in findings]
    return {"schema": 1, "trace": _traces(findings), "measure": _measures(findings), "findings": rows}


def _text(findings: Sequence[Finding]) -> Iterator[RenderableType]:
    """Yield the findings, the needed remedies, and the verbs that work here."""
    from rich.text import Text

    from ioaware.cli.render import table
    from ioaware.cli.terminal_text import printable

    yield table(["what", "here", "detail"], [(f.name, WORDS[f.ok], f.detail) for f in findings], left=3)
    for finding in findings:
        if finding.remedy and not finding.ok:
            yield Text(printable(f"\n{finding.name}: {finding.remedy}"))
    works = [
        "predict",
        *(["derive", "explain", "trace", "verify", "report"] if _traces(findings) else []),
        *(["measure"] if _measures(findings) else []),
    ]
    yield Text(f"\nworks here: {', '.join(works)}")


command = doctor
