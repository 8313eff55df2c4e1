"""Execution of the IR with numbers equals the formulas.

It does so for every kernel of the IR zoo.
"""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

from ioaware.analysis.ir.concrete.tally import TooLongError, UndecidedError
from tests.support.ir_zoo.compiled import Described, Launched, Tensor, symbols
from tests.support.ir_zoo.concrete_run import concrete_run
from tests.support.ir_zoo.zoo import ZOO

pytestmark = [
    pytest.mark.filterwarnings("ignore:tl.make_block_ptr is deprecated"),
    pytest.mark.filterwarnings("ignore:TRITON_DEFAULT_FP_FUSION"),
]

BYTES = ("read_bytes", "write_bytes", "atomic_bytes", "flops")
SECTORS = ("read_sector_bytes", "write_sector_bytes")
PLAIN = [name for name, launched in ZOO.items() if not any(isinstance(a, Described) for a in launched.arguments)]
G = symbols("G")


@pytest.mark.parametrize("name", PLAIN)
def test_execution_equals_the_formulas(name: str) -> None:
    launched = ZOO[name]
    derived = launched.derive()
    values = launched.points[0]
    tally = concrete_run(launched, values)
    fields = (*BYTES, *(SECTORS if derived.sectors_exact else ()))
    assert {f: getattr(derived, f).evaluate(values) for f in fields} == {f: getattr(tally, f) for f in fields}
    assert not tally.beyond


@triton.jit
def wrapping(out, s, B: tl.constexpr):
    tl.store(out + tl.program_id(0) * s * 16 // 16 + tl.arange(0, B), 1.0)


def test_integers_wrap_around_at_their_width() -> None:
    launched = Launched(wrapping, [Tensor(64), 2**28], [G], [], {"B": 8})
    tally = concrete_run(launched, {"G": 3})
    assert tally.write_bytes == 3 * 32
    assert tally.beyond == {}  # 2^28 * 16 is 0 in 32 bits
    assert [str(limit) for limit in launched.derive().limits] == ["4294967296*G - 4294967296 <= 2147483647"]


@triton.jit
def past_the_end(x, out, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(out + at, tl.load(x + at))


def test_elements_beyond_a_tensor_are_counted_by_line() -> None:
    tally = concrete_run(Launched(past_the_end, [Tensor(20), Tensor(24)], [2], [], {"B": 16}), {})
    assert sorted(tally.beyond.values()) == [8, 12]
    assert all("test_interpret.py:" in line for line in tally.beyond)


@triton.jit
def decided_by_floats(x, out, B: tl.constexpr):
    at = tl.arange(0, B)
    tl.store(out + at, 1.0, mask=tl.load(x + at) > 0.5)


def test_accesses_that_depend_on_floats_are_refused() -> None:
    with pytest.raises(UndecidedError, match=r"tt.store at .*test_interpret.py:\d+"):
        concrete_run(Launched(decided_by_floats, [Tensor(16), Tensor(16)], [1], [], {"B": 16}), {})


def test_large_launches_are_refused() -> None:
    with pytest.raises(TooLongError, match=r"2,000 operations ended after \d+ of 1,000,000 programs"):
        concrete_run(Launched(past_the_end, [Tensor(16), Tensor(16)], [10**6], [], {"B": 16}), {}, max_steps=2000)


@triton.jit
def queue(counter, out, B: tl.constexpr):
    first = tl.atomic_add(counter, 2)
    tl.store(out + first * B + tl.arange(0, B), 1.0, mask=tl.arange(0, B) < first)


def test_atomics_return_the_old_value() -> None:
    tally = concrete_run(Launched(queue, [Tensor(1, torch.int32), Tensor(200)], [4], [], {"B": 16}), {})
    assert tally.write_bytes == 4 * (0 + 2 + 4 + 6)
