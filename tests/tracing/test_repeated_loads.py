"""A trace says which loads the compiler may merge with an equal one before them."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

from ioaware.derivation.derive import derive
from ioaware.errors import UsageError
from ioaware.result import Traffic
from ioaware.targets.target import load_target
from ioaware.tracing.trace import trace

HERE = "tests/tracing/test_repeated_loads.py"


@triton.jit
def read(x, at):
    return tl.load(x + at).to(tl.float32)


@triton.jit
def helper(x, out, n, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(out + at, read(x, at) + read(x, at))


@triton.jit
def one_iteration(x, out, n, B: tl.constexpr):
    total = tl.zeros([B], tl.float32)
    for start in range(0, B, B):
        total += tl.load(x + start + tl.arange(0, B))
    for start in range(0, B, B):
        at = start + tl.arange(0, B)
        y = tl.load(x + at)
        tl.store(out + at, y / tl.sum(total))


@triton.jit
def loop(x, out, n, B: tl.constexpr):
    at = tl.arange(0, B)
    total = tl.zeros([B], tl.float32)
    for _ in range(0, n, B):
        total += read(x + tl.zeros([B], tl.int32), at)
    tl.store(out + at, total)


@triton.jit
def written(x, out, n, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    first = tl.load(x + at)
    tl.store(x + at, first + 1)
    tl.store(out + at, tl.load(x + at) + first)


@triton.jit
def two_passes(x, out, n, B: tl.constexpr):
    total = tl.zeros([B], tl.float32)
    for start in range(0, n, B):
        at = start + tl.arange(0, B)
        total += tl.load(x + at, mask=at < n, other=0.0)
    for start in range(0, n, B):
        at = start + tl.arange(0, B)
        tl.store(out + at, tl.load(x + at, mask=at < n, other=0.0) / tl.sum(total), mask=at < n)


KERNELS = {"two_passes": two_passes, "helper": helper, "one_iteration": one_iteration, "loop": loop, "written": written}


def launch(kernel: str, n: int = 64) -> torch.Tensor:
    x, out = torch.ones(n, device="cuda"), torch.empty(n, device="cuda")
    KERNELS[kernel][(1 if kernel in ("one_iteration", "loop", "two_passes") else n // 16,)](x, out, n, 16)
    return out


def requested(traffic: Traffic | None) -> int:
    assert traffic is not None
    assert traffic.read_bytes is not None
    return traffic.read_bytes


@pytest.mark.parametrize(("kernel", "repeated"), [("helper", 256), ("one_iteration", 64), ("written", 0)])
def test_the_note_has_the_bytes_that_derive_leaves_out(kernel: str, repeated: int) -> None:
    target = load_target(f"{HERE}:launch")
    traced, derived = trace(target, {"kernel": kernel}), derive(target, {"kernel": kernel}, machine_code=False)
    notes = [note for launch in traced.launches for note in launch.notes if "just loaded" in note]
    assert requested(traced.requested) - requested(derived.requested) == repeated
    assert [note.split()[0] for note in notes] == ([str(repeated)] if repeated else [])


@pytest.mark.parametrize(("n", "read_bytes", "repeated"), [(1, 4, ["4"]), (2, 16, [])])
def test_an_argument_of_1_is_a_constant(n: int, read_bytes: int, repeated: list[str]) -> None:
    target = load_target(f"{HERE}:launch")
    params = {"kernel": "two_passes", "n": n}
    traced, derived = trace(target, params), derive(target, params, machine_code=False)
    assert requested(derived.requested) == read_bytes
    assert [note.split()[0] for launch in traced.launches for note in launch.notes if "just loaded" in note] == repeated
    assert derived.conditions == (("n == 1",) if n == 1 else ("n != 1",))
    with pytest.raises(UsageError, match="n is then a constant"):
        derived.evaluate(n=3 - n)


def test_iterations_of_a_loop_are_not_merged() -> None:
    traced = trace(load_target(f"{HERE}:launch"), {"kernel": "loop"})
    assert not [note for launch in traced.launches for note in launch.notes if "just loaded" in note]
