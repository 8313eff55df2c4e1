"""Host functions that convert, round and compare sizes as Python code does."""

from __future__ import annotations

import math
import operator
from math import sqrt

import numpy as np
import torch
import triton
import triton.language as tl


@triton.jit
def scale_kernel(x, y, n, factor, BLOCK: tl.constexpr):
    lanes = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + lanes, tl.load(x + lanes, lanes < n) * factor, lanes < n)


def scaled(x: torch.Tensor, factor: float = 2.0, block: int = 128) -> torch.Tensor:
    y = torch.empty_like(x)
    scale_kernel[(triton.cdiv(x.numel(), block),)](x, y, x.numel(), factor, BLOCK=block)
    return y


def rounded_twice(n: int = 98, device: str = "cuda"):
    """n at 98 and n - 1 at 99: the quotient is a little below."""
    return scaled(torch.ones(math.floor(n / 49 * 49), device=device))


def branch_on_a_product_of_floats(n: int = 98, device: str = "cuda"):
    """Equal at 98, not at 99."""
    return scaled(torch.ones(2 * n if n / 49 * 49 == n else n, device=device))


def branch_below_a_product_of_floats(n: int = 98, device: str = "cuda"):
    """Not below at 98, below at 99."""
    return scaled(torch.ones(2 * n if n / 49 * 49 < n else n, device=device))


def rounded_once(n: int = 98, device: str = "cuda"):
    """Floats that round as fractions do."""
    return scaled(torch.ones(math.floor(n / 49) + math.ceil(n * 1.5) + math.floor(-n / 4 * 3 + 3 * n), device=device))


def rounded_to_even(n: int = 98, device: str = "cuda"):
    """The nearest integers of whole numbers, halves, thirds, quarters and a product."""
    return scaled(torch.ones(round(n / 1) + round(n / 2) + round(n / 3) + round(3 * n / 4) + round(n * 1.5), device=device))


def rounded_to_one(n: int = 98, device: str = "cuda"):
    """A size that was divided by a scale of 1."""
    return scaled(torch.ones(round(n / 1), device=device))


def rounded_below_zero(n: int = 98, device: str = "cuda"):
    """Halves below 0 go to even integers too."""
    return scaled(torch.ones(2 * n + round(-n / 2), device=device))


def whole_elements(n: int = 1000, device: str = "cuda"):
    """Sizes that pass through the types, `operator.index` and `divmod`."""
    if not isinstance(n, (int, float)) or type(n) is not int:
        raise TypeError("n")
    x = torch.ones(operator.index(n), 4, device=device)
    rows, columns = map(int, x.shape)
    blocks, rest = divmod(int(rows * columns), 128)
    y = torch.empty(x.nbytes // 4, device=device)
    scale_kernel[(int(blocks + int(rest > 0)),)](x, y, int(x.numel()), 2.0, BLOCK=128)
    return y


def half_elements(n: int = 1000, device: str = "cuda"):
    """Floats that are cut to integers, one of them negative at some sizes."""
    return scaled(torch.ones(int(n * 0.5) + int(np.ceil(n / 16)), device=device))


def cut_towards_zero(n: int = 1000, device: str = "cuda"):
    """-1 / 2 is 0 and not -1."""
    return scaled(torch.ones(n + int((n - 1001) / 2), device=device))


def scaled_by_a_root(n: int = 1000, width: int = 64, device: str = "cuda"):
    """As attention does."""
    factor = 1 / math.sqrt(width) + float(n) + math.log2(n) + 1 / np.sqrt(width) + sqrt(n)
    return scaled(torch.ones(n, width, device=device), factor)


def block_of_a_root(n: int = 1000, device: str = "cuda"):
    """A block that follows from a logarithm."""
    return scaled(torch.ones(n, device=device), block=2 ** math.ceil(math.log2(n)))


def largest_power_of_two(n: int = 1000, device: str = "cuda"):
    """As long as the largest power of two in n, and in blocks of half of the next one."""
    x = torch.ones(1 << (n.bit_length() - 1), device=device)
    return scaled(x, block=triton.next_power_of_2(n) // 2)


def next_power_of_two(n: int = 1000, device: str = "cuda"):
    """Padded to a power of two."""
    return scaled(torch.ones(triton.next_power_of_2(n), device=device))


def rows_of_a_tensor(n: int = 1000, device: str = "cuda"):
    return scaled(torch.ones(len(torch.ones(n, 3, device=device)), device=device))


def distance(n: int = 1000, device: str = "cuda"):
    return scaled(torch.ones(abs(600 - n) + 1, device=device))


def common_divisor(n: int = 1000, device: str = "cuda"):
    return scaled(torch.ones(n * math.gcd(n, 48), device=device))
