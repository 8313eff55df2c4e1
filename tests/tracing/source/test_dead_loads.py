# pyright: basic, reportArgumentType=false
"""Loads whose value a kernel never uses are not counted.

The compiler drops them.
"""

from __future__ import annotations

import ast
import textwrap

import pytest
import torch
import triton
import triton.language as tl

from ioaware.derivation.derive import derive
from ioaware.targets.target import load_target
from ioaware.tracing.source.dead_loads import UNCOUNTED, without_dead_loads
from ioaware.tracing.trace import trace

pytestmark = pytest.mark.filterwarnings("ignore:TRITON_DEFAULT_FP_FUSION")


@triton.jit
def stores_seven(out, value, at):
    tl.store(out + at, value * 0 + 7)
    return value


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


def marked(body: str) -> list[str]:
    """Return the statements of a function that count no loads."""
    module = ast.parse(f"def function():\n{textwrap.indent(textwrap.dedent(body), '    ')}")
    (function,) = (node for node in module.body if isinstance(node, ast.FunctionDef))
    without_dead_loads(function)
    blocks = [node for node in ast.walk(module) if isinstance(node, ast.With) and UNCOUNTED in ast.dump(node.items[0])]
    return [ast.unparse(statement) for block in blocks for statement in block.body]


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
