"""Data-dependent accesses: exact lanes, bounds, named unknowns, and notes.

Notes have line and reason.
"""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl
from sympy import ceiling

from ioaware.analysis.ir import Pointer, analyse
from ioaware.errors import DataError, UsageError
from tests.support.ir_zoo.compiled import Launched, Tensor, symbols

pytestmark = pytest.mark.filterwarnings("ignore:TRITON_DEFAULT_FP_FUSION")

N, G = symbols("N G")
I32 = torch.int32


@triton.jit
def bounded_by_memory(x, out, lengths, B: tl.constexpr):
    """Each program loads the bound of its loop."""
    pid = tl.program_id(0)
    n = tl.load(lengths + pid)
    total = tl.zeros([B], tl.float32)
    for start in range(0, n, B):
        at = start + tl.arange(0, B)
        total += tl.load(x + at, mask=at < n, other=0.0)
    tl.store(out + pid * B + tl.arange(0, B), total)


def test_a_loaded_bound_is_a_named_unknown() -> None:
    lengths = Tensor(G, I32, lambda n: torch.full((n,), 21))
    launched = Launched(bounded_by_memory, [Tensor(64), Tensor(8 * G), lengths], [G], [], {"B": 8})
    derived = launched.derive()
    assert not derived.exact
    (note, *_) = derived.notes
    assert "lengths@test_data.py:" in note
    assert "loaded from memory" in note
    (unknown,) = derived.read_bytes.symbols - {"G"}
    traced = launched.trace({"G": 3}).requested
    assert traced is not None
    assert derived.read_bytes.evaluate({"G": 3, unknown: 21}) == traced.read_bytes
    assert derived.write_bytes.evaluate({"G": 3}) == traced.write_bytes  # writes do not depend on the unknown


@triton.jit
def masked_by_memory(x, out, keep, n, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    chosen = tl.load(keep + at, mask=at < n, other=0) > 0
    tl.store(out + at, tl.load(x + at, mask=chosen & (at < n)), mask=at < n)


def test_a_loaded_mask_is_a_bound() -> None:
    keep = Tensor(N, I32, lambda n: torch.arange(n) % 2)
    launched = Launched(masked_by_memory, [Tensor(N), Tensor(N), keep, N], [ceiling(N / 16)], [], {"B": 16})
    derived = launched.derive()
    assert not derived.exact
    assert any("at most" in note for note in derived.notes)
    assert str(derived.read_bytes) == "<= 8*N"
    assert str(derived.write_bytes) == "4*N"
    traced = launched.trace({"N": 40}).requested
    assert traced is not None
    assert traced.read_bytes is not None
    assert traced.read_bytes < derived.read_bytes.evaluate({"N": 40})
    assert [access.exact for access in derived.accesses] == [True, False, True]


@triton.jit
def branching_on_memory(x, flag, B: tl.constexpr):
    if tl.load(flag) > 0:
        tl.store(x + tl.arange(0, B), 1.0)


def test_a_branch_on_memory_counts_at_most() -> None:
    derived = Launched(branching_on_memory, [Tensor(16), Tensor(1, I32)], [1], [], {"B": 16}).derive()
    assert not derived.exact
    assert str(derived.read_bytes) == "4"


@triton.jit
def waiting(lock, x, B: tl.constexpr):
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    tl.store(x + tl.arange(0, B), 1.0)
    tl.atomic_xchg(lock, 0)


def test_a_spinning_lock_counts_its_iterations_as_an_unknown() -> None:
    launched = Launched(waiting, [Tensor(1, I32), Tensor(16)], [N], [], {"B": 16})
    derived = launched.derive()
    assert not derived.exact
    (unknown,) = derived.atomic_bytes.symbols - {"N"}
    assert unknown.startswith("iterations@test_data.py:")
    traced = launched.trace({"N": 3}).requested
    assert traced is not None
    assert derived.atomic_bytes.evaluate({"N": 3, unknown: 0}) == traced.atomic_bytes  # interpreted programs never wait
    assert derived.write_bytes.evaluate({"N": 3}) == traced.write_bytes


@triton.jit
def paged(cache, table, out, width, B: tl.constexpr):
    """A block table: addresses come from memory, masks do not."""
    pages = tl.load(table + tl.arange(0, B))
    at = pages[:, None] * width + tl.arange(0, B)[None, :]
    inside = tl.arange(0, B)[None, :] < width
    values = tl.load(cache + at, mask=inside, other=0.0)
    tl.store(out + tl.arange(0, B)[:, None] * width + tl.arange(0, B)[None, :], values, mask=inside)


def test_addresses_from_memory_leave_lanes_exact() -> None:
    table = Tensor(16, I32, lambda n: torch.arange(n) % 5)
    launched = Launched(paged, [Tensor(100 * N), table, Tensor(16 * N), N], [1], [], {"B": 16})
    derived = launched.derive()
    assert derived.exact
    assert not derived.sectors_exact
    traced = launched.trace({"N": 7}).requested
    assert traced is not None
    assert derived.read_bytes.evaluate({"N": 7}) == traced.read_bytes


def test_an_unknown_operation_names_itself_and_its_line() -> None:
    text = Launched(branching_on_memory, [Tensor(16), Tensor(1, I32)], [1], [], {"B": 16}).text()
    with pytest.raises(UsageError, match=r"tt\.teleport at .*test_data\.py:\d+ cannot be counted"):
        analyse(text.replace("tt.load", "tt.teleport"), [Pointer("x"), Pointer("flag")], (1,))


def test_text_that_is_no_ir_is_refused() -> None:
    with pytest.raises(DataError):
        analyse("hello", [], (1,))


def test_missing_arguments_are_named() -> None:
    text = Launched(branching_on_memory, [Tensor(16), Tensor(1, I32)], [1], [], {"B": 16}).text()
    with pytest.raises(UsageError, match=r"2 parameters in its IR \(x, flag\), 0 arguments"):
        analyse(text, [], (1,))
