"""Integers that wrap around.

There are conditions on sizes, and nothing is exact beyond them.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
import torch
import triton
import triton.language as tl
from sympy import ceiling

from ioaware.analysis.ir.algebra.constructors import floor_div, greatest, least, mod
from ioaware.analysis.ir.algebra.intervals import interval
from ioaware.analysis.ir.algebra.poly import ZERO, Poly, Symbol, poly
from ioaware.analysis.ir.sectors.lanes import numeric
from ioaware.derivation.derive import derive
from ioaware.errors import UsageError
from ioaware.targets.target import load_target
from ioaware.tracing.trace import trace
from tests.support.ir_zoo.compiled import Launched, Tensor, symbols

pytestmark = pytest.mark.filterwarnings("ignore:TRITON_DEFAULT_FP_FUSION")

G, N, S = symbols("G N S")


@triton.jit
def far_rows(out, s, B: tl.constexpr):
    tl.store(out + tl.program_id(0) * s + tl.arange(0, B), 1.0)


@triton.jit
def long_rows(out, s, B: tl.constexpr):
    tl.store(out + tl.program_id(0).to(tl.int64) * s + tl.arange(0, B), 1.0)


@triton.jit
def add_one(x, out, n, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(out + at, tl.load(x + at, mask=at < n) + 1.0, mask=at < n)


@triton.jit
def dropped(x, out, n, seed, B: tl.constexpr):
    """Random numbers wrap around on purpose. No address depends on them."""
    at = tl.program_id(0) * B + tl.arange(0, B)
    keep = tl.rand(seed, at) > 0.5
    tl.store(out + at, tl.where(keep, tl.load(x + at, mask=at < n), 0.0), mask=at < n)


@triton.jit
def dropped_sum(x, out, n, seed, B: tl.constexpr):
    """The loop carries a sum that random numbers decide. No address depends on it."""
    total = tl.zeros((B,), tl.float32)
    for start in range(0, n, B):
        at = start + tl.arange(0, B)
        total += tl.where(tl.rand(seed, at) > 0.5, tl.load(x + at, mask=at < n), 0.0)
    tl.store(out + tl.program_id(0) * B + tl.arange(0, B), total)


@triton.jit
def two_behind(out, n, s, B: tl.constexpr):
    """The address of an iteration is a quotient from two iterations before."""
    offset, later = 0, 0
    for i in range(n):
        tl.store(out + offset + tl.arange(0, B), 1.0)
        offset, later = later, (i * s) // 4


@triton.jit
def chosen_row(out, s, B: tl.constexpr):
    """Of the two values that the branch yields, an address uses the first."""
    if tl.program_id(0) > 2:
        row, value = tl.program_id(0) * s, s * s * s
    else:
        row, value = 0, s * s * s * s
    tl.store(out + row + tl.arange(0, B), value)


def limits(kernel: object, arguments: list[object], grid: object, **constants: int) -> list[str]:
    return [str(limit) for limit in Launched(kernel, arguments, [grid], [], constants).derive().limits]  # type: ignore[arg-type, list-item]


def test_only_values_that_addresses_use_have_limits() -> None:
    """Each value that a loop carries or a branch yields is followed by itself."""
    assert limits(dropped_sum, [Tensor(N), Tensor(64 * G), N, 7], G, B=64) == [
        "64*ceil(N/64) - 1 <= 2147483647", "64*G - 64 <= 2147483647", "N <= 2147483647"
    ]  # fmt: skip
    assert "N*S - S <= 2147483647" in limits(two_behind, [Tensor(N * S), N, S], 1, B=64)
    assert limits(chosen_row, [Tensor(G * S), S], G, B=64) == ["G*S - S <= 2147483647"]


def test_the_largest_offset_is_a_condition() -> None:
    assert limits(far_rows, [Tensor(N), S], G, B=64) == ["G*S - S <= 2147483647"]
    assert limits(add_one, [Tensor(N), Tensor(N), N], ceiling(N / 64), B=64) == [
        "64*ceil(N/64) - 1 <= 2147483647", "N <= 2147483647"
    ]  # fmt: skip


def test_offsets_of_64_bits_have_no_condition() -> None:
    assert "G*S" not in " ".join(limits(long_rows, [Tensor(N), S], G, B=64))


@triton.jit
def sum_of_steps(x, out, n, B: tl.constexpr):
    at = 0
    total = tl.zeros([B], tl.float32)
    for i in range(tl.program_id(0), n):
        at += i
        total += tl.load(x + at + tl.arange(0, B))
    tl.store(out + tl.program_id(0) * B + tl.arange(0, B), total)


def test_a_bound_of_halves_is_a_condition_of_integers() -> None:
    """Half of a square, bounded term by term, need not be an integer."""
    derived = Launched(sum_of_steps, [Tensor(N**2), Tensor(8 * G), N], [G], [], {"B": 8}).derive()
    for limit in derived.limits:
        for n, g in product((1, 2, 5, 100), (1, 3)):
            assert not limit.broken({"N": n, "G": g})
    assert any(limit.broken({"N": 2**20, "G": 3}) for limit in derived.limits)


@triton.jit
def larger_sum(out, k, B: tl.constexpr):
    at = tl.program_id(0)
    for i in range(4):
        tl.store(out + tl.maximum(at, k) + tl.arange(0, B), 1.0)
        at += i


def test_a_maximum_of_halves_is_a_condition_of_integers() -> None:
    """The sum of a loop's indices is bounded by 9/2, inside of a maximum."""
    derived = Launched(larger_sum, [Tensor(N), S], [G], [], {"B": 8}).derive()
    assert not any(limit.broken({"N": 100, "G": 3, "S": 2}) for limit in derived.limits)
    assert any(limit.broken({"N": 100, "G": 2**31, "S": 2}) for limit in derived.limits)


