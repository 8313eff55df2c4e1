"""Define exact counts of elements that an algorithm moves per head.

They are separated by element width.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import sympy
from sympy import Expr

from ioaware.analysis.formulas.evaluate import evaluate
from ioaware.analysis.formulas.functions import ceil_div, positive_symbols

# The papers' letters, all positive integers, so that ceilings simplify. N is the number of queries, N_k of keys and values, d
# the head_dim. M is the on-chip memory in elements, B_r x B_c a tile, e the bytes of an input element. B and H are batch and
# heads.
N, N_k, d, M, B_r, B_c, e, B, H = positive_symbols("N N_k d M B_r B_c e B H")

# T_r row blocks of Q and T_c column blocks of K and V (Algorithm 1, lines 3 and 4); the last of each may be ragged.
T_r, T_c = ceil_div(N, B_r), ceil_div(N_k, B_c)

# Elements that Algorithm 1 holds on chip at line 9: K_j, V_j, Q_i, O_i, S_ij, l_i and m_i. The paper's blocks exceed M, because
# they leave no room for S_ij. Registers, where real kernels keep S and O, are not counted.
LIVE_SET = 2 * d * (B_r + B_c) + B_r * B_c + 2 * B_r

ZERO: Expr = sympy.S.Zero
FP32_BYTES = 4


@dataclass(frozen=True)
class Elements:
    """Number of elements: `inputs` in their dtype, `fp32` in single precision.

    Those of the inputs' dtype have e bytes each.
    """

    inputs: Expr = ZERO
    fp32: Expr = ZERO

    def __add__(self, other: Elements) -> Elements:
        return Elements(self.inputs + other.inputs, self.fp32 + other.fp32)

    @property
    def count(self) -> Expr:
        """Return the number of elements of any width, as the papers count."""
        return self.inputs + self.fp32

    @property
    def bytes(self) -> Expr:
        """Return the bytes, with `e` the bytes of an input element."""
        return e * self.inputs + FP32_BYTES * self.fp32


@dataclass(frozen=True)
class Step:
    """One kernel, or one line of the algorithm: reads, writes and FLOPs.

    The reads and writes are per head, and an FMA counts as 2 FLOPs.

    `atomics` are the operands of read-modify-writes, apart from both.
    """

    name: str
    reads: Elements
    writes: Elements
    flops: Expr = ZERO
    atomics: Elements = field(default_factory=Elements)


@dataclass(frozen=True)
class Counts:
    """Exact counts of an algorithm per head, step by step in launch order.

    `extra` is the memory beyond inputs and output. `source` names paper and algorithm. `blocks` (optional) are the paper's
    block sizes B_r, B_c as functions of M and d. `instances` is how many such problems a call has. `compulsory` (optional) is
    the traffic that no algorithm for the problem avoids. Without it the problem is the forward pass of exact attention, which
    has its own lower bounds.
    """

    name: str
    source: str
    steps: tuple[Step, ...]
    extra: Elements
    blocks: Mapping[str, Expr] = field(default_factory=dict[str, Expr])
    instances: Expr = B * H
    compulsory: Step | None = None

    @property
    def reads(self) -> Elements:
        return sum((step.reads for step in self.steps), Elements())

    @property
    def writes(self) -> Elements:
        return sum((step.writes for step in self.steps), Elements())

    @property
    def atomics(self) -> Elements:
        return sum((step.atomics for step in self.steps), Elements())

    @property
    def flops(self) -> Expr:
        return sum((step.flops for step in self.steps), ZERO)

    @cached_property
    def total(self) -> Expr:
        """Return the elements read, written and updated per head.

        Building the sum costs more than evaluating it.
        """
        return self.reads.count + self.writes.count + self.atomics.count

    def total_elements(self, values: Mapping[str, int]) -> int:
        """Return the elements read, written and updated per head.

        They are for these values of the symbols.
        """
        return evaluate(self.total, values)
