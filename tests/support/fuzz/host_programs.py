"""Random host functions around one kernel.

They have caches, first calls, tables, views, branches and data.
"""

from __future__ import annotations

import random

HEAD = """
import functools, torch, triton, triton.language as tl
@triton.jit
def double_kernel(x, out, n, BLOCK: tl.constexpr):
    lanes = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + lanes, tl.load(x + lanes, lanes < n) * 2, lanes < n)
def go(x, block=32):
    out = torch.empty_like(x)
    double_kernel[(triton.cdiv(x.numel(), block),)](x, out, x.numel(), BLOCK=block)
    return out
TABLE = {8: 16, 16: 32, 24: 64}
CACHE = {}
FIRST = True
@functools.lru_cache
def blocks(n): return 16 if n < 20 else 64
"""
STATEMENTS = (
    "x = go(x)",
    "x = go(x, blocks(n))",
    "x = go(x, TABLE.get(n, 32))",
    "x = go(x.t().contiguous()) if x.dim() == 2 else x",
    "x = go(x[: max(1, n // 2)])",
    "x = go(x.view(-1))",
    "x = go(x, 64) if m > n else x",
    "x = go(x) if n % 3 == 0 else x",
    "x = go(x) if x.numel() % 16 == 0 else x",
    "for _ in range(m % 3): x = go(x)",
    "key = (n, x.shape)\n    if key not in CACHE: CACHE[key] = go(x)\n    x = go(CACHE[key])",
    "global FIRST\n    if FIRST: FIRST = False; x = go(x)",
    "x = go(x) if n in {5, 9, 12} else x",
    "x = go(x) if n in (5, 9, 12) else x",
    "x = go(x, 16 if TABLE.get(m) else 32)",
    "x = go(torch.ones(int(torch.tensor([3, 4], device='cuda').sum()) + n, device='cuda'))",
    "x = go(x) if x.flatten()[min(n, 2):].data_ptr() % 16 == 0 else x",
    "x = go(torch.cat([x.flatten(), x.flatten()[: n // 3 + 1]]))",
    "x = go(x.to(torch.float16).cuda())",
    "seen = {n: 1}\n    x = go(x) if seen.get(m) else x",
    "x = go(x.unsqueeze(0).expand(2, *x.shape).contiguous())",
)


def host_program(seed: int) -> tuple[str, dict[str, int]]:
    """Return the text of a module with a function `host(n, m)`, and its sizes.

    These are the sizes to run the function at.
    """
    draw = random.Random(seed)
    lines = [draw.choice(STATEMENTS) for _ in range(draw.randint(1, 4))]
    sizes = {"n": draw.randint(2, 30), "m": draw.randint(2, 30)}
    body = "".join(f"    {line}\n" for line in ("x = torch.ones(n, m, device='cuda')", "go(x)", *lines))
    return f"{HEAD}def host(n: int = 2, m: int = 2):\n{body}    return x\n", sizes
