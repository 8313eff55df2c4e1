"""How the Hopper kernel works on attention of given sizes: its blocks, and how tiles are numbered and dealt. Pure numbers."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal

Order = Literal["in turn", "in pairs", "by length"]
"""How tiles are dealt to programs; see hopper_order."""
NUMBERS = 2**30
"""hopper_order.divided divides n by d without error while n (d inverse_of(d) - NUMBERS) is below this."""


@dataclass(frozen=True, slots=True)
class Plan:
    """hopper_forward_kernel's parameters of these names."""

    block_n: int
    stages: int
    consumers: int
    registers: int
    q_slots: int
    o_apart: bool = True

    @property
    def block_m(self) -> int:
        """Query rows of a tile: 64 for each consumer."""
        return 64 * self.consumers

    def constants(self, order: Order, *, mask: bool) -> dict[str, int]:
        """The kernel's compile-time parameters."""
        names = {field.name.upper(): getattr(self, field.name) for field in fields(self)}
        return {"CAUSAL": order != "in turn", "BY_LENGTH": order == "by length", "MASK": mask, **names}


FEW = Plan(block_n=128, stages=4, consumers=2, registers=240, q_slots=4)
SHORT = Plan(block_n=64, stages=6, consumers=4, registers=112, q_slots=8)
LONG = Plan(block_n=128, stages=4, consumers=3, registers=160, q_slots=6)
MEDIUM = Plan(block_n=128, stages=2, consumers=2, registers=240, q_slots=4)
WIDE = Plan(block_n=64, stages=2, consumers=2, registers=240, q_slots=3, o_apart=False)
"""WIDE has room for three Q beside K and V: each consumer's, and the next of the consumer that finishes first."""
PLANS = (FEW, SHORT, LONG, MEDIUM, WIDE)
WIDTHS = (64, 128, 256)
READERS = {64: 256, 128: 512, 256: 512}
"""By width: query rows that must share one reading of K and V from HBM, or HBM would not keep up with the matmuls."""


def padded_head_dim(head_dim: int) -> int:
    """The head_dim of the tiles: TMA fills what is missing with zeros."""
    return next(width for width in WIDTHS if width >= head_dim)


@dataclass(frozen=True, slots=True)
class Tiling:
    """The plan of one call and the order of its tiles: numbers of `runs` runs of `run` tiles each, or pairs of tiles."""

    plan: Plan
    order: Order
    run: int
    runs: int

    @staticmethod
    def of(head_dim: int, seq_len: int, batch_heads: int, processors: int, *, causal: bool) -> Tiling:
        """The fastest measured on a GPU of so many processors (docs/hopper-attention.md)."""
        width = padded_head_dim(head_dim)
        plan = _plan(width, seq_len, batch_heads, processors, causal=causal)
        blocks = -(-seq_len // plan.block_m)
        if not causal:
            return Tiling(plan, "in turn", blocks, batch_heads)
        # K and V of all heads are read at once, and each by so many programs
        rows = plan.block_m * max(1, processors // batch_heads)
        by_length = Tiling(plan, "by length", batch_heads, blocks)
        if rows >= READERS[width] and by_length.divisible:
            return by_length
        return Tiling(plan, "in pairs", -(-blocks // 2), batch_heads)

    @property
    def divisible(self) -> bool:
        """Whether the kernel divides every tile's number by the run without error."""
        return divides(self.run * self.runs, self.run)


def _plan(width: int, seq_len: int, batch_heads: int, processors: int, *, causal: bool) -> Plan:
    if width > 64:
        return MEDIUM if width == 128 else WIDE
    if batch_heads * -(-seq_len // SHORT.block_m) < 2 * processors:
        return FEW
    if causal:
        return LONG if seq_len > 4096 and 2 * batch_heads <= processors else SHORT
    return LONG if seq_len > 1024 else SHORT


def inverse_of(d: int) -> int:
    """What the kernel multiplies by instead of dividing by d."""
    return (NUMBERS - 1) // d + 1


def divides(numbers: int, d: int) -> bool:
    """Whether hopper_order.divided is right for 0, ..., numbers - 1 and divisor d."""
    return numbers * d < NUMBERS or numbers * (d * inverse_of(d) - NUMBERS) < NUMBERS  # the first implies the second
