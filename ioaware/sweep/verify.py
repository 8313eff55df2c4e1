"""The claims by name: gathers what they need, once for all of them, and judges each."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Protocol, cast

from ioaware.errors import UsageError

if TYPE_CHECKING:
    from ioaware.analysis.theory.claims.claim import Claim
    from ioaware.analysis.theory.claims.evidence import Evidence, Need
    from ioaware.result import Result
    from ioaware.sweep.claim_evidence import Progress

CLAIMS = ("theorem1", "theorem2")
"""The claims there are: modules of `ioaware.analysis.theory.claims`. A new one is a file there and its name here."""


class Judgement(Protocol):
    """What a claim's module has: the runs it needs, and the verdict on what was observed."""

    def points(self) -> tuple[Need, ...]: ...

    def judge(self, evidence: Evidence) -> Claim: ...


def verify(
    names: Sequence[str] = (), *, measurements: Iterable[Result] | None = None, progress: Progress | None = None
) -> list[Claim]:
    """The named claims, all of them without names, each judged on fresh traces and on the measurements.

    `measurements` are the recorded ones unless given. Raises `UsageError` for a claim that does not exist, before
    anything runs.
    """
    judgements = [_find(name) for name in (names or CLAIMS)]
    from ioaware.sweep.claim_evidence import gather

    needs = list(dict.fromkeys(need for judgement in judgements for need in judgement.points()))
    evidence = gather(needs, measurements=measurements, progress=progress)
    return [judgement.judge(evidence) for judgement in judgements]


def _find(name: str) -> Judgement:
    if name not in CLAIMS:
        close = difflib.get_close_matches(name, CLAIMS, n=1)
        hint = f"Did you mean {close[0]}? " if close else ""
        raise UsageError(f"there is no claim {name!r}", f"{hint}Claims: {', '.join(CLAIMS)}.")
    return cast(Judgement, importlib.import_module(f"ioaware.analysis.theory.claims.{name}"))
