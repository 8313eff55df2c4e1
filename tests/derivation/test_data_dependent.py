"""Names of unknowns: one for one value, over all launches of a target."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

from ioaware.cli.formula_tables import derived_text
from ioaware.derivation.derive import derive
from ioaware.derivation.derived import Derived
from ioaware.targets.target import load_target

HERE = "tests/derivation/test_data_dependent.py"


@triton.jit
def repeated(times, x, out, first, B: tl.constexpr):
    lanes = tl.arange(0, B)
    for i in range(tl.load(times + first)):
        tl.store(out + i * B + lanes, tl.load(x + i * B + lanes))


@triton.jit
def fill(p, V: tl.constexpr, B: tl.constexpr):
    tl.store(p + tl.arange(0, B), V)


def number(value: int) -> torch.Tensor:
    return torch.full((16,), value, dtype=torch.int32, device="cuda")


def unset() -> torch.Tensor:
    return torch.empty(16, dtype=torch.int32, device="cuda")


def launched(*times: torch.Tensor, n: int, second: int = 0) -> torch.Tensor:
    x, out = torch.ones(n * 16, device="cuda"), torch.empty(n * 16, device="cuda")
    for number, each in enumerate(times):
        repeated[(1,)](each, x, out, second * number, 16)
    return out


def two_tensors(n: int = 8) -> torch.Tensor:
    return launched(number(3), number(2), n=n)


def one_tensor(n: int = 8) -> torch.Tensor:
    times = number(3)
    return launched(times, times, n=n)


def another_element(n: int = 8) -> torch.Tensor:
    times = number(3)
    return launched(times, times, n=n, second=1)


def written_between(n: int = 8) -> torch.Tensor:
    times = unset()
    fill[(1,)](times, 3, 16)
    launched(times, n=n)
    fill[(1,)](times, 1, 16)
    return launched(times, n=n)


def set_between(n: int = 8) -> torch.Tensor:
    times = unset()
    launched(times, n=n)
    times.add_(1)
    return launched(times, n=n)


def result_of(name: str) -> Derived:
    return derive(load_target(f"{HERE}:{name}"), {}, machine_code=False)


@pytest.mark.parametrize("name", ["two_tensors", "another_element", "written_between", "set_between"])
def test_other_contents_have_another_name(name: str) -> None:
    assert len(result_of(name).unknowns) == 2


def test_equal_contents_have_one_name() -> None:
    assert len(result_of("one_tensor").unknowns) == 1


def test_the_formula_holds_with_the_value_of_each_launch() -> None:
    result = result_of("written_between")
    first, second = result.unknowns
    assert second == f"{first}#2"
    assert result.evaluate(**{first: 3, second: 1})["read_bytes"] == 4 * 64 + 2 * 4
    assert "#2: it is loaded" in " ".join(result.launches[-1].notes)


def test_notes_of_every_launch_are_shown() -> None:
    text = "".join(str(part) for part in derived_text(result_of("two_tensors")))
    assert text.count("count in terms of times@") == 2


@triton.jit
def behind_an_address(table, out, n, B: tl.constexpr):
    ids = tl.load(table).to(tl.pointer_type(tl.int64))
    lanes = tl.arange(0, B)
    read = tl.load(ids + lanes, mask=lanes < 7, other=n)
    tl.store(out + lanes, read, mask=read < n)


def through_a_table(n: int = 8) -> torch.Tensor:
    table, out = (torch.empty(64, dtype=torch.int64, device="cuda") for _ in range(2))
    behind_an_address[(1,)](table, out, n, 64)
    return out


def test_what_is_read_through_an_address_in_memory_has_a_name() -> None:
    result = derive(load_target(through_a_table), {"n": 8}, machine_code=False)
    assert any("memory@test_data_dependent.py:" in note for note in result.launches[0].notes)
    assert not any(" @test_data_dependent.py:" in note for note in result.launches[0].notes)
