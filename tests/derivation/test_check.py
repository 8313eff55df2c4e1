"""`derive --check` counts again by interpreting the IR.

A number that differs is not exact.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from ioaware.analysis.ir import Count
from ioaware.analysis.ir.concrete.tally import Tally
from ioaware.capture.capture import DEFAULT_GPU, capture
from ioaware.compilation.execution.program_values import Moved
from ioaware.derivation import check, derived_launch, launch_additions
from ioaware.derivation.check import SECTORS, difference, interpret_launch
from ioaware.derivation.derive import derive
from ioaware.targets.target import load_target

pytestmark = pytest.mark.filterwarnings("ignore:TRITON_DEFAULT_FP_FUSION")


@triton.jit
def scaled(x, out, n, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(out + at, 2.0 * tl.load(x + at, mask=at < n), mask=at < n)


@triton.jit
def down(x, out, rows, step, B: tl.constexpr):
    total = tl.zeros([B], tl.int32)
    for row in range(rows, 0, -step):
        total += tl.load(x + row * B + tl.arange(0, B))
    tl.store(out + tl.arange(0, B), total)


@triton.jit
def listed(x, index, out, B: tl.constexpr):
    rows = tl.load(index + tl.arange(0, B))
    tl.store(out + tl.arange(0, B), tl.load(x + rows))


def double(n: int = 100, device: str = "cuda") -> torch.Tensor:
    x = torch.empty(n, device=device)
    out = torch.empty_like(x)
    scaled[(triton.cdiv(n, 32),)](x, out, n, B=32)
    return out


def gathered(n: int = 100, device: str = "cuda") -> torch.Tensor:
    x, out = torch.empty(n, device=device), torch.empty(32, device=device)
    listed[(1,)](x, torch.empty(32, dtype=torch.int32, device=device), out, B=32)
    return out


@triton.jit
def paged(x, table, lengths, out, B: tl.constexpr):
    request = tl.program_id(0)
    total = tl.zeros((B,), tl.float32)
    for page in range(tl.load(lengths + request)):
        total += tl.load(x + tl.load(table + 8 * request + page) * B + tl.arange(0, B))
    tl.store(out + request * B + tl.arange(0, B), total)


@triton.jit
def rows_of_descriptor(x, index, out, rows, R: tl.constexpr, C: tl.constexpr):
    matrix = tl.make_tensor_descriptor(x, [rows, 40], [40, 1], [1, C])
    taken = matrix.gather(tl.load(index + tl.arange(0, R)), 16)
    tl.store(out + tl.arange(0, R)[:, None] * C + tl.arange(0, C)[None, :], taken)


@triton.jit
def products_by_flag(x, flags, out, B: tl.constexpr):
    lanes = tl.arange(0, B)[:, None] * B + tl.arange(0, B)[None, :]
    matrix = tl.load(x + lanes)
    if tl.load(flags + tl.program_id(0)) > 0:
        matrix = tl.dot(matrix, matrix)
    if tl.sum(matrix) > 0:
        matrix = matrix * 2
    tl.store(out + tl.program_id(0) * B * B + lanes, matrix)


def pages(requests: int = 4, device: str = "cuda") -> torch.Tensor:
    """Reads 1, 2, ... pages of 32 numbers."""
    table = torch.arange(8 * requests, dtype=torch.int32, device=device)
    lengths = torch.arange(requests, dtype=torch.int32, device=device) + 1
    x, out = torch.empty(64, 32, device=device), torch.empty(requests, 32, device=device)
    paged[(requests,)](x, table, lengths, out, B=32)
    return out


def some_rows(rows: int = 20, device: str = "cuda") -> torch.Tensor:
    """Gathers 32 rows, 20 of which exist, of columns 16 to 47, of which 24 exist."""
    x, out = torch.empty(rows, 40, device=device), torch.empty(32, 32, device=device)
    rows_of_descriptor[(1,)](x, torch.arange(32, dtype=torch.int32, device=device), out, rows, R=32, C=32)
    return out


def flagged(known: bool = True, device: str = "cuda") -> torch.Tensor:
    """Multiplies in two of four programs. Work that depends on floats is not counted."""
    x, out = torch.empty(32, 32, device=device), torch.empty(4, 32, 32, device=device)
    flags = torch.arange(4, dtype=torch.int32, device=device) % 2
    products_by_flag[(4,)](x, flags if known else torch.empty_like(flags), out, B=32)
    return out


def notes(host: object, **params: int) -> tuple[bool, list[str]]:
    result = derive(load_target(host), params, machine_code=False, check=True)  # type: ignore[arg-type]
    (launch,) = (launch for launch in result.launches if launch.origin == "triton")
    return launch.exact, [note for note in launch.notes if note.startswith("check:")]


def test_a_right_formula_is_confirmed() -> None:
    assert notes(double, n=77) == (True, ["check: counted again by plain interpretation"])


def test_bytes_at_unknown_addresses_are_counted() -> None:
    assert notes(gathered) == (True, ["check: counted again by plain interpretation"])


def test_data_dependent_kernels_are_not_checked() -> None:
    exact, (note,) = notes(flagged, known=False)
    assert exact
    assert note.startswith("check: not checked: data decide scf.if at")


@pytest.mark.parametrize("host", [pages, flagged])
def test_the_data_of_the_target_are_used(host: object) -> None:
    assert notes(host) == (True, ["check: counted again by plain interpretation"])


def test_bytes_at_the_data_of_the_target_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    right = launch_additions._at_index_data

    def wrong(part: Any, moved: Any) -> Any:
        return right(part, replace(moved, read_bytes=moved.read_bytes + 4))

    monkeypatch.setattr(launch_additions, "_at_index_data", wrong)
    exact, (note,) = notes(pages)
    assert not exact
    assert note.startswith("check: WRONG: read_bytes is ")


def summed_down(rows: int = 8, step: int = 1) -> Any:
    x, out = torch.zeros(rows + 1, 64, dtype=torch.int32, device="cuda"), torch.zeros(64, dtype=torch.int32, device="cuda")
    return lambda: down[(1,)](x, out, rows, step, B=64)


def test_a_launch_executed_at_its_values_is_interpreted_as_compiled_there() -> None:
    """A step of 1 is a constant in that code, which steps down.

    A step in a register does not.
    """
    exact, (note, *_) = notes(summed_down)
    assert exact
    assert note == "check: counted again by plain interpretation"


def test_gathered_rows_inside_the_tensor_are_counted() -> None:
    target = load_target(some_rows)
    (launch,) = capture(target, {"rows": 20}).launches
    contents = {"index": np.arange(32, dtype=np.int32)}
    tally = interpret_launch(launch, {"rows": 20}, DEFAULT_GPU, contents)
    assert tally.read_bytes == 4 * 32 + 4 * 20 * 24
    assert tally.write_bytes == 4 * 32 * 32


def test_gluon_kernels_are_counted_again() -> None:
    pytest.importorskip("triton.experimental.gluon", reason="the kernels are written in Gluon")
    target = load_target("ioaware.kernels.attention.targets:hopper")
    result = derive(target, target.resolve({"heads": 2, "seq_len": 129, "causal": True}), machine_code=False, check=True)
    (launch,) = (launch for launch in result.launches if launch.origin == "triton")
    assert launch.notes[0] == "check: counted again by plain interpretation"


def test_a_wrong_formula_is_found_and_not_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    right = derived_launch.kernel_traffic

    def wrong(*args: Any) -> Any:
        kernel = right(*args)
        return replace(kernel, read_bytes=Count(kernel.read_bytes.expr + 4))

    monkeypatch.setattr(derived_launch, "kernel_traffic", wrong)
    exact, (note,) = notes(double, n=77)
    assert not exact
    assert note == "check: WRONG: read_bytes is 312, and 308 by plain interpretation"


def test_launches_beyond_the_time_are_not_called_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check, "CHECK_SECONDS", 0.0)
    result = derive(load_target(double), {"n": 77}, machine_code=False, check=True)
    (launch,) = result.launches
    assert launch.exact
    assert launch.notes[0] == "check: not checked: the CPU time of the check ended after 0 of 3 programs"
    assert result.notes[-1] == "check: 0 of 1 launches counted again by plain interpretation, at most 0 s of CPU for all"


def test_the_outcome_counts_launches(monkeypatch: pytest.MonkeyPatch) -> None:
    """The launch with few programs is interpreted first."""

    def twice(device: str = "cuda") -> None:
        double(1000, device)
        double(77, device)

    interpreted = check.interpret_launch

    def limited(*args: Any, **kwargs: Any) -> Any:
        seen.append(args[0].grid)
        return interpreted(*args, **{**kwargs, "seconds": 10.0 if len(seen) == 1 else 0.0})

    seen: list[Any] = []
    monkeypatch.setattr(check, "interpret_launch", limited)
    result = derive(load_target(twice), {}, machine_code=False, check=True)
    assert [launch.notes[0].split(":")[1] for launch in result.launches] == [
        " not checked",
        " counted again by plain interpretation",
    ]
    assert result.notes[-1].startswith("check: 1 of 2 launches ")


@pytest.mark.parametrize("name", ["read_bytes", "write_bytes", "atomic_bytes", "flops", *SECTORS])
@pytest.mark.parametrize(("derived", "interpreted"), [(32, 64), (0, 32), (32, 0)])
def test_every_count_is_compared(name: str, derived: int, interpreted: int) -> None:
    assert difference(Moved(**{name: 32}), Tally(**{name: 32}), {}) == ""
    found = difference(Moved(**{name: derived}), Tally(**{name: interpreted}), {})
    assert found == f"{name} is {derived}, and {interpreted} by plain interpretation"


@pytest.mark.parametrize("name", SECTORS)
def test_sectors_that_one_side_does_not_know_are_not_compared(name: str) -> None:
    assert difference(Moved(**{name: 32}, has_sectors=False), Tally(), {}) == ""
    assert difference(Moved(**{name: 32}), Tally(sectors_known=False), {}) == ""
