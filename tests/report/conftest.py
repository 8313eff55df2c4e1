"""Fixtures of the report tests: invented results and claims."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from ioaware.analysis.theory.claims.claim import Claim
from ioaware.report.figures.roofline import Roofs
from ioaware.result import Result
from tests.support.invented_results import ROOFS, claim, everything, make


@pytest.fixture(scope="session")
def results() -> Sequence[Result]:
    return everything()


@pytest.fixture
def result_of() -> Callable[..., Result]:
    return make


@pytest.fixture
def claim_of() -> Callable[..., Claim]:
    return claim


@pytest.fixture
def roofs() -> Roofs:
    return ROOFS


@pytest.fixture(scope="session")
def make_result() -> Callable[..., Result]:
    return make


@pytest.fixture(scope="session")
def full_claims() -> Sequence[Claim]:
    return [claim("theorem1"), claim("theorem2", "inconclusive")]


@pytest.fixture(scope="session")
def full_roofs() -> Roofs:
    return ROOFS
