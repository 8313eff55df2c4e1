"""Conditions of formulas as text: the first few, and all with -v."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from rich.console import Console

from ioaware.cli.formula_tables import MAX_CONDITIONS, derived_text
from ioaware.derivation.derive import derive
from ioaware.targets.target import load_target

PRIMES = (3, 5, 7, 11, 13, 17, 19, 23, 29)
HERE = "tests/cli/test_formula_tables.py"


@triton.jit
def doubled(x, n):
    at = tl.program_id(0) * 32 + tl.arange(0, 32)
    tl.store(x + at, 2.0 * tl.load(x + at, at < n), at < n)


def many_branches(n: int = 1000) -> torch.Tensor:
    x = torch.zeros(n, device="cuda")
    programs = sum(n % prime == 1 for prime in PRIMES) + triton.cdiv(n, 32)
    doubled[(programs,)](x, n)
    return x


def text_of(*, verbose: bool) -> list[str]:
    result = derive(load_target(f"{HERE}:many_branches"), {}, machine_code=False)
    console = Console(width=100_000)
    with console.capture() as shown:
        console.print(*derived_text(result, verbose=verbose), sep="\n")
    return shown.get().splitlines()


def test_of_many_conditions_the_first_are_printed() -> None:
    short, long = (text_of(verbose=verbose) for verbose in (False, True))
    (some,), (every,) = ([line for line in lines if line.startswith("for ")] for lines in (short, long))
    assert some.count(" and ") == MAX_CONDITIONS
    assert some.endswith(f"{len(PRIMES) - MAX_CONDITIONS} more conditions (-v shows them)")
    assert [f"n % {prime} " in every for prime in PRIMES] == [True] * len(PRIMES)
    assumed = [line for line in short if line.startswith("note: assumes")]
    assert len(assumed) == MAX_CONDITIONS + 1
    assert assumed[-1].endswith(f"{len(PRIMES) - MAX_CONDITIONS} more conditions (-v shows them)")
    assert len([line for line in long if line.startswith("note: assumes")]) == len(PRIMES)
