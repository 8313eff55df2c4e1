# pyright: basic, reportArgumentType=false
"""L1 requests: hand counts of kernels for an H200, and sums over classes.

The kernels are compiled for an H200. The classes are execution classes.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.tools.tensor_descriptor import TensorDescriptor

from ioaware.analysis.formulas.evaluate import evaluate
from ioaware.analysis.ir.sectors.execution_classes import execution_classes
from ioaware.capture.capture import DEFAULT_GPU, Capture, capture
from ioaware.compilation.compiled_accesses import Access, accesses
from ioaware.compilation.launch_traffic import kernel_traffic, launch_touches
from ioaware.compilation.layouts import Layout
from ioaware.compilation.triton_ir import compiled
from ioaware.derivation.derive import derive
from ioaware.derivation.l1_requests import (
    Instructions,
    L1Requests,
    copied_sectors,
    count_l1_requests,
    instruction_sectors,
    l1_requests_of_launch,
    tma_store_bytes,
)
from ioaware.measurement.counters import l1_counters as l1
from ioaware.measurement.counters.kernel_attribution import REQUESTED_READS
from ioaware.result_file import read_jsonl
from ioaware.targets.target import load_target


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(out + offsets, tl.load(x + offsets, mask=mask) + tl.load(y + offsets, mask=mask), mask=mask)


@triton.jit
def scaled_rows(x, scale, out, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < cols
    factor = tl.load(scale + row)
    tl.store(out + row * cols + at, tl.load(x + row * cols + at, mask=inside) * factor, mask=inside)


@triton.jit
def copy_boxes(source, target, M: tl.constexpr, N: tl.constexpr):
    row, column = tl.program_id(0) * M, tl.program_id(1) * N
    target.store([row, column], source.load([row, column]))


@triton.jit
def gather(x, where, out, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    place = tl.load(where + at)
    tl.store(out + at, tl.load(x + place))


@triton.jit
def two_loads_on_one_line(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at) + tl.load(y + at * n).to(tl.float32))


@triton.jit
def ragged_loop(x, out, n, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, (row + 1) * 3, 2):
        at = start * BLOCK + tl.arange(0, BLOCK)
        total += tl.load(x + row * n + at, mask=at < n, other=0.0)
    tl.store(out + row * BLOCK + tl.arange(0, BLOCK), total)


def vector_add(n: int = 4096, device: str = "cuda") -> Callable[[], object]:
    x, y, out = (torch.empty(n, device=device) for _ in range(3))
    return lambda: add[(triton.cdiv(n, 1024),)](x, y, out, n, BLOCK=1024)


def rows_of(rows: int = 6, cols: int = 512, device: str = "cuda") -> Callable[[], object]:
    x, out = (torch.empty(rows, cols, device=device, dtype=torch.bfloat16) for _ in range(2))
    scale = torch.empty(rows, device=device, dtype=torch.float32)
    return lambda: scaled_rows[(rows,)](x, scale, out, cols, BLOCK=triton.next_power_of_2(cols))


def copied_boxes(rows: int = 64, cols: int = 128, device: str = "cuda") -> Callable[[], object]:
    x, out = (torch.empty(rows, cols, device=device, dtype=torch.float16) for _ in range(2))
    given = [TensorDescriptor.from_tensor(tensor, [32, 128]) for tensor in (x, out)]
    return lambda: copy_boxes[(triton.cdiv(rows, 32), triton.cdiv(cols, 128))](*given, M=32, N=128)


@triton.jit
def either_half(x, out, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    if n > 4:  # noqa: SIM108 - a branch of the kernel
        value = tl.load(x + at)
    else:
        value = tl.load(x + at + BLOCK) * 2
    tl.store(out + at, value)


def halves(n: int = 5, device: str = "cuda") -> Callable[[], object]:
    x, out = torch.empty(512, device=device), torch.empty(256, device=device)
    return lambda: either_half[(1,)](x, out, n, BLOCK=256)


def gathered(device: str = "cuda") -> Callable[[], object]:
    x, out = (torch.empty(256, device=device) for _ in range(2))
    where = torch.empty(256, device=device, dtype=torch.int32)
    return lambda: gather[(1,)](x, where, out, BLOCK=256)


def launch_two_loads(n: int = 3, device: str = "cuda") -> Callable[[], object]:
    x, out = torch.empty(256, device=device), torch.empty(256, device=device)
    y = torch.empty(256 * n, device=device)
    return lambda: two_loads_on_one_line[(1,)](x, y, out, n, BLOCK=256)


def loops(rows: int = 5, n: int = 1000, device: str = "cuda") -> Callable[[], object]:
    x, out = torch.empty(rows, n, device=device), torch.empty(rows, 64, device=device)
    return lambda: ragged_loop[(rows,)](x, out, n, ROWS=rows, BLOCK=64)


def capture_function(function: Callable[..., Any], **params: int) -> Capture:
    target = load_target(function)
    return capture(target, target.resolve(params))


def l1_requests(function: Callable[..., Any], **params: int) -> L1Requests:
    found = capture_function(function, **params)
    return l1_requests_of_launch(found.launches[0], found.values, DEFAULT_GPU)


def test_full_vectors_request_every_sector_once() -> None:
    """4096 floats: 16 bytes a thread, since n is a multiple of 16."""
    assert l1_requests(vector_add, n=4096) == L1Requests(2 * 512, 2 * 16384, 512, 16384)


def test_indivisible_length_takes_narrow_loads() -> None:
    """n = 4001: the mask may end anywhere, so lanes load 4 bytes, 16 bytes apart.

    Each vector takes 4 instructions for the same 16 sectors. An H200 counts 4.00000 times the sectors for n = 25,000,001.
    The last tile has 929 floats, its last block of 128 has 33. There each of four instructions has two more lanes, and the
    first has one more.
    """
    full = 3 * 8 * 4 * 16 + 7 * 4 * 16
    last = sum(len({(lane * 16 + 4 * turn) // 32 for lane in range(32) if 896 + lane * 4 + turn < 929}) for turn in range(4))
    found = l1_requests(vector_add, n=4001)
    assert (found.read_sectors, found.write_sectors) == (2 * (full + last), full + last)
    assert (found.read_bytes, found.write_bytes) == (2 * 4001 * 4, 4001 * 4)


def test_every_warp_requests_a_scalar() -> None:
    """Rows of 1024 bytes by 4 warps, half of which load nothing but the scalar."""
    found = l1_requests(rows_of, rows=6, cols=512)
    assert found.read_sectors == 6 * (32 + 4)
    assert found.read_bytes == 6 * (1024 + 4 * 4)
    assert (found.write_sectors, found.write_bytes) == (6 * 32, 6 * 1024)


def test_rows_that_begin_inside_a_sector() -> None:
    """Rows of 1000 bytes begin 8 bytes further into a sector each.

    They are loaded 2 bytes a lane.
    """
    found = l1_requests(rows_of, rows=4, cols=500)
    expected = 0
    for row in range(4):
        for warp in range(0, 512, 128):  # 4 warps, 1 element a thread, 32 adjacent elements an instruction
            for start in range(warp, warp + 128, 32):
                inside = [element for element in range(start, start + 32) if element < 500]
                expected += len({(row * 1000 + 2 * element) // 32 for element in inside})
    assert found.write_sectors == expected
    assert found.read_sectors == expected + 4 * 4
    assert found.write_bytes == 4 * 1000


def test_tma_loads_whole_boxes_and_stores_rows_of_128_bytes() -> None:
    """[64, 120] halves in boxes of 128 columns.

    Rows of 240 bytes begin at or in the middle of a sector.
    """
    found = l1_requests(copied_boxes, rows=64, cols=120)
    assert found.tma_read_bytes == 2 * 32 * 128 * 2
    row = [len({(start + byte) // 32 for byte in range(length)}) for start in (0, 16) for length in (128,)]
    rest = [len({(start + 128 + byte) // 32 for byte in range(112)}) for start in (0, 16)]
    assert found.tma_write_bytes == 32 * 32 * (sum(row) + sum(rest))
    assert tma_store_bytes(np.arange(0, 256, 2).reshape(1, 128) + 16, np.ones((1, 128), bool), 2) == 10 * 32


def test_gluon_tma_copies_are_boxes() -> None:
    """The Hopper kernel at d = 64: tiles of 192 rows extend beyond N = 16,384.

    TMA loads the rows outside too. The counter of an H200 includes them, the formula does not.
    """
    records = read_jsonl(Path(str(files("ioaware"))) / "recorded" / "h200-hopper.jsonl")
    wanted = {"seq_len": 16_384, "head_dim": 64, "causal": False}
    record = next(r for r in records if wanted.items() <= r.params.items())
    target = load_target(record.target)
    derived = derive(target, target.resolve(record.params), machine_code=False, counters=True)
    (launch,) = derived.launches
    assert launch.counters is not None
    assert record.requested is not None
    assert derived.requested is not None
    sector_bytes = 32 * launch.counters[l1.READ_SECTORS], 32 * launch.counters[l1.WRITE_SECTORS]
    assert sector_bytes[0] + launch.counters[l1.TMA_READS] == record.requested.read_bytes != derived.requested.read_bytes
    assert sector_bytes[1] + launch.counters[l1.TMA_WRITES] == record.requested.write_bytes == derived.requested.write_bytes


def test_operations_without_rule_are_refused() -> None:
    found = capture_function(vector_add, n=4096)
    touches, programs = launch_touches(found.launches[0], found.values, DEFAULT_GPU)
    with pytest.raises(ValueError, match=r"no rule for tt\.descriptor_gather"):
        count_l1_requests([replace(touches[0], operation="tt.descriptor_gather")], programs, [])
    moved = replace(touches[0], frames=("elsewhere.py:7",))
    assembly = compiled(found.launches[0], found.values, DEFAULT_GPU).asm
    known = accesses(assembly["ttgir"], assembly["ptx"])
    with pytest.raises(ValueError, match="no read of 1024 elements was compiled from it, but one from another line was"):
        count_l1_requests([moved], programs, known)
    with pytest.raises(ValueError, match="only NVIDIA GPUs"):
        l1_requests_of_launch(found.launches[0], found.values, GPUTarget("hip", "gfx942", 64))


def test_derive_notes_unpredictable_counters() -> None:
    target = load_target(gathered)
    (launch,) = derive(target, target.resolve({}), machine_code=False, counters=True).launches
    assert launch.counters is None
    assert any(note.startswith("counters cannot be predicted: tt.load at") for note in launch.notes)


def test_data_dependent_addresses_are_refused() -> None:
    with pytest.raises(ValueError, match=r"depends on where@test_l1_requests\.py:\d+: it is loaded from memory"):
        l1_requests(gathered)


def test_accesses_of_one_line_are_not_mixed_up() -> None:
    """Two loads of equal size on one line, one vectorised to 16 bytes and one to 4."""
    with pytest.raises(ValueError, match=r"line \d+: reads compiled in several ways"):
        l1_requests(launch_two_loads)


def test_forms_of_an_access_in_branches_are_not_added_up() -> None:
    """A load that a compiler pass copies into two branches runs in one."""
    found = capture_function(halves)
    assembly = compiled(found.launches[0], found.values, DEFAULT_GPU).asm
    first, second, store = accesses(assembly["ttgir"], assembly["ptx"])
    assert first.excludes(second)
    assert second.excludes(first)
    assert not any(one.excludes(store) or store.excludes(one) for one in (first, second))
    touches, programs = launch_touches(found.launches[0], found.values, DEFAULT_GPU)
    load = next(touch for touch in touches if touch.kind == "read")
    narrow = replace(second, vector=1, frames=first.frames)
    with pytest.raises(ValueError, match=r"line \d+: reads compiled in several ways, in branches of which one runs"):
        count_l1_requests([load], programs, [first, narrow])
    assert count_l1_requests([load], programs, [first, replace(second, frames=first.frames)]).read_sectors == 32


def test_copies_past_the_l1_request_and_fetch_what_an_h200_counts() -> None:
    """One row of 128 bytes and four, from anywhere in a line, some lanes masked."""
    path = Path(str(files("ioaware"))) / "recorded" / "l1" / "h200-requests.json"
    copies = [one for one in json.loads(path.read_text())["launches"] if one["probe"] == "copies"]
    assert len(copies) == 160
    again = 0
    for one in copies:
        rows, columns = np.arange(4)[:, None], np.arange(0, 128, 16)[None, :]
        inside = (rows < one["rows"]) & (columns >= one["first"]) & (columns < one["end"])
        lanes = np.where(inside, one["start"] + rows * one["stride"] + columns, -1).reshape(1, 32)
        requested, more = copied_sectors(lanes)
        counters = one["counters"]
        assert counters[l1.READ_SECTORS] == one["programs"] * requested, one
        assert counters[REQUESTED_READS] == one["programs"] * 32 * (requested + more), one
        assert counters[l1.COPY_DATA] == one["programs"] * 16 * inside.sum()
        again += more
    assert again > 100


def test_threads_with_a_copy_of_an_element_do_not_copy_it() -> None:
    """A row of 128 bytes in 4 lanes, two copies of 16 bytes each.

    An H200 counts 8 sectors.
    """
    layout = Layout(((1,), (2,), (4,)), ((8,), (16,), (0,), (0,), (0,)), ((0,),), (0,))
    access = Access("read", (), (32,), layout, 4, 2, once=True, past_l1=True, element_bytes=4)
    everything = np.ones(32, dtype=np.bool_)
    assert instruction_sectors(np.arange(32) * 4, everything, access, 4) == Instructions(8, 128)
    assert instruction_sectors(np.arange(32) * 4, everything, replace(access, once=False), 4) == Instructions(128, 256)


@pytest.mark.parametrize(
    ("function", "params"),
    [
        (vector_add, {"n": 4001}),
        (rows_of, {"rows": 7, "cols": 500}),
        (loops, {"rows": 5, "n": 1000}),
        (loops, {"rows": 4, "n": 96}),
    ],
)
def test_execution_classes_sum_to_the_formulas(function: Callable[..., Any], params: dict[str, int]) -> None:
    """Elements and sectors of every access equal its formulas.

    They are summed over the access's classes.
    """
    found = capture_function(function, **params)
    launch = found.launches[0]
    touches, programs = launch_touches(launch, found.values, DEFAULT_GPU)
    formulas = kernel_traffic(launch, found.values, DEFAULT_GPU).accesses
    for touch, access in zip(touches, formulas, strict=True):
        classes = list(execution_classes(touch, programs))
        elements = sum(case.times * int(np.count_nonzero(case.mask)) for case in classes)
        sectors = sum(case.times * len(np.unique(case.addresses[case.mask] // 32)) for case in classes)
        assert elements == evaluate(access.elements.expr, found.values)
        assert access.sectors is not None
        assert sectors == evaluate(access.sectors.expr, found.values)


def test_equal_executions_form_one_class() -> None:
    """2,000 programs with rows of whole sectors form one class."""
    found = capture_function(rows_of, rows=2000, cols=512)
    touches, programs = launch_touches(found.launches[0], found.values, DEFAULT_GPU)
    rows = next(touch for touch in touches if touch.shape == (512,) and touch.kind == "read")
    assert [case.times for case in execution_classes(rows, programs)] == [2000]
