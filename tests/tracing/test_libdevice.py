# pyright: basic, reportArgumentType=false, reportOperatorIssue=false
"""Kernels that call libdevice run in the interpreter.

So do kernels that use a module's constexpr.
"""

from __future__ import annotations

import math

import pytest
import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice
from triton.language.extra.libdevice import rsqrt

from ioaware.errors import UsageError
from ioaware.tracing.interpreter import interpret_kernels
from ioaware.tracing.libdevice import _function
from ioaware.tracing.libdevice_signatures import signatures, stubs

HALF = tl.constexpr(0.5)


@triton.jit
def mathematics(x, y, N: tl.constexpr):
    at = tl.arange(0, N)
    value = tl.load(x + at)
    tl.store(y + at, rsqrt(value) + HALF * libdevice.fma(value, value, 1.0) + libdevice.fast_dividef(value, 2.0))


@triton.jit
def predicates(x, y, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(y + at, libdevice.isnan(tl.load(x + at)))


@triton.jit
def unknown(x):
    tl.store(x, libdevice.rcp64h(tl.load(x)))


@triton.jit
def typed(x, integers, bits, whole):
    value = tl.load(x)
    tl.store(integers, libdevice.llrint(value))
    tl.store(integers + 1, libdevice.float2int_ru(value))
    tl.store(integers + 2, libdevice.popc(tl.load(whole)))
    tl.store(integers + 3, tl.where(libdevice.finitef(value), 1, 0))
    tl.store(bits, libdevice.float_as_int(value))
    tl.store(x, libdevice.int_as_float(tl.load(bits)) + libdevice.int2float_rn(tl.load(whole)))


def test_functions_have_the_values_of_torch() -> None:
    x = torch.tensor([1.0, 2.0, 4.0, 9.0])
    y = torch.empty_like(x)
    with interpret_kernels():
        mathematics[(1,)](x, y, 4)
    expected = [value**-0.5 + 0.5 * (value * value + 1) + value / 2 for value in (1.0, 2.0, 4.0, 9.0)]
    assert torch.allclose(y, torch.tensor(expected))


def test_predicates_give_integers() -> None:
    y = torch.empty(2, dtype=torch.int32)
    with interpret_kernels():
        predicates[(1,)](torch.tensor([1.0, math.nan]), y, 2)
    assert y.tolist() == [0, 1]


def test_functions_with_another_type_of_result() -> None:
    x, integers = torch.tensor([2.5]), torch.empty(4, dtype=torch.int64)
    bits, whole = torch.empty(1, dtype=torch.int32), torch.tensor([7], dtype=torch.int32)
    with interpret_kernels():
        typed[(1,)](x, integers, bits, whole)
    assert integers.tolist() == [2, 3, 3, 1]
    assert bits.tolist() == [0x40200000]
    assert x.tolist() == [9.5]


@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        ("sinpi", (0.5,), 1.0), ("cospi", (1.0,), -1.0), ("saturatef", (1.5,), 1.0), ("rhypot", (3.0, 4.0), 0.2),
        ("norm3d", (2.0, 3.0, 6.0), 7.0), ("rnorm4d", (1.0, 1.0, 1.0, 1.0), 0.5), ("cbrt", (-27.0,), -3.0),
        ("rcbrt", (8.0,), 0.5), ("tgamma", (5.0,), 24.0), ("tgamma", (-1.5,), math.gamma(-1.5)),
        ("fdim", (5.0, 3.0), 2.0), ("fdim", (3.0, 5.0), 0.0), ("logb", (10.0,), 3.0), ("ilogb", (0.3,), -2),
        ("erfcinv", (1.0,), 0.0), ("normcdf", (0.0,), 0.5), ("normcdfinv", (0.5,), 0.0), ("signbit", (-0.0,), 1),
        ("llround", (2.5,), 3), ("llround", (-2.5,), -3), ("llrint", (3.5,), 4), ("float2int_rz", (-2.7,), -2),
        ("double2ll_rd", (-2.2,), -3), ("finitef", (math.inf,), False), ("j0", (0.0,), 1.0),
    ],
)  # fmt: skip
def test_values_of_cudas_documentation(name: str, arguments: tuple[float, ...], expected: float) -> None:
    result = _function(name)[0](*(torch.tensor([value]) for value in arguments))
    assert result.item() == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        ("popc", (-1,), 32), ("popc", (6,), 2), ("clz", (1,), 31), ("clz", (-1,), 0), ("clz", (0,), 32), ("ffs", (0,), 0),
        ("ffs", (8,), 4), ("ffs", (-(2**31),), 32), ("mulhi", (2**30, 8), 2), ("hadd", (3, 4), 3), ("rhadd", (3, 4), 4),
        ("sad", (3, 7, 10), 14), ("ldexp", (3, 2), 12),
    ],
)  # fmt: skip
def test_functions_of_integers(name: str, arguments: tuple[int, ...], expected: int) -> None:
    assert _function(name)[0](*(torch.tensor([value], dtype=torch.int32) for value in arguments)).item() == expected


