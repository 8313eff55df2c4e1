# pyright: basic, reportArgumentType=false
"""Loads whose value a kernel never uses are not counted.

The compiler drops them.
"""

from __future__ import annotations

import ast
import textwrap

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from triton.runtime.interpreter import TensorHandle

from ioaware.derivation.derive import derive
from ioaware.targets.target import load_target
from ioaware.tracing.byte_counter import ByteCounter
from ioaware.tracing.source.dead_loads import Marks, Usage
from ioaware.tracing.trace import trace

pytestmark = pytest.mark.filterwarnings("ignore:TRITON_DEFAULT_FP_FUSION")


ADDRESSES = TensorHandle(np.array([64], np.uint64), tl.pointer_type(tl.float32))
MASK = TensorHandle(np.ones(1, bool), tl.int1)


@triton.jit
def stores_seven(out, value, at):
    tl.store(out + at, value * 0 + 7)
    return value


@triton.jit
def scaled(value, scale, SCALED: tl.constexpr):
    factor = tl.load(scale)
    if SCALED:
        value *= factor
    return value


@triton.jit
def scaled_or_not(x, scale, out, n, SCALED: tl.constexpr, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    factor = tl.load(scale + 1)
    value = scaled(tl.load(x + at, mask=at < n), scale, SCALED)
    if value.dtype == tl.float16:
        value *= factor
    tl.store(out + at, value, mask=at < n)


@triton.jit
def for_some(x, y, out, n, times, factor, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    value, other = tl.load(x + at, mask=at < n), 0.0
    one = tl.load(y)
    two = tl.load(y + 1)
    for step in range(times):
        if step % 2:
            value += one
        if factor != 1.0:
            value += two
    tl.store(out + at, value + other, mask=at < n)


@triton.jit
def unused_values(x, y, out, n, STEPS: tl.constexpr, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    twice = tl.load(x + at, mask=at < n)
    twice = tl.load(x + at, mask=at < n).to(tl.float32)
    never = tl.load(y + at, mask=at < n)
    half = never / 2  # noqa: F841
    kept = tl.load(y + at, mask=at < n, volatile=True)  # noqa: F841
    called = stores_seven(out, tl.load(y + n - 1), n)  # noqa: F841
    if tl.program_id(0) > 0:
        other = tl.load(y + at, mask=at < n)
    else:
        other = tl.load(x + at, mask=at < n)
        twice += other
    ahead = tl.load(x)
    total = tl.zeros((B,), tl.float32)
    for step in range(STEPS):
        twice += ahead
        ahead = tl.load(x + step)
        total += tl.load(y + step)
        later = tl.load(y + step)  # noqa: F841
    tl.store(out + at, twice, mask=at < n)


def unused(n: int = 300, device: str = "cuda") -> torch.Tensor:
    x, y = (torch.ones(n, device=device) for _ in range(2))
    out = torch.empty(n + 1, device=device)
    unused_values[(triton.cdiv(n, 64),)](x, y, out, n, STEPS=3, B=64)
    return out


def scaled_once(scaled: int = 0, n: int = 300, device: str = "cuda") -> torch.Tensor:
    x, scale = torch.ones(n, device=device), torch.ones(2, device=device)
    out = torch.empty_like(x)
    scaled_or_not[(triton.cdiv(n, 64),)](x, scale, out, n, SCALED=scaled == 1, B=64)
    return out


@pytest.mark.parametrize("is_scaled", [0, 1])
def test_values_for_another_type_or_option_are_not_read(is_scaled: int) -> None:
    traced, derived = (run(load_target(scaled_once), {"scaled": is_scaled}).requested for run in (trace, derive))
    assert traced is not None
    assert derived is not None
    assert traced.read_bytes == derived.read_bytes == 4 * (300 + 5 * is_scaled)


def branches_not_taken(n: int = 300, times: int = 1, device: str = "cuda") -> torch.Tensor:
    x, y = torch.ones(n, device=device), torch.ones(2, device=device)
    out = torch.empty_like(x)
    for_some[(triton.cdiv(n, 64),)](x, y, out, n, times, 1.0, B=64)
    return out


def test_values_for_a_branch_that_no_program_takes_are_read() -> None:
    traced, derived = (run(load_target(branches_not_taken), {}).requested for run in (trace, derive))
    assert traced is not None
    assert derived is not None
    assert traced.read_bytes == derived.read_bytes == 4 * (300 + 5 * 2)


def test_unused_values_are_not_read() -> None:
    """Each element of x is read once, and of y by the volatile load.

    Others are those that a branch or a loop carries.
    """
    traced, derived = (run(load_target(unused), {}).requested for run in (trace, derive))
    assert traced is not None
    assert derived is not None
    programs, in_first = 5, 64
    scalars = programs * (1 + 1 + 3 + 3)
    assert traced.read_bytes == 4 * (300 + 300 + in_first + scalars)
    assert (traced.read_bytes, traced.write_bytes) == (derived.read_bytes, derived.write_bytes)
    assert (traced.read_sector_bytes, traced.write_sector_bytes) == (derived.read_sector_bytes, derived.write_sector_bytes)


@triton.jit
def sums_before(x, out, STEPS: tl.constexpr, B: tl.constexpr):
    at = tl.arange(0, B)
    total = tl.zeros((B,), tl.float32)
    for step in range(STEPS):
        loaded = tl.load(x + step * B + at)
        tl.store(out + step * B + at, total)
        total += loaded
    for step in range(STEPS - 1):
        if step > 0:
            total += tl.load(x + at)
        tl.store(out + at, total)


def prefix_sums(steps: int = 1, device: str = "cuda") -> torch.Tensor:
    x, out = torch.ones(steps, 32, device=device), torch.empty(steps, 32, device=device)
    sums_before[(1,)](x, out, STEPS=steps, B=32)
    return out


@pytest.mark.parametrize(("steps", "loads"), [(1, 0), (2, 2), (3, 4)])
def test_a_loop_of_one_known_iteration_carries_nothing(steps: int, loads: int) -> None:
    """One iteration stores no last sum, and the second loop runs once less."""
    traced, derived = (run(load_target(prefix_sums), {"steps": steps}).requested for run in (trace, derive))
    assert traced is not None
    assert derived is not None
    assert traced.read_bytes == derived.read_bytes == 4 * 32 * loads


def marked(body: str, **conditions: bool) -> list[str]:
    """Return the assignments of a function that count no loads.

    `conditions` are the tests that the compiler decides.
    """
    text = f"def function():\n{textwrap.indent(textwrap.dedent(body), '    ')}"
    function, unchanged = (node for _ in range(2) for node in ast.parse(text).body if isinstance(node, ast.FunctionDef))
    marks = Marks.mark(function, unchanged)
    counter, found = ByteCounter(), list[str]()
    for statement, at in marks.assignments.items():
        usage = Usage(marks)
        for branch, number in marks.branches.items():
            if ast.unparse(branch.test) in conditions:
                usage.test(number, conditions[ast.unparse(branch.test)])
        before = counter.read_bytes
        with usage.loads(at):
            counter.load(ADDRESSES, MASK)
        assert counter.read_bytes == before
        usage.settle()
        found += [ast.unparse(statement)] if counter.read_bytes == before else []
    return found


@pytest.mark.parametrize(
    "body",
    [
        "a = tl.load(p)\nreturn a",
        "a = tl.load(p)\nif c:\n    a = tl.load(q)\nreturn a",
        "a = tl.load(p)\nwhile a > 0:\n    a = tl.load(q)",
        "a = tl.load(p)\nfor i in range(n):\n    tl.store(q, a)\n    a = tl.load(p + i)",
        "a = tl.load(p)\nfor i in range(n):\n    if c:\n        a = tl.load(p + i)\n        continue\n    tl.store(q, a)",
        "for i in range(n):\n    a = tl.load(p + i)\n    if a > 0:\n        break\n    a = 0\nelse:\n    a = 1\nreturn a",
        "a = tl.load(p)\na += f()\nreturn a",
        "a = tl.load(p, volatile=True)",
        "a = tl.load(p, **options)",
        "a = helper(tl.load(p))",
        "a = tl.atomic_add(p, tl.load(q))",
        "a[0] = tl.load(p)",
        "s.a = tl.load(p)",
        "tl.store(q, tl.load(p))",
        "a = tl.load(p)\nreturn [a for _ in ()]",
    ],
)
def test_what_may_be_used_is_counted(body: str) -> None:
    assert not marked(body)


def test_what_is_never_used_is_marked() -> None:
    assert marked("a = tl.load(p)\na = tl.load(q)\nreturn a") == ["a = tl.load(p)"]
    assert marked("if c:\n    a = tl.load(p)\nelse:\n    a = tl.load(q)\n    tl.store(r, a)") == ["a = tl.load(p)"]
    assert marked("a = tl.load(p)\nb = a * 2\nreturn c") == ["a = tl.load(p)"]
    assert marked("for i in range(n):\n    a: tl.tensor = tl.load(p).to(tl.float32)") == [
        "a: tl.tensor = tl.load(p).to(tl.float32)"
    ]
    assert marked("a = tl.load(p)\nreturn c\ntl.store(q, a)") == ["a = tl.load(p)"]


def test_branches_that_the_compiler_decides() -> None:
    body = "a = tl.load(p)\nif c:\n    tl.store(q, a)\nelif d:\n    tl.store(r, a)"
    assert marked(body, c=False, d=False) == ["a = tl.load(p)"]
    assert not marked(body, c=False, d=True)
    assert not marked(body, c=False)
    assert not marked(body, c=True, d=False)
