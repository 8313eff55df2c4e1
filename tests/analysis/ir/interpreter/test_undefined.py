"""A value that the compiled kernel leaves undefined is never taken as a number."""

from __future__ import annotations

import pytest
import triton
import triton.language as tl

from tests.support.ir_zoo.compiled import Launched, Tensor, symbols

pytestmark = pytest.mark.filterwarnings("ignore:TRITON_DEFAULT_FP_FUSION")
N, TILES = symbols("n tiles")


@triton.jit
def index_after_its_loop(x, out, n, tiles, B: tl.constexpr):
    at = tl.arange(0, B)
    total = tl.zeros([B], dtype=tl.float32)
    for tile in range(tiles):
        total += tl.load(x + tile * B + at)
    tl.store(out + at, total, mask=tile * B + at < n)


@triton.jit
def pick(row, n):
    if row < n:
        return row
    return n


@triton.jit
def early_return(x, out, n, tiles, B: tl.constexpr):
    at = tl.arange(0, B)
    row = pick(tl.program_id(0), n)
    tl.store(out + row * B + at, tl.load(x + row * B + at), mask=at < n)


@triton.jit
def prints(x, n, PRINT: tl.constexpr):
    at = tl.program_id(0)
    if at >= n * (1 - PRINT):
        tl.device_print("x", tl.load(x + at))
    tl.store(x + at, 0.0)


def test_the_index_after_its_loop_is_undefined() -> None:
    """Python leaves the last index in it.

    Triton's IR has ub.poison there, for which a GPU may take anything.
    """
    derived = Launched(index_after_its_loop, [Tensor(N), Tensor(N), N, TILES], [1], [], {"B": 16}).derive()
    assert not derived.exact
    assert any("undefined in the compiled kernel" in note for note in derived.notes)
    assert derived.read_bytes.evaluate({"n": 64, "tiles": 4}) == 4 * 64  # the loop itself is known


def test_what_a_kernel_prints_is_not_counted() -> None:
    """A branch that never runs prints nothing."""
    derived = {n: Launched(prints, [Tensor(N), N], [N], [], {"PRINT": n}).derive() for n in (0, 1)}
    assert not derived[1].exact
    assert any("device_print at" in note for note in derived[1].notes)
    assert derived[0].exact


def test_a_branch_without_a_value_gives_way_to_the_other() -> None:
    """A function that returns in a branch yields ub.poison where it did not return.

    No program uses that value.
    """
    derived = Launched(early_return, [Tensor(16 * N), Tensor(16 * N), N, TILES], [N], [], {"B": 16}).derive()
    assert derived.exact, derived.notes
    assert derived.write_bytes.evaluate({"n": 40, "tiles": 1}) == 4 * 40 * 16


@triton.jit
def grouped(x, out, n, tiles, GROUP: tl.constexpr, B: tl.constexpr):
    at = tl.arange(0, B)
    head = tl.program_id(0) // GROUP
    tl.store(out + tl.program_id(0) * B + at, tl.load(x + head * B + at), mask=head * B + at < n)


def test_a_division_by_zero_is_undefined() -> None:
    """A GPU gives any number.

    Heads that are divided by 0 groups come of wrong sizes in host code.
    """
    launched = Launched(grouped, [Tensor(16 * N), Tensor(16 * N), N, TILES], [N], [], {"GROUP": 0, "B": 16})
    derived = launched.derive()
    assert not derived.exact
    assert any("divided by zero" in note for note in derived.notes)


@triton.jit
def shared_remainder(x, out, n, tiles, WORKERS: tl.constexpr, B: tl.constexpr):
    """The last `WORKERS` programs share the tiles that remain, where there are more."""
    pid, at = tl.program_id(0), tl.arange(0, B)
    if tiles < WORKERS:
        whole = tl.num_programs(0)
        workers = 0
    else:
        whole = tl.num_programs(0) - WORKERS
        workers = WORKERS
    if pid < whole:
        tl.store(out + pid * B + at, tl.load(x + pid * B + at))
    else:
        share = (tiles - whole) // workers
        for tile in range(whole + (pid - whole) * share, whole + (pid - whole + 1) * share):
            tl.store(out + tile * B + at, tl.load(x + tile * B + at))


def test_a_divisor_may_be_zero_where_no_program_divides() -> None:
    """Of 11 tiles 3 of 7 programs take one each, and 4 take two."""
    launched = Launched(shared_remainder, [Tensor(16 * N), Tensor(16 * N), N, TILES], [N], [], {"WORKERS": 4, "B": 16})
    derived = launched.derive()
    assert derived.exact, derived.notes
    assert derived.read_bytes.evaluate({"n": 7, "tiles": 11}) == 4 * 16 * (3 + 4 * 2)
    assert derived.read_bytes.evaluate({"n": 3, "tiles": 3}) == 4 * 16 * 3
    assert any("takes the divisor at" in note for note in derived.notes)