def test_numbers_that_no_address_depends_on_may_wrap() -> None:
    assert limits(dropped, [Tensor(N), Tensor(N), N, 7], ceiling(N / 64), B=64) == limits(
        add_one, [Tensor(N), Tensor(N), N], ceiling(N / 64), B=64
    )


def launch_far_rows(s: int = 64, device: str = "cuda") -> torch.Tensor:
    out = torch.empty(2**32, device=device)
    far_rows[(4,)](out, s, B=64)
    return out


def launch_add_one(n: int = 64, device: str = "cuda") -> torch.Tensor:
    x = torch.empty(n, device=device)
    out = torch.empty_like(x)
    add_one[(triton.cdiv(n, 64),)](x, out, n, B=64)
    return out


@pytest.mark.parametrize(
    ("host", "fits", "wraps"),
    [(launch_far_rows, {"s": 2**29}, {"s": 2**30}), (launch_add_one, {"n": 2**31 - 64}, {"n": 2**31 + 64})],
)
def test_sizes_that_wrap_are_not_exact(host: object, fits: dict[str, int], wraps: dict[str, int]) -> None:
    target = load_target(host)  # type: ignore[arg-type]
    within = derive(target, fits, machine_code=False)
    assert within.exact
    beyond = derive(target, wraps, machine_code=False)
    assert not beyond.exact
    assert any("wrap around" in note and "test_integer_widths.py:" in note for note in beyond.launches[0].notes)
    with pytest.raises(UsageError, match=r"wrap around|do not hold"):
        within.evaluate(**wraps)
    assert within.evaluate(**fits)["write_bytes"] == within.requested.write_bytes  # type: ignore[union-attr]


@triton.jit
def masked_by_offset(out, s, n, B: tl.constexpr):
    """Write rows of their own where the offset is below n: a negative one is."""
    lanes = tl.arange(0, B)
    tl.store(out + tl.program_id(0) * B + lanes, 1.0, mask=tl.program_id(0) * s + lanes < n)


