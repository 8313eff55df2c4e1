"""Traced counts of the kernel zoo equal counts listed by hand.

They count bytes, sectors, atomics and FLOPs.
"""

from __future__ import annotations

from collections.abc import Iterable

import pytest
import triton
import triton.language as tl
from triton.runtime.interpreter import interpreter_builder

from ioaware.result import Result, Traffic
from ioaware.targets.output_check import NOT_FINITE_ERROR
from ioaware.targets.target import load_target
from ioaware.tracing.trace import trace
from tests.support.kernel_zoo.zoo_files import zoo

BLOCK_POINTERS = tuple(map(int, triton.__version__.split(".")[:2])) < (3, 9)

Access = tuple[int, list[int]]  # bytes of an element, and the elements touched, counted from the start of their tensor


def run_trace(name: str, **params: object) -> Result:
    target = load_target(zoo(name))
    return trace(target, target.resolve(params))


def traffic(reads: Iterable[Access], writes: Iterable[Access], atomic_bytes: int = 0) -> Traffic:
    """Return what these accesses request.

    This is all active elements, and the distinct sectors of each access.
    """
    reads, writes = list(reads), list(writes)

    def elements(accesses: list[Access]) -> int:
        return sum(width * len(touched) for width, touched in accesses)

    def sectors(accesses: list[Access]) -> int:
        return sum(32 * len({width * element // 32 for element in touched}) for width, touched in accesses)

    return Traffic(elements(reads), elements(writes), atomic_bytes, sectors(reads), sectors(writes))


def blocks(n: int, block: int) -> list[list[int]]:
    return [list(range(start, min(start + block, n))) for start in range(0, n, block)]


@pytest.mark.parametrize(("n", "block"), [(1000, 64), (64, 64), (65, 64), (1, 16), (7, 8)])
def test_masked_lanes_do_not_count(n: int, block: int) -> None:
    touched = [(4, lanes) for lanes in blocks(n, block)]
    assert run_trace("masked_add", n=n, block=block).requested == traffic(touched * 2, touched)


@pytest.mark.parametrize("stride", [1, 3, 16, 40])
def test_a_strided_read_touches_more_sectors_than_it_needs(stride: int) -> None:
    lanes = blocks(100, 32)
    reads = [(2, [stride * lane for lane in block]) for block in lanes]
    assert run_trace("strided", n=100, stride=stride).requested == traffic(reads, [(2, block) for block in lanes])


@pytest.mark.parametrize(("rows", "columns"), [(50, 37), (16, 16), (3, 70)])
def test_tiles_read_by_row_and_written_by_column(rows: int, columns: int) -> None:
    tiles = [(r, c) for r in blocks(rows, 16) for c in blocks(columns, 16)]
    reads = [(4, [row * columns + column for row in r for column in c]) for r, c in tiles]
    writes = [(4, [column * rows + row for row in r for column in c]) for r, c in tiles]
    assert run_trace("transpose", rows=rows, columns=columns).requested == traffic(reads, writes)


def test_scalar_loads_and_a_store_of_one_lane() -> None:
    reads = [access for start in range(0, 80, 16) for access in ((4, list(range(start, start + 16))), (4, [0]))]
    assert run_trace("scalar", programs=5).requested == traffic(reads, [(4, [program]) for program in range(5)])


def test_lanes_at_one_address_count_each_and_their_sector_once() -> None:
    reads = [(4, [lane // 8 for lane in range(64)])]
    assert run_trace("same_address").requested == traffic(reads, [(4, list(range(64)))])


def test_atomics_count_apart_from_reads_and_writes() -> None:
    programs = blocks(100, 32)
    one_each = len(programs) * 4  # of atomic_max, of atomic_cas that succeeds at once, of atomic_xchg
    expected = traffic([(4, lanes) for lanes in programs], [], atomic_bytes=4 * 100 + 3 * one_each)
    assert run_trace("histogram", n=100).requested == expected


@pytest.mark.skipif(not BLOCK_POINTERS, reason="Triton 3.9 has no block pointers")
def test_block_pointers_count_inside_the_boundary() -> None:
    rows, columns = 50, 13
    touched = [(4, [row * columns + column for row in block for column in range(columns)]) for block in blocks(rows, 16)]
    assert run_trace("block_pointer", rows=rows, columns=columns).requested == traffic(touched, touched)


def test_descriptors_count_inside_the_tensor_and_their_reductions_as_atomics() -> None:
    touched = [(4, [row * 12 + column for row in block for column in range(12)]) for block in blocks(40, 16)]
    assert run_trace("descriptor", rows=40, columns=12).requested == traffic(touched, touched, atomic_bytes=4 * 40 * 12)


def test_descriptor_gather_and_scatter_count_each_row() -> None:
    rows = [(4, [row * 16 + column for column in range(16)]) for row in range(0, 64, 8)]
    assert run_trace("host_descriptor").requested == traffic([(4, list(range(8))), *rows], rows)


def test_gathered_reads_through_an_imported_builtin() -> None:
    index = [3, 3, 0, 19, 7, 3, 1]
    rows = [(8, list(range(row * 10, row * 10 + 10))) for row in index]
    reads = [*((8, [position]) for position in range(7)), *rows]
    writes = [(8, list(range(row * 10, row * 10 + 10))) for row in range(7)]
    assert run_trace("gather").requested == traffic(reads, writes)


def test_loops_in_persistent_programs_with_device_functions() -> None:
    touched = [(4, list(range(row * 30, row * 30 + 30))) for row in range(200)]
    result = run_trace("softmax", rows=200, columns=30)
    assert result.requested == traffic(touched, touched)
    assert result.launches[0].grid == (132, 1, 1)
    assert "132 SMs" in result.notes[0]


def test_a_grid_sized_by_what_the_compiled_kernel_uses() -> None:
    touched = [(4, list(range(row * 30, row * 30 + 30))) for row in range(20)]
    result = run_trace("occupied", rows=20, columns=30)
    assert result.requested == traffic(touched, touched)
    assert [launch.grid for launch in result.launches] == [(7, 1, 1)]


def test_a_loop_bound_read_from_memory() -> None:
    reads = [(4, [0]), *((4, list(range(start, start + 8))) for start in (0, 8, 16))]
    assert run_trace("scan", steps=3).requested == traffic(reads, [(4, list(range(8)))])


@pytest.mark.parametrize(("wanted", "block"), [({}, 32), ({"BLOCK": 128}, 128), ({"num_warps": 4}, 128)])
def test_autotuned_kernels_run_once_with_the_chosen_configuration(wanted: dict[str, int], block: int) -> None:
    target = load_target(zoo("tuned"))
    result = trace(target, {"n": 100}, autotune=wanted)
    touched = [(4, lanes) for lanes in blocks(100, block)]
    assert result.requested == traffic(touched, touched)
    (launch,) = result.launches
    assert f"traced with BLOCK={block}" in launch.notes[0]


def test_forward_and_backward_are_both_counted() -> None:
    forward, backward = ([(4, lanes) for lanes in blocks(100, block)] for block in (64, 32))
    result = run_trace("forward_and_backward", n=100)
    assert result.requested == traffic((forward + backward) * 2, forward + backward)


def test_torch_operators_are_listed_and_assumed_but_never_in_the_totals() -> None:
    result = run_trace("torch_between", n=64)
    assert result.requested == traffic(
        [(4, list(range(64)))] * 2 + [(4, list(range(56)))] * 2, [(4, list(range(64))), (4, list(range(56)))]
    )
    listed = [(launch.kernel, launch.origin) for launch in result.launches]
    assert listed == [
        ("add_kernel", "triton"),
        ("aten.clone.default", "torch"),
        ("aten.add.Tensor", "torch"),
        ("aten.mul_.Tensor", "torch"),
        ("add_kernel", "triton"),
    ]
    copied, scaled = 56 * 4, 64 * 4
    assert result.assumed == Traffic(2 * copied + scaled, 2 * copied + scaled)
    assert result.extra_memory_bytes == copied  # at most one copy beside the returned tensor


def test_dots_count_whole_tiles() -> None:
    result = run_trace("matmul", m=40, n=24, k=50)
    assert result.flops == (3 * 2 * 2) * 2 * 16 * 16 * 32
    tiles = [(r, c) for r in blocks(40, 16) for c in blocks(24, 16)]
    steps = [(r, c, k) for r, c in tiles for k in blocks(50, 32)]
    reads = [(2, [row * 50 + inner for row in r for inner in k]) for r, _, k in steps]
    reads += [(2, [inner * 24 + column for inner in k for column in c]) for _, c, k in steps]
    assert result.requested == traffic(reads, [(2, [row * 24 + column for row in r for column in c]) for r, c in tiles])


def test_a_batched_dot_counts_every_matrix() -> None:
    assert run_trace("batched_dot").flops == 4 * 2 * 16**3


@pytest.mark.skipif(not hasattr(interpreter_builder, "create_dot_scaled"), reason="this interpreter has no scaled dot")
@pytest.mark.parametrize("packed", [1, 2])
def test_a_scaled_dot_counts_elements_and_not_bytes(packed: int) -> None:
    result = run_trace("scaled_dot", packed=packed)
    assert result.flops == 2 * 32 * 32 * 64
    assert result.requested is not None
    assert result.requested.read_bytes == 2 * 32 * 64 // packed + 2 * 32


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_values_are_those_of_the_hardware(dtype: str) -> None:
    check = run_trace("matmul", dtype=dtype).check
    assert check is not None
    assert check.passed


def test_a_kernel_with_a_constant_from_its_closure() -> None:
    lanes = list(range(32))
    assert run_trace("enclosing").requested == traffic([(4, lanes)], [(4, [32 + lane for lane in lanes])])


def test_an_unwritten_tile_fails_the_check_with_a_note() -> None:
    result = run_trace("half_written")
    assert result.check is not None
    assert not result.check.passed
    assert result.check.relative_error == NOT_FINITE_ERROR  # fresh memory is NaN, never right by chance
    assert "the output is wrong" in result.notes[-1]


def test_inputs_made_in_a_function_without_setup_are_assumed() -> None:
    result = run_trace("all_work", n=100)
    assert result.assumed == Traffic(0, 400)
    assert result.extra_memory_bytes == 400  # x, which the function creates


ATOMIC_ACCESSES = hasattr(tl, "atomic_load")


@pytest.mark.skipif(not ATOMIC_ACCESSES, reason="this Triton has no atomic_load, atomic_store and atomic_poll")
def test_atomic_loads_stores_and_polls_are_atomics_and_nothing_else() -> None:
    result = run_trace("signals")
    assert result.requested == traffic([], [], atomic_bytes=4 * (16 + 16 + 1))


@pytest.mark.parametrize("name", ["masked_add", "histogram", "softmax", "tuned", "torch_between", "forward_and_backward"])
def test_two_traces_are_equal(name: str) -> None:
    assert run_trace(name).to_dict() == run_trace(name).to_dict()
