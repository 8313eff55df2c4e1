"""Constructed evidence: observations that equal the theory exactly."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from ioaware.analysis.theory.claims import theorem2
from ioaware.analysis.theory.claims.evidence import Evidence, Need, Observation
from ioaware.result import Check, ParamValue, Result, Source
from ioaware.sweep.claim_evidence import observe
from ioaware.sweep.points import make_point


def perfect(source: Source, target: str, **params: ParamValue) -> Observation:
    """Return an observation equal to its prediction, with its output within tolerance."""
    seen = observe(Result(source, target, make_point(source, target, params).params))
    observed = replace(seen.predicted, source=source, check=Check(1e-7, 1e-5))
    return replace(seen, observed=observed)


@pytest.fixture(scope="session")
def evidence() -> Evidence:
    """Return traces and predictions for all claims, without measurements."""
    return Evidence({need: perfect(need.source, need.target, **dict(need.params)) for need in theorem2.points()})


@pytest.fixture(scope="session")
def measured() -> Callable[..., Observation]:
    """Return a function that makes perfect measurements.

    An example is `measured("flash1", seq_len=4096)`.
    """
    return lambda target, **params: perfect("measure", target, **params)


Change = Callable[[Observation], Observation | None]


@pytest.fixture(scope="session")
def altered(evidence: Evidence) -> Callable[[str, Change], Evidence]:
    """Return a function that changes the observations of one case.

    A change to None drops the observation.
    """

    def alter(target: str, change: Change) -> Evidence:
        answers: dict[Need, Observation] = {}
        for need, seen in evidence.answers.items():
            kept = change(seen) if need.target == target else seen
            if kept is not None:
                answers[need] = kept
        return Evidence(answers)

    return alter
