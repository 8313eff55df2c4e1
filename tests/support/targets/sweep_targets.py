"""A target of any working set: all programs sweep one tensor."""

import torch
import triton
import triton.language as tl

from ioaware.case import Work

BLOCK = 4096
PROGRAMS = 264
"""Two on each SM of an H200, so that all of them run at once."""


@triton.jit
def sweep_kernel(source, sums, blocks, passes, PROGRAMS: tl.constexpr, BLOCK: tl.constexpr):
    program = tl.program_id(0)
    total = tl.zeros([BLOCK], tl.float32)
    for _ in range(passes):
        for block in range(program, blocks, PROGRAMS):
            at = block.to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
            total += tl.load(source + at, cache_modifier=".cg")  # not from the L1
    tl.store(sums + program, tl.sum(total, 0))


def sweeps(mib: int = 30, passes: int = 2, device: str = "cuda") -> Work:
    """A tensor of `mib` MiB that one launch reads `passes` times.

    The first pass finds a cold L2, each further one a warm one.
    """
    n = mib * 2**18
    x = torch.randn(n, device=device)

    def run() -> torch.Tensor:
        sums = torch.empty(PROGRAMS, device=device)
        sweep_kernel[(PROGRAMS,)](x, sums, n // BLOCK, passes, PROGRAMS=PROGRAMS, BLOCK=BLOCK)
        return sums

    def reference() -> torch.Tensor:
        dealt = torch.zeros(triton.cdiv(n // BLOCK, PROGRAMS) * PROGRAMS, device=device, dtype=torch.float64)
        dealt[: n // BLOCK] = x.double().view(-1, BLOCK).sum(1)
        return passes * dealt.view(-1, PROGRAMS).sum(0)

    return Work(run, inputs=(x,), reference=reference, tolerance=1e-3)
