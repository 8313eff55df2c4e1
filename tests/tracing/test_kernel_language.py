"""The interpreter accepts what the compiler accepts.

The tests cover operators, loops, helpers and reductions.
"""

from __future__ import annotations

import math
import time
from collections.abc import Generator
from contextlib import contextmanager

import pytest
import torch
import triton
import triton.language as tl
from triton.language.extra.cuda import libdevice as cuda_libdevice
from triton.language.extra.cuda.libdevice import rsqrt as imported_rsqrt
from triton.runtime.autotuner import Autotuner

from ioaware.derivation.derive import derive
from ioaware.result import Result
from ioaware.targets.target import load_target
from ioaware.tracing.byte_counter import ByteCounter, count_accesses
from ioaware.tracing.interpreter import InterpretedLaunch, interpret_kernels
from ioaware.tracing.trace import trace


@triton.jit
def boolean_kernel(x, out, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    values = tl.load(x + at)
    both = values > 2 and values < 6
    either = values <= 2 or values >= 6
    tl.store(out + at, both.to(tl.int32))
    tl.store(out + BLOCK + at, either.to(tl.int32))
    tl.store(out + 2 * BLOCK + at, (not both).to(tl.int32))
    tl.store(out + 3 * BLOCK + at, 1, mask=(BLOCK > 4) and values < 5)


def test_operators_between_blocks_work_element_by_element() -> None:
    x, out = torch.arange(8.0), torch.zeros(4, 8, dtype=torch.int32)
    with interpret_kernels():
        boolean_kernel[(1,)](x, out, BLOCK=8)
    both = (x > 2) & (x < 6)
    assert torch.equal(out, torch.stack([both, ~both, ~both, x < 5]).int())


@triton.jit
def methods_kernel(x, out, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    values = tl.load(x + at)
    tl.store(out + at, values.exp())
    tl.store(out + BLOCK + at, values.log2().floor())
    tl.store(out + 2 * BLOCK + at, values.sqrt().ceil() + values.sum())


def test_mathematics_as_methods_of_a_tensor() -> None:
    x, out = torch.arange(1.0, 9.0), torch.zeros(3, 8)
    with interpret_kernels():
        methods_kernel[(1,)](x, out, BLOCK=8)
    torch.testing.assert_close(out, torch.stack([x.exp(), x.log2().floor(), x.sqrt().ceil() + x.sum()]))


@triton.jit
def threads_kernel(out):
    at = tl.arange(0, 32 * tl.extra.cuda.num_warps())
    tl.store(out + at, tl.full([tl.extra.cuda.num_threads()], 1, tl.int32))


@pytest.mark.parametrize(("options", "threads"), [({}, 128), ({"num_warps": 8}, 256)])
def test_threads_of_the_launch(options: dict[str, int], threads: int) -> None:
    out = torch.zeros(512, dtype=torch.int32)
    with interpret_kernels():
        threads_kernel[(1,)](out, **options)
    assert out.sum() == threads


@triton.jit
def scalar_and_kernel(flags, out, n):
    count = 0
    for i in range(n):
        if i > 1 and tl.load(flags + i) > 0:
            count += 1
    tl.store(out, count)


def test_and_between_scalars_loads_both_sides_as_compiled_code_does() -> None:
    flags, out, counter = torch.tensor([1, 1, 1, 0, 1, 1]), torch.zeros(1, dtype=torch.int32), ByteCounter()
    with interpret_kernels(), count_accesses(counter):
        scalar_and_kernel[(1,)](flags, out, 6)
    assert (out.item(), counter.read_bytes) == (3, 6 * 8)


@triton.jit
def constant_kernel(x, out, bias, HAS_BIAS: tl.constexpr):
    value = tl.load(x)
    if HAS_BIAS and bias is not None:
        value += tl.load(bias)
    tl.store(out, value)


def test_a_constant_operand_short_circuits() -> None:
    x, out = torch.ones(1), torch.zeros(1)
    with interpret_kernels():
        constant_kernel[(1,)](x, out, None, HAS_BIAS=False)
        constant_kernel[(1,)](x, out, None, HAS_BIAS=True)
    assert out.item() == 1


@triton.jit
def range_kernel(x, out, n, flag, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    for step in tl.range(0, n, 1, num_stages=2):
        wide = step.to(tl.int64) * BLOCK + at
        tl.store(out + wide, tl.load(x + wide), mask=(step < n - 1) & (at < BLOCK))
    for last in tl.range(n - 1, n):
        if flag:
            tl.store(out + last.to(tl.int64) * BLOCK + at, 7.0)


@pytest.mark.parametrize("flag", [True, False])
def test_indices_of_ranges_and_boolean_arguments(flag: bool) -> None:
    x, out = torch.rand(48), torch.zeros(48)
    with interpret_kernels():
        range_kernel[(1,)](x, out, 3, flag, BLOCK=16)
    assert torch.equal(out, torch.cat([x[:32], torch.full((16,), 7.0 * flag)]))


@triton.jit
def converted(value, dtype):
    return value.to(dtype)


@triton.jit
def dtype_kernel(x, out, KIND: tl.constexpr):
    kind = out.dtype.element_ty
    half = KIND
    tl.store(out, converted(converted(tl.load(x), half), kind))


def converted_sum() -> float:
    x, out = torch.tensor([1.0 + 2**-12]), torch.zeros(1)
    with interpret_kernels():
        dtype_kernel[(1,)](x, out, KIND=tl.float16)
    return out.item()


def test_a_dtype_as_argument_of_a_helper() -> None:
    assert converted_sum() == 1.0


@triton.jit
def libdevice_kernel(x, out, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    value = tl.load(x + at)
    total = tl.extra.cuda.libdevice.tanh(value) + tl.extra.libdevice.sqrt(value)
    tl.store(out + at, total + cuda_libdevice.exp(value) + imported_rsqrt(value))


def libdevice_work(n: int = 64):
    x, out = torch.rand(n, device="cuda") + 1, torch.empty(n, device="cuda")
    return lambda: (libdevice_kernel[(1,)](x, out, BLOCK=n), out)[1]


def test_libdevice_under_all_its_names() -> None:
    x, out = torch.rand(8) + 1, torch.empty(8)
    with interpret_kernels():
        libdevice_kernel[(1,)](x, out, BLOCK=8)
    torch.testing.assert_close(out, x.tanh() + x.sqrt() + x.exp() + x.rsqrt())


def test_torch_calls_of_the_interpreter_are_no_launches() -> None:
    result: Result = trace(load_target(libdevice_work), {"n": 64})
    assert [launch.kernel for launch in result.launches] == ["libdevice_kernel"]
    assert result.assumed is None


@triton.jit
def largest_with_index(value, index, other_value, other_index):
    first = value > other_value or (value == other_value and index < other_index)
    return tl.where(first, value, other_value), tl.where(first, index, other_index)


@triton.jit
def stable_sum(mean, m2, count, other_mean, other_m2, other_count):
    """Welford's update, whose result shows a wrong order of the reduction."""
    total = count + other_count
    weight = tl.where(total == 0, 0.0, other_count / total)
    delta = other_mean - mean
    return mean + delta * weight, m2 + other_m2 + delta * delta * count * weight, total


@triton.jit
def branching_maximum(left, right):
    return left if left > right else right


@triton.jit
def reduce_kernel(x, out, index, moments, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    rows, columns = tl.arange(0, ROWS)[:, None], tl.arange(0, COLUMNS)[None, :]
    values = tl.load(x + rows * COLUMNS + columns)
    best, place = tl.reduce((values, tl.broadcast_to(columns, (ROWS, COLUMNS))), 1, largest_with_index)
    tl.store(out + tl.arange(0, ROWS), best)
    tl.store(index + tl.arange(0, ROWS), place)
    mean, m2, count = tl.reduce((values, tl.zeros_like(values), tl.full((ROWS, COLUMNS), 1.0, tl.float32)), 1, stable_sum)
    tl.store(moments + tl.arange(0, ROWS), mean)
    tl.store(moments + ROWS + tl.arange(0, ROWS), m2 / count)
    tl.store(moments + 2 * ROWS, tl.reduce(values, None, branching_maximum))


def test_a_reduction_with_a_user_function() -> None:
    x = torch.rand(8, 64).mul(20).floor()
    out, index, moments = torch.empty(8), torch.empty(8, dtype=torch.int32), torch.empty(17)
    with interpret_kernels():
        reduce_kernel[(1,)](x, out, index, moments, ROWS=8, COLUMNS=64)
    values, places = x.max(dim=1)
    first = torch.tensor([int((row == top).nonzero()[0]) for row, top in zip(x, values, strict=True)])
    assert torch.equal(out, values)
    assert torch.equal(index.long(), first)
    assert (x.gather(1, places[:, None])[:, 0] == values).all()
    torch.testing.assert_close(moments[:8], x.mean(dim=1))
    torch.testing.assert_close(moments[8:16], x.var(dim=1, correction=0))
    assert moments[16] == x.max()


def test_a_large_reduction_takes_less_than_seconds() -> None:
    x = torch.rand(64, 512)
    out, index, moments = torch.empty(64), torch.empty(64, dtype=torch.int32), torch.empty(129)
    start = time.perf_counter()
    with interpret_kernels():
        welford_kernel[(1,)](x, moments, ROWS=64, COLUMNS=512)
    assert time.perf_counter() - start < 5
    torch.testing.assert_close(moments[:64], x.mean(dim=1))
    del out, index


@triton.jit
def welford_kernel(x, moments, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    values = tl.load(x + tl.arange(0, ROWS)[:, None] * COLUMNS + tl.arange(0, COLUMNS)[None, :])
    mean, m2, count = tl.reduce((values, tl.zeros_like(values), tl.full((ROWS, COLUMNS), 1.0, tl.float32)), 1, stable_sum)
    tl.store(moments + tl.arange(0, ROWS), mean)
    tl.store(moments + ROWS + tl.arange(0, ROWS), m2 / count)


@triton.jit
def recurrence(decay, value, other_decay, other_value):
    return decay * other_decay, other_decay * value + other_value


@triton.jit
def scan_kernel(decay, x, out, ROWS: tl.constexpr, COLUMNS: tl.constexpr, REVERSE: tl.constexpr):
    at = tl.arange(0, ROWS)[:, None] * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    _, states = tl.associative_scan((tl.load(decay + at), tl.load(x + at)), 1, recurrence, reverse=REVERSE)
    tl.store(out + at, states)


@pytest.mark.parametrize("reverse", [False, True])
def test_a_scan_with_a_user_function(reverse: bool) -> None:
    decay, x, out = torch.rand(4, 32), torch.rand(4, 32), torch.empty(4, 32)
    with interpret_kernels():
        scan_kernel[(1,)](decay, x, out, ROWS=4, COLUMNS=32, REVERSE=reverse)
    order = range(31, -1, -1) if reverse else range(32)
    state, expected = torch.zeros(4), torch.empty(4, 32)
    for step in order:
        state = decay[:, step] * state + x[:, step]
        expected[:, step] = state
    torch.testing.assert_close(out, expected)
    assert math.isfinite(out.sum())


@triton.jit
def largest_of(dtype, BITS: tl.constexpr):
    kind = dtype.value
    limit: tl.constexpr = 2 ** (kind.int_bitwidth - 1) - 1
    return limit + BITS.value


@triton.jit
def limit_kernel(out):
    tl.store(out, largest_of(tl.int16, 1))


def test_the_value_of_a_constant() -> None:
    out = torch.zeros(1, dtype=torch.int32)
    with interpret_kernels():
        limit_kernel[(1,)](out)
    assert out.item() == 2**15


class Tuner(Autotuner):
    """A library's autotuner: its own `run` times configurations."""

    def run(self, *args, **kwargs):
        if len(self.configs) > 1:
            raise RuntimeError("timing")
        return self.fn.run(*args, **kwargs, **self.configs[0].all_kwargs())


@triton.jit
def fill_kernel(out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, 1.0, mask=at < n)


def autotuner(kind: type[Autotuner]) -> Autotuner:
    configs = [triton.Config({"BLOCK": 32}), triton.Config({"BLOCK": 64})]
    return kind(fill_kernel, fill_kernel.arg_names, configs, [], None, None)  # pyright: ignore[reportArgumentType]


def test_a_subclass_of_the_autotuner_runs_one_configuration() -> None:
    notes: list[tuple[str, ...]] = []

    @contextmanager
    def remember(launch: InterpretedLaunch) -> Generator[None]:
        notes.append(launch.notes)
        yield

    out = torch.zeros(64)
    before = Tuner.run
    with interpret_kernels(remember, {"BLOCK": 64}):

        class Later(Tuner):
            def run(self, *args, **kwargs):
                return super().run(*args, **kwargs)

        for kind in (Tuner, Later):
            autotuner(kind)[(1,)](out, 64)
    assert out.all()
    assert [len(more) for more in notes] == [1, 1]
    assert "traced with BLOCK=64" in notes[0][0]
    assert Tuner.run is before


def template_kernel(x, out, n, B: tl.constexpr):
    raise NotImplementedError("its text is replaced")


@triton.jit
def twice(values):
    return 2 * values


REPLACEMENT = """def template_kernel(x, out, n, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    values = tl.load(x + at, mask=at < n)
    tl.store(out + at, twice(values), mask=at < n)
"""


def replaced_source(n: int = 300, device: str = "cuda") -> torch.Tensor:
    kernel = triton.jit(template_kernel)
    kernel._unsafe_update_src(REPLACEMENT)
    x = torch.arange(n, dtype=torch.float32, device=device)
    out = torch.empty_like(x)
    kernel[(triton.cdiv(n, 64),)](x, out, n, B=64)
    return out


def test_a_kernel_whose_text_is_replaced_runs_the_new_text() -> None:
    """Libraries specialise kernels so; derive reads the new text too."""
    with interpret_kernels():
        assert torch.equal(replaced_source(device="cpu"), 2 * torch.arange(300.0))
    target = load_target(replaced_source)
    traced, derived = (run(target, {}).requested for run in (trace, derive))
    assert traced is not None
    assert derived is not None
    assert (traced.read_bytes, traced.write_bytes) == (derived.read_bytes, derived.write_bytes) == (1200, 1200)
