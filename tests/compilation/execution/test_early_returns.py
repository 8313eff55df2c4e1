"""A kernel with several early returns: they share one block of the IR.

That block stands before the others.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import triton
import triton.language as tl

from ioaware.derivation.derive import derive
from ioaware.targets.target import load_target


@triton.jit
def ragged_rows(x, lengths, out, columns, BLOCK: tl.constexpr):
    row, tile = tl.program_id(0), tl.program_id(1)
    length = tl.load(lengths + row)
    if tile * BLOCK >= length:
        return
    following = tl.load(lengths + row + 1)
    if following == 0:
        return
    at = tile * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + row * columns + at, tl.load(x + row * columns + at, at < length), at < length)


def ragged(device: str = "cuda") -> Callable[[], object]:
    x = torch.empty(3, 64, device=device)
    lengths = torch.tensor([40, 0, 17, 5], device=device, dtype=torch.int32)
    return lambda: ragged_rows[(3, 4)](x, lengths, torch.empty_like(x), 64, BLOCK=16)


def test_programs_that_return_early() -> None:
    """12 programs load a length.

    3 of row 0 and 2 of row 2 load the next one; only row 2 has one, and 17 elements.
    """
    target = load_target(ragged)
    derived = derive(target, {}, machine_code=False, check=True)
    assert derived.exact, derived.launches[0].notes
    assert derived.requested is not None
    assert derived.requested.read_bytes == 4 * (12 + 3 + 2 + 17)
    assert derived.requested.write_bytes == 4 * 17