@triton.jit
def loop_to_a_product(out, s, B: tl.constexpr):
    for _ in range(0, s * 4, 1 << 28):
        tl.store(out + tl.arange(0, B), 1.0)


def launch_masked_by_offset(s: int = 64, programs: int = 4, device: str = "cuda") -> torch.Tensor:
    out = torch.empty(programs * 16, device=device)
    masked_by_offset[(programs,)](out, s, 2**30, B=16)
    return out


def launch_loop_to_a_product(s: int = 64, device: str = "cuda") -> torch.Tensor:
    out = torch.empty(16, device=device)
    loop_to_a_product[(1,)](out, s, B=16)
    return out


def wrapped(number: int) -> int:
    return (number + 2**31) % 2**32 - 2**31


def rows_below(s: int) -> int:
    return sum(4 * sum(wrapped(program * s) + lane < 2**30 for lane in range(16)) for program in range(4))


def turns(s: int) -> int:
    return 4 * 16 * len(range(0, wrapped(4 * s), 2**28))


@pytest.mark.parametrize(
    ("host", "by_hand", "fits", "wraps"),
    [
        (launch_masked_by_offset, rows_below, (2**20, 2**28, 2**29), (2**30, 2**30 + 1)),
        (launch_loop_to_a_product, turns, (2**20, 2**28, 2**29 - 1), (2**29, 2**29 + 2**20, 2**30)),
    ],
)
def test_exact_numbers_equal_the_trace_up_to_the_wrap(
    host: object, by_hand: Callable[[int], int], fits: tuple[int, ...], wraps: tuple[int, ...]
) -> None:
    """Beyond it the trace counts what wraps, and the formula is not exact."""
    target = load_target(host)  # type: ignore[arg-type]
    result = derive(target, {"s": fits[0]}, machine_code=False)
    assert result.exact
    for s in (*fits, *wraps):
        traced = trace(target, target.resolve({"s": s})).requested
        assert traced is not None
        assert traced.write_bytes == by_hand(s)
        here = derive(target, {"s": s}, machine_code=False)
        assert here.exact == (s in fits)
        if here.exact:
            assert result.evaluate(s=s)["write_bytes"] == by_hand(s)
            continue
        assert here.requested is not None
        assert here.requested.write_bytes != by_hand(s)
        assert any("wrap around, which the counts ignore" in note for note in here.launches[0].notes)
        with pytest.raises(UsageError, match=r"hold for .*s.* <= 2147483647"):
            result.evaluate(s=s)


@triton.jit
def stepped(out, n, s, data):
    for at in range(0, n, s - 2):
        tl.store(out + at, 1.0)


@triton.jit
def stepped_down(out, n, s, data):
    """A compiled loop runs while its index is below the end: never."""
    for at in range(n, 0, -s):
        tl.store(out + at, 1.0)


@triton.jit
def stepped_by_data(out, n, s, data):
    """Steps of 3, up to n and never down from it."""
    by = tl.load(data)
    for at in range(0, n, by):
        tl.store(out + at, 1.0)
    for at in range(n, 0, -by):
        tl.store(out + at, 1.0)


def launch_stepped(kernel: Any) -> Any:
    def host(n: int = 17, s: int = 5, device: str = "cuda") -> None:
        data = torch.tensor([3], device=device) if kernel is stepped_by_data else None
        kernel[(1,)](torch.empty(64, device=device), n, s, data)

    return host


def test_loops_that_may_step_down_have_a_condition() -> None:
    derived = derive(load_target(launch_stepped(stepped)), {}, machine_code=False, check=True)
    assert derived.exact
    assert derived.evaluate(n=9, s=4)["write_bytes"] == 4 * 5
    for s in (1, 2):
        with pytest.raises(UsageError, match="does not step upwards"):
            derived.evaluate(s=s)


