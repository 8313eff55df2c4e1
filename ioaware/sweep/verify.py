"""Verify claims by name: gather the evidence of all of them, then judge each."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol, cast

from ioaware.errors import MachineError, UsageError
from ioaware.sweep.gpu_name import visible_gpus

if TYPE_CHECKING:
    from ioaware.analysis.theory.claims.claim import Claim
    from ioaware.analysis.theory.claims.evidence import Evidence, Need
    from ioaware.result import Result
    from ioaware.sweep.claim_evidence import Progress
    from ioaware.sweep.points import Point

_PACKAGE = "ioaware.analysis.theory.claims"
CLAIMS: Mapping[str, str] = {
    "theorem1": f"{_PACKAGE}.theorem1",
    "theorem2": f"{_PACKAGE}.theorem2",
    "proposition3": f"{_PACKAGE}.io.proposition3",
    "saha_ye": f"{_PACKAGE}.io.saha_ye",
    "proposition4": f"{_PACKAGE}.io.proposition4",
    "theorem5": f"{_PACKAGE}.io.theorem5",
    "backward_bound": f"{_PACKAGE}.io.backward_bound",
    "crossovers": f"{_PACKAGE}.io.fewer_elements",
    "capacity": f"{_PACKAGE}.io.block_capacity",
    "flash2_blocks": f"{_PACKAGE}.io.flash2_blocks",
    "softmax": f"{_PACKAGE}.io.softmax_accesses",
    "gqa": f"{_PACKAGE}.io.grouped_heads",
    "gpu_exchange": f"{_PACKAGE}.io.gpu_exchange",
    "combiners": f"{_PACKAGE}.numerics.combiner_identities",
    "output_error": f"{_PACKAGE}.numerics.output_error",
    "gradient_error": f"{_PACKAGE}.numerics.gradient_error",
    "errata": f"{_PACKAGE}.errata.all_errata",
}
"""Claims by name, each with its module. A new claim is a file and a line here."""


class Judgement(Protocol):
    """Define a claim's module.

    It gives the runs that it needs, and its verdict on the observations.
    """

    def points(self) -> tuple[Need, ...]: ...

    def judge(self, evidence: Evidence) -> Claim: ...


def verify(
    names: Sequence[str] = (),
    *,
    measurements: Iterable[Result] | None = None,
    progress: Progress | None = None,
    known: Mapping[str, Result] = MappingProxyType({}),
) -> list[Claim]:
    """Return the named claims (default: all), judged.

    The evidence is fresh traces and the measurements; of `gpu_exchange` also NVLink's counters of this machine's GPUs, where it
    has several that are free.

    `measurements` are the shipped records unless given; `known` has results of runs by the key of their point. Raises
    `UsageError` for an unknown claim, before anything runs.
    """
    judgements = [_find(name) for name in (names or CLAIMS)]
    from ioaware.sweep.claim_evidence import gather

    evidence = gather(_needs(judgements), measurements=measurements, progress=progress, known=known)
    gpus = visible_gpus() if "gpu_exchange" in (names or CLAIMS) else ()
    if len(gpus) > 1:
        from ioaware.bench.multi_gpu.counted_exchanges import count_here

        with suppress(MachineError):  # GPUs that are in use, or without NVLink
            evidence = replace(evidence, exchanges=(*evidence.exchanges, *count_here(len(gpus))))
    return [judgement.judge(evidence) for judgement in judgements]


def runs(names: Sequence[str] = ()) -> list[Point]:
    """Return the runs that the named claims (default: all) need."""
    from ioaware.sweep.claim_evidence import points_of

    return points_of(_needs([_find(name) for name in (names or CLAIMS)]))


def _needs(judgements: Sequence[Judgement]) -> list[Need]:
    """Return each run that any of the claims needs, once."""
    return list(dict.fromkeys(need for judgement in judgements for need in judgement.points()))


def _find(name: str) -> Judgement:
    if name not in CLAIMS:
        close = difflib.get_close_matches(name, CLAIMS, n=1)
        hint = f"Did you mean {close[0]}? " if close else ""
        raise UsageError(f"there is no claim {name!r}", f"{hint}Claims: {', '.join(CLAIMS)}.")
    return cast(Judgement, importlib.import_module(CLAIMS[name]))
