"""Atomic maxima of floats are counted once a lane, as they run."""

from __future__ import annotations

import pytest
import triton
import triton.language as tl

from tests.support.ir_zoo.compiled import Launched, Tensor, symbols

pytestmark = pytest.mark.filterwarnings("ignore:TRITON_DEFAULT_FP_FUSION")
N, G = symbols("N G")


@triton.jit
def of_floats(x, top, out, n, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    values = tl.load(x + at, mask=at < n, other=0.0)
    tl.atomic_max(out + at % 8, values, mask=at < n)
    tl.atomic_min(top, tl.min(values))


def test_one_atomic_a_lane_and_one_a_program() -> None:
    launched = Launched(of_floats, [Tensor(N), Tensor(1), Tensor(8), N], [G], [], {"B": 32})
    derived, values = launched.derive(), {"N": 70, "G": 3}
    assert derived.exact
    assert derived.atomic_bytes.evaluate(values) == 4 * 70 + 4 * 3
    traced = launched.trace(values).requested
    assert traced is not None
    assert traced.atomic_bytes == 4 * 70 + 4 * 3


@triton.jit
def of_signs(x, up, down, n, APART: tl.constexpr, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    values = tl.load(x + at, mask=at < n, other=0.0)
    tl.atomic_add(up + at, 1.0, mask=values > 0)
    if APART:
        tl.atomic_add(down + at, 1.0, mask=(at < n) & (values <= 0))
    else:
        tl.atomic_add(up + at, 2.0, mask=values > 0)


@pytest.mark.parametrize("apart", [True, False])
def test_atomics_elsewhere_or_on_the_same_lanes_stay_apart(apart: bool) -> None:
    """Two places for two signs, or two atomics for one sign."""
    derived = Launched(of_signs, [Tensor(N), Tensor(N), Tensor(N), N], [G], [], {"APART": apart, "B": 32}).derive()
    assert not derived.exact
    assert len([access for access in derived.accesses if access.kind == "atomic"]) == 2