@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        ("byte_perm", (0x33221100, 0x77665544, 0x7210), 0x77221100), ("byte_perm", (1, -1, 0x4444), -1),
        ("brev", (1,), -(2**31)), ("brev", (6,), 0x60000000), ("hiloint2double", (0x3FF80000, 0), 1.5),
        ("hiloint2double", (0x3FF00000, -1), 1.0 + 2**-20),
    ],
)  # fmt: skip
def test_functions_of_bits(name: str, arguments: tuple[int, ...], expected: float) -> None:
    result = _function(name)[0](*(torch.tensor([value], dtype=torch.int32) for value in arguments))
    assert result.item() == pytest.approx(expected, rel=1e-15)


def test_words_of_doubles() -> None:
    x = torch.tensor([1.5, -math.pi], dtype=torch.float64)
    high, low = _function("double2hiint")[0](x), _function("double2loint")[0](x)
    assert high[0].item() == 0x3FF80000
    assert torch.equal(_function("hiloint2double")[0](high, low), x)
    assert torch.allclose(_function("rcp64h")[0](x), 1 / x, rtol=2**-20)


@pytest.mark.parametrize(
    ("name", "order", "x", "expected"),
    [  # Abramowitz and Stegun, tables 9.1 to 9.4
        ("jn", 2, 1.0, 0.114903484931901), ("jn", 5, 10.0, -0.234061528186794), ("jn", 10, 1.0, 2.630615124e-10),
        ("jn", 0, 2.0, 0.223890779141236), ("yn", 0, 1.0, 0.088256964215677), ("yn", 2, 1.0, -1.650682606816254),
        ("yn", 1, 2.0, -0.107032431540938),
    ],
)  # fmt: skip
def test_bessel_functions(name: str, order: int, x: float, expected: float) -> None:
    found = _function(name)[0](torch.tensor([order, -1], dtype=torch.int32), torch.tensor([x, x], dtype=torch.float64))
    assert found[0].item() == pytest.approx(expected, rel=2e-9)
    assert math.isnan(found[1].item())


@pytest.mark.parametrize(("order", "x"), [(1, 0.5), (3, 7.0), (8, 40.0)])
def test_bessel_functions_obey_their_wronskian(order: int, x: float) -> None:
    at = torch.tensor([x], dtype=torch.float64)
    j, y = ([_function(name)[0](torch.tensor([n]), at).item() for n in (order, order + 1)] for name in ("jn", "yn"))
    assert j[1] * y[0] - j[0] * y[1] == pytest.approx(2 / (math.pi * x), rel=1e-7)  # torch.special has 8 digits


def test_all_of_libdevice_is_known() -> None:
    names = list(stubs())
    assert len(names) > 150
    assert all(callable(_function(name)[0]) for name in names)
    assert all(signatures(name) for name in names)


def test_arguments_of_another_type_are_refused() -> None:
    with interpret_kernels(), pytest.raises(UsageError, match=r"libdevice\.rcp64h \(fp32\), and it takes \(fp64\)"):
        unknown[(1,)](torch.ones(1))
