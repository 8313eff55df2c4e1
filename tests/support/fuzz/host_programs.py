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
import math, operator, dataclasses, itertools, contextlib, collections, numpy as np
from functools import partial
@dataclasses.dataclass(frozen=True)
class Plan:
    rows: int
    cols: int
    def block(self): return 16 if self.rows * self.cols < 200 else 64
class Runner:
    def __init__(self): self.calls = 0
    def __call__(self, x):
        self.calls += 1
        return go(x) if self.calls % 2 else go(go(x))
RUN = Runner()
@functools.cache
def plan(n, m): return Plan(n, m)
def parts(n):
    while n > 3:
        yield n
        n //= 2
def deep(x, n): return go(x) if n < 4 else deep(go(x), n // 3)
@contextlib.contextmanager
def scaled(x):
    yield go(x)
    go(x)
WORK = {}
def workspace(shape):
    if shape not in WORK: WORK[shape] = torch.empty(shape, device='cuda')
    return WORK[shape]
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
    "for _ in parts(n): x = go(x)",
    "x = deep(x, n)",
    "x = go(x, plan(n, m).block())",
    "x = RUN(x)",
    "with scaled(x) as y: x = go(y)",
    "x = go(workspace((n, 8)))",
    "x = go(workspace(x.shape))",
    "x = torch.cat([go(p) for p in x.flatten().split(7)])",
    "x = torch.cat([go(p.contiguous()) for p in x.flatten().chunk(3)])",
    "x = go(torch.stack([x, x]))",
    "x = go(torch.nn.functional.pad(x, (0, m % 5)))",
    "x = go(x.flatten()[::2].contiguous())",
    "x = go(x, triton.next_power_of_2(min(n, 64)))",
    "x = go(x, max(16, min(64, triton.next_power_of_2(m))))",
    "x = go(x, 2 ** (min(n, 31)).bit_length())",
    "a, b = divmod(n, 4)\n    x = go(x) if b else go(go(x))",
    "q = math.ceil(n / 16)\n    for _ in range(q): x = go(x)",
    "x = go(x.flatten()[: int(n * 0.5) + 1])",
    "x = go(x.flatten()[: round(n / 3) + 1])",
    "x = go(x.flatten()[: math.isqrt(n * m)])",
    "x = go(torch.zeros(int(np.arange(n).sum()) + 1, device='cuda'))",
    "x = go(torch.zeros(sum(range(n)) + 1, device='cuda'))",
    "name = f'{n}x{m}'\n    x = go(x) if len(name) > 4 else x",
    "x = go(x) if sorted([n, m, 9])[1] == 9 else x",
    "x = go(x) if n < m < 20 else x",
    "try:\n        x = go(x) if n % 2 else [][n]\n    except IndexError:\n        x = go(go(x))",
    "x = functools.reduce(lambda y, _: go(y), range(m % 4), x)",
    "x = go(x) if isinstance(n, int) and n else x",
    "x = go(x.new_empty(n + m))",
    "x = go(torch.empty_strided((n, 4), (8, 1), device='cuda').contiguous())",
    "x = go(x) if x.stride(0) % 4 == 0 else go(x, 64)",
    "x = go(x) if x.is_contiguous() else go(x.contiguous())",
    "i = torch.arange(n, device='cuda')\n    x = go(i[i % 3 == 0].float())",
    "i = torch.arange(n, device='cuda').tolist()\n    x = go(torch.zeros(len(i[::3]), device='cuda'))",
    "s = torch.tensor([n, m, n + m], device='cuda').cumsum(0)\n    x = go(torch.zeros(s[-1].item(), device='cuda'))",
    "s = torch.tensor([3, 1, 2], device='cuda')\n    for k in s.tolist(): x = go(x.flatten()[: k * 4])",
    "x = x.clone(); x.mul_(2); x = go(x)",
    "y = torch.empty_like(x); y.copy_(x); x = go(y)",
    "d = collections.defaultdict(int); d[n] += 2; d[m] += 1\n    for _ in range(d[n]): x = go(x)",
    "x = go(x) if hash((n, m)) == hash((12, 7)) else x",
    "x = go(x) if (n, m) in {(2, 3), (4, 5)} else x",
    "x = go(x) if str(n).endswith('3') else x",
    "x = go(x) if n & 1 else x",
    "x = go(x, 16 << (n % 3))",
    "x = go(x) if operator.index(n) > 7 else x",
    "k = n\n    while k % 2 == 0: k //= 2; x = go(x)",
    "x = go(x) if bin(n).count('1') > 2 else x",
    "for r, c in itertools.product(range(m % 3), range(2)): x = go(x)",
    "x = go(x) if x.shape[0] in TABLE else go(x, 64)",
    "x = go(x, TABLE[max(k for k in TABLE if k <= max(n, 8))])",
    "x = partial(go, block=16 if n > m else 32)(x)",
    "x = go(x.reshape(-1, 1) if n > 5 else x)",
    "x = go(x) if abs(n - m) > 3 else x",
    "x = go(x) if n * m > 150 or n == 3 else x",
    "x = go(x) if not n % 7 else x",
    "x = go(x.narrow(0, n // 2, n - n // 2).contiguous())",
    "x = go(torch.repeat_interleave(x.flatten()[:2], n))",
    "x = go(x.flatten()[torch.randperm(n * 1, device='cuda')]) if x.numel() >= n else x",
    "x = go(x.index_select(0, torch.tensor([0], device='cuda'))) if x.dim() == 2 else x",
    "x = go(torch.where(x > 0, x, 0))",
    "x = go(x.sum(0)) if x.dim() == 2 else go(x)",
    "x = go(x.to(torch.float64)).float()",
    "x = go(x.flatten().unfold(0, 2, 1).contiguous()) if x.numel() > 2 else x",
    "x = go(torch.broadcast_to(x.flatten()[:1], (n, m)).contiguous())",
    "with torch.no_grad(): x = go(x)",
    "x = go(x.detach().requires_grad_(False))",
    "x = go(torch.arange(0, n * m, 3, device='cuda').float())",
    "x = go(torch.linspace(0, 1, n, device='cuda'))",
    "x = go(torch.eye(n, device='cuda'))",
    "x = go(torch.tril(torch.ones(n, n, device='cuda')))",
    "u = torch.arange(n, device='cuda') // 3\n    x = go(u.unique().float())",
    "c = torch.bincount(torch.arange(n, device='cuda') % 4)\n    for k in c.tolist(): x = go(x.flatten()[: k + 1])",
    "mask = torch.arange(m, device='cuda') > 3\n    x = go(mask.nonzero().float()) if mask.any() else x",
    "x = go(x) if torch.arange(n, device='cuda').sum() > 40 else x",
    "v, i = torch.arange(n, device='cuda').float().topk(2)\n    x = go(x.flatten()[: int(v[0]) + 1])",
    "x = go(torch.zeros(*[2, n, 3], device='cuda').permute(2, 0, 1).contiguous())",
    "b = x.element_size() * x.numel()\n    x = go(x) if b > 400 else x",
    "x = go(x, 64 if x.untyped_storage().nbytes() > 900 else 16)",
    "x = go(x) if x.storage_offset() else x",
    "x = go(x.flatten()[n // 2:]) ; x = go(x) if x.storage_offset() == 0 else x",
    "x = go(x, 2 ** (4 + n % 3))",
    "x = go(torch.ones(2 ** (n % 6), device='cuda'))",
    "x = go(torch.ones(1 << (m % 5), n, device='cuda'))",
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
