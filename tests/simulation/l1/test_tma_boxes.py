"""Requests of TMA copies, by hand.

Whole boxes are loaded, rows of 128 bytes are stored.
"""

from __future__ import annotations

import pytest
import torch
import triton
from triton.tools.tensor_descriptor import TensorDescriptor

from ioaware.machine import find_machine
from ioaware.simulation.simulate import simulate
from ioaware.simulation.simulation_result import Simulated
from ioaware.targets.target import load_target

ROWS, COLUMNS = 32, 128
BOX_BYTES = ROWS * COLUMNS * 2


@triton.jit
def copy_kernel(source, target, ROWS: triton.language.constexpr, COLUMNS: triton.language.constexpr):
    at = [triton.language.program_id(0) * ROWS, triton.language.program_id(1) * COLUMNS]
    target.store(at, source.load(at))


def copied(rows: int = 40, columns: int = 136) -> torch.Tensor:
    x, out = (torch.empty(rows, columns, device="cuda", dtype=torch.float16) for _ in range(2))
    source, target = (TensorDescriptor.from_tensor(one, [ROWS, COLUMNS]) for one in (x, out))
    grid = triton.cdiv(rows, ROWS), triton.cdiv(columns, COLUMNS)
    copy_kernel[grid](source, target, ROWS=ROWS, COLUMNS=COLUMNS)
    return out


def simulated(**params: int) -> Simulated:
    target = load_target(copied)
    return simulate(target, target.resolve(params), machine=find_machine("H200"))


def test_what_lies_outside_the_tensor_is_requested_too() -> None:
    requested = simulated().launches[0].requested
    assert requested is not None
    assert requested.read_sector_bytes == 4 * BOX_BYTES
    # rows of 272 bytes: every other one begins in the middle of a sector, and each half of 128 bytes has a sector more there
    even, odd = 2 * 4 + 1, 2 * 5 + 1
    assert requested.write_sector_bytes == 20 * 32 * (even + odd)


@pytest.mark.parametrize("rows", [32, 96])
def test_boxes_within_the_tensor_and_its_sectors_request_their_elements(rows: int) -> None:
    requested = simulated(rows=rows, columns=256).launches[0].requested
    assert requested is not None
    assert (requested.read_sector_bytes, requested.write_sector_bytes) == (rows * 512, rows * 512)


@triton.jit
def pair_kernel(large, small, out, COLUMNS: triton.language.constexpr):
    one, other = large.load([0, 0]), small.load([0, 0])
    lanes = triton.language.arange(0, COLUMNS)
    triton.language.store(out + lanes, triton.language.sum(one, 0) + triton.language.sum(other, 0))


def summed(rows: int = 8) -> torch.Tensor:
    x, out = torch.empty(rows, COLUMNS, device="cuda"), torch.empty(COLUMNS, device="cuda")
    pair_kernel[(1,)](*(TensorDescriptor.from_tensor(x, [size, COLUMNS]) for size in (32, 16)), out, COLUMNS=COLUMNS)
    return out


def test_boxes_of_two_shapes_on_one_line_are_counted_by_their_sectors() -> None:
    target = load_target(summed)
    requested = simulate(target, target.resolve({}), machine=find_machine("H200")).launches[0].requested
    assert requested is not None
    assert requested.read_sector_bytes == 2 * 8 * COLUMNS * 4
