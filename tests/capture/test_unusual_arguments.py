"""Host code that is rare: named tuples, powers of sizes, indices of results."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
import triton
import triton.language as tl

from ioaware.derivation.derive import derive
from ioaware.symints.guard_evaluation import compute
from ioaware.targets.target import load_target
from ioaware.tracing.trace import trace


class Pair(NamedTuple):
    source: Any
    out: Any


@triton.jit
def copy_fields(pair, n, BLOCK: tl.constexpr):
    lanes = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(pair.out + lanes, tl.load(pair.source + lanes, lanes < n), lanes < n)


def copied(source: torch.Tensor, block: int = 32) -> torch.Tensor:
    out = torch.empty_like(source)
    copy_fields[(triton.cdiv(source.numel(), block),)](Pair(source, out), source.numel(), BLOCK=block)
    return out


def fields_of_a_named_tuple(n: int = 70) -> torch.Tensor:
    return copied(torch.ones(n, device="cuda"))


def shifted_block(n: int = 70) -> torch.Tensor:
    return copied(torch.ones(n, device="cuda"), 16 << (n % 3))


def power_of_a_size(n: int = 7) -> torch.Tensor:
    return copied(torch.ones(2**n, device="cuda"))


def result_in_another_order(n: int = 70) -> torch.Tensor:
    return copied(copied(torch.ones(n, device="cuda"))[torch.randperm(n, device="cuda")])


def some_of_a_result(n: int = 70) -> torch.Tensor:
    return copied(copied(torch.ones(n, device="cuda"))[torch.arange(n, device="cuda") % 3 == 0])


HOSTS = (fields_of_a_named_tuple, shifted_block, power_of_a_size, result_in_another_order, some_of_a_result)


@pytest.mark.parametrize("host", HOSTS, ids=lambda host: host.__name__)
def test_derived_equals_traced(host: Callable[..., torch.Tensor]) -> None:
    target = load_target(host)
    derived, traced = derive(target, {}, machine_code=False), trace(target, {})
    assert derived.exact
    assert derived.requested
    assert traced.requested
    assert [derived.requested.read_bytes, derived.requested.write_bytes] == [
        traced.requested.read_bytes, traced.requested.write_bytes
    ]  # fmt: skip


def test_the_order_of_a_result_leaves_its_size_symbolic() -> None:
    assert derive(load_target(result_in_another_order), {}, machine_code=False).symbols == {"n": 70}


def test_powers_without_end_are_not_computed() -> None:
    """A guard is tried at sizes of up to 2^40, and 2 to that power has no use."""
    from sympy import Integer, Symbol
    from torch.utils._sympy.functions import LShift, PowByNatural

    n = Symbol("n", integer=True)
    for power in (LShift(Integer(1), n), PowByNatural(Integer(2), n)):
        assert compute(power, {"n": 40}) == 2**40
        with pytest.raises(OverflowError, match="too many digits"):
            compute(power, {"n": 2**40})


def padded_to_the_longest(n: int = 70, m: int = 50) -> torch.Tensor:
    width = max(n, m)
    pads = [torch.nn.functional.pad(torch.empty(size, device="cuda"), (0, width - size)) for size in (n, m)]
    return copied(torch.stack(pads).flatten())


def test_operators_that_take_no_symbols_are_not_logged() -> None:
    """torch logs the traceback of each, on stderr."""
    lines: list[logging.LogRecord] = []
    log, handler = logging.getLogger("torch._subclasses.fake_tensor"), logging.Handler()
    handler.emit = lines.append
    log.addHandler(handler)
    try:
        result = derive(load_target(padded_to_the_longest), {"n": 70, "m": 50}, machine_code=False)
    finally:
        log.removeHandler(handler)
    assert result.requested is not None
    assert result.requested.read_bytes == 4 * 140
    assert not lines
