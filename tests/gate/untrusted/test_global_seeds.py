"""Generators that host code seeds are named, and those it restores are not."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch

from ioaware.gate.untrusted.global_seeds import GlobalSeeds


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    """Leave the generators of this process as they were."""
    states = random.getstate(), np.random.get_state(), torch.get_rng_state()
    yield
    random.setstate(states[0])
    np.random.set_state(states[1])
    torch.set_rng_state(states[2])


def restored() -> None:
    before = random.getstate()
    random.seed(5)
    random.setstate(before)


@pytest.mark.parametrize(
    ("host_code", "expected"),
    [
        (lambda: random.random() + np.random.random() + torch.rand(1), ()),
        (lambda: random.seed(5), ("random",)),
        (lambda: np.random.seed(5), ("numpy",)),
        (lambda: torch.manual_seed(5), ("torch",)),
        (lambda: torch.cuda.manual_seed(5), ("torch.cuda",)),
        (lambda: (random.seed(5), torch.manual_seed(5)), ("random", "torch")),
        (restored, ()),
    ],
)
def test_the_generators_that_are_seeded(host_code: Callable[[], object], expected: tuple[str, ...]) -> None:
    seeds = GlobalSeeds()
    with seeds.noted():
        seeds.set()
        host_code()
        assert seeds.found() == expected
        seeds.set()
        assert seeds.found() == ()
