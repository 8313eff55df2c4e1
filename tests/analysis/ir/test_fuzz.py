"""Random programs: exact numbers equal a run, bounds hold, and nothing crashes.

`IOAWARE_FUZZ=1000` runs that many more programs, from the seed `IOAWARE_FUZZ_SEED` on.
`python -m tests.support.fuzz.run` prints statistics, `python -m tests.support.fuzz.reduce` minimises a failing program.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from tests.support.fuzz.differential import check_host, check_program, sample_points
from tests.support.fuzz.grammar import program
from tests.support.fuzz.regressions import REGRESSIONS

pytestmark = [
    pytest.mark.filterwarnings("ignore:tl.make_block_ptr is deprecated"),
    pytest.mark.filterwarnings("ignore:TRITON_DEFAULT_FP_FUSION"),
]

FIRST = int(os.environ.get("IOAWARE_FUZZ_SEED", "1000000"))
MORE = range(FIRST, FIRST + int(os.environ.get("IOAWARE_FUZZ", "0")))
SMALL = (
    10,
    14,
    17,
    18,
    20,
    26,
    36,
    39,
    42,
    43,
    45,
    47,
    56,
    61,
    64,
    65,
    66,
    67,
    74,
    76,
    94,
    98,
    100,
    104,
    111,
    115,
    117,
    119,
    122,
)
"""Seeds of fast programs that together cover every construct of the grammar."""


@pytest.mark.parametrize("host", REGRESSIONS, ids=lambda host: host.__name__)
def test_former_failures_are_right(host: Callable[..., object]) -> None:
    verdict = check_host(host, sample_points(Random(host.__name__), 8))
    assert verdict.outcome == "equal", verdict.why


@pytest.mark.parametrize("seed", SMALL)
def test_small_programs(seed: int, tmp_path: Path) -> None:
    verdict = check_program(program(seed, small=True), tmp_path, f"small{seed}", points=4, seed=seed)
    assert not verdict.bug, verdict.why


@pytest.mark.parametrize("seed", range(940001, 940007))
def test_programs_as_libraries_write_them(seed: int, tmp_path: Path) -> None:
    verdict = check_program(program(seed, small=True, library=True), tmp_path, f"library{seed}", points=4, seed=seed)
    assert not verdict.bug, verdict.why
    assert verdict.outcome != "invalid", verdict.why


@pytest.mark.parametrize("seed", MORE)
def test_programs(seed: int, tmp_path: Path) -> None:
    verdict = check_program(program(seed), tmp_path, f"program{seed}", seed=seed)
    assert not verdict.bug, verdict.why


@pytest.mark.parametrize("seed", [0, 1, 4, 11, 12, 14])
def test_programs_that_read_their_bounds_are_not_called_exact(seed: int, tmp_path: Path) -> None:
    verdict = check_program(program(seed, data=True, small=True), tmp_path, f"data{seed}", points=4, seed=seed)
    assert not verdict.bug, verdict.why


def test_a_seed_is_a_program() -> None:
    assert program(3) == program(3) != program(4)