def test_loops_that_step_down_are_not_exact() -> None:
    derived = derive(load_target(launch_stepped(stepped_down)), {}, machine_code=False, check=True)
    assert not derived.exact
    notes = derived.launches[0].notes
    assert any("does not step upwards" in note and "test_integer_widths.py:" in note for note in notes)
    assert not any("WRONG" in note for note in notes)


def test_steps_from_memory_are_those_of_a_compiled_loop() -> None:
    derived = derive(load_target(launch_stepped(stepped_by_data)), {}, machine_code=False, check=True)
    assert derived.exact
    assert derived.requested is not None
    assert derived.requested.write_bytes == 4 * 6


@pytest.mark.parametrize("expressions", [60, pytest.param(300, marks=pytest.mark.slow)])
def test_an_interval_contains_every_value(expressions: int) -> None:
    draw = random.Random(5)
    n, m = Symbol("n", poly(1)), Symbol("m", poly(1))
    pid, lane, step = Symbol("pid", ZERO, poly(n) - 1), Symbol("lane0", ZERO, poly(7)), Symbol("step", ZERO, poly(m))

    def expression(depth: int) -> Poly:
        if depth == 0:
            return draw.choice([poly(one) for one in (n, m, pid, lane, step)]) * draw.choice((1, 1, 2, -1)) + draw.randrange(
                -3, 4
            )
        a, b = expression(depth - 1), expression(depth - 1)
        kind = draw.randrange(6)
        if kind == 0:
            return a * b
        if kind == 1:
            return floor_div(a, poly(draw.choice((2, 3, 8))))
        if kind == 2:
            return mod(a, poly(m))
        return (least, greatest)[kind % 2](a, b) if kind < 5 else a - b

    known = 0
    for _ in range(expressions):
        value = expression(draw.randrange(1, 4))
        ends = interval(value)
        known += ends is not None
        for at_n, at_m in product((1, 2, 5), repeat=2) if ends else ():
            sizes = {n.key: at_n, m.key: at_m}
            low, high = (int(numeric(end, sizes)) for end in ends or ())  # type: ignore[arg-type]
            for place in product(range(at_n), range(8), range(at_m + 1)):
                here = {**sizes, pid.key: place[0], lane.key: place[1], step.key: place[2]}
                assert low <= int(numeric(value, here)) <= high, value  # type: ignore[arg-type]
    assert known > 2 * expressions // 3


@triton.jit
def masked_by_square(out, n, B: tl.constexpr):
    """Write if the square of 2^16 + program is below n.

    That of program 0 wraps around to 0.
    """
    at = tl.program_id(0) + 65536
    if at * at < n:
        tl.store(out + tl.arange(0, B), 1.0)


def launch_masked_by_square(n: int = 8, device: str = "cuda") -> torch.Tensor:
    out = torch.empty(16, device=device)
    masked_by_square[(1,)](out, n, B=16)
    return out


def test_numbers_that_wrap_around_are_not_exact() -> None:
    """The IR has no size on which the square depends, for there is one program."""
    target = load_target(launch_masked_by_square)
    derived, traced = derive(target, {}, machine_code=False), trace(target, {}).requested
    assert traced
    assert traced.write_bytes == 16 * 4
    assert not derived.exact
    assert any("wrap around" in note for note in derived.launches[0].notes)


@pytest.mark.parametrize(("s", "exact"), [(2**40, True), (2**62, False)])
def test_integers_of_64_bits_wrap_around(s: int, exact: bool) -> None:
    """Program 2 is masked, unless twice 2^62 is negative."""
    target = load_target(launch_masked_by_offset)
    derived, traced = derive(target, {"s": s}, machine_code=False), trace(target, {"s": s}).requested
    assert derived.requested
    assert traced
    assert traced.write_bytes == 4 * 16 * (1 if exact else 3)  # at 2^62 also programs 2 and 3
    assert derived.exact == exact
    assert not exact or derived.requested.write_bytes == traced.write_bytes
