"""Configure the Hopper forward kernel: plans, tilings and the schedule of tiles.

Pure numbers.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

NUMBERS = 2**30
"""Bound of the numerators that tile_scheduler.divide divides exactly.

It is exact for n / d while n (d inverse_of(d) - NUMBERS) is below this.
"""


@dataclass(frozen=True, slots=True)
class Plan:
    """Compile-time parameters of hopper_forward_kernel, of the same names."""

    block_n: int
    stages: int
    consumers: int
    registers: int
    q_slots: int
    separate_o_smem: bool = True
    pingpong: bool = False

    @property
    def block_m(self) -> int:
        """Query rows of a tile: 64 for each consumer."""
        return 64 * self.consumers

    def constants(self, seq_len: int, kv_len: int, *, causal: bool) -> dict[str, int]:
        """Return the kernel's compile-time parameters."""
        masked = masked_blocks(seq_len, kv_len, self.block_n, causal=causal)
        halved = causal and self.block_n == self.block_m == 128 and (kv_len - seq_len) % 128 == 0
        names = {field.name.upper(): getattr(self, field.name) for field in fields(self)}
        return {"CAUSAL": causal, "MASKED": masked, "HALVED": halved, **names}


FEW = Plan(block_n=128, stages=4, consumers=2, registers=240, q_slots=4)
SHORT = Plan(block_n=64, stages=6, consumers=4, registers=112, q_slots=8)
LONG = Plan(block_n=128, stages=4, consumers=3, registers=160, q_slots=6, pingpong=True)
MEDIUM = Plan(block_n=128, stages=2, consumers=2, registers=240, q_slots=4)
WIDE = Plan(block_n=64, stages=2, consumers=2, registers=240, q_slots=3, separate_o_smem=False)
"""Number of Q tiles beside K and V.

There is one for each consumer, and the next one for the consumer that finishes first.
"""
PLANS = (FEW, SHORT, LONG, MEDIUM, WIDE)
WIDTHS = (64, 128, 256)
LPT_ROUNDS = {64: 31 / 8, 128: 31 / 8, 256: 31 / 16}
"""Rounds of causal tiles in LPT order, by width.

They balance what the pairs before them leave uneven, and K and V of their heads, 32 MB, stay in the L2. Slightly less than
whole rounds, so that the last round, which is not full, has the shortest tiles.
"""


def masked_blocks(seq_len: int, kv_len: int, block_n: int, *, causal: bool) -> int:
    """Return how many of the last column blocks may have masked keys.

    The rows are 64 from a multiple of 64 on.
    """
    if causal and (kv_len - seq_len) % 64:
        return 2  # the diagonal crosses two
    return int(causal or kv_len % block_n != 0)


def padded_head_dim(head_dim: int) -> int:
    """Return the head_dim of the tiles.

    TMA fills the columns beyond head_dim with zeros.
    """
    return next(width for width in WIDTHS if width >= head_dim)


@dataclass(frozen=True, slots=True)
class Tiling:
    """The plan of one call and its schedule.

    It is all tiles in order, or those of `paired` heads paired and of others by LPT.
    """

    plan: Plan
    causal: bool
    blocks: int
    batch_heads: int
    paired: int

    @staticmethod
    def of(head_dim: int, seq_len: int, batch_heads: int, processors: int, *, causal: bool) -> Tiling:
        """Return the fastest plan at 16,384 tokens on 132 SMs.

        The measurements are in docs/lab-notes/hopper-attention.md.

        FEW replaces SHORT where that would leave SMs without tiles.
        """
        width = padded_head_dim(head_dim)
        plan = _plan(width, seq_len, batch_heads, processors, causal=causal)
        blocks = -(-seq_len // plan.block_m)
        all_lpt = blocks * batch_heads <= 4 * processors or (width, blocks) == (64, 4)
        if not causal or all_lpt:
            return Tiling(plan, causal, blocks, batch_heads, 0)
        lpt_heads = -(-int(LPT_ROUNDS[width] * processors) // blocks)
        return Tiling(plan, True, blocks, batch_heads, max(0, batch_heads - lpt_heads))  # derivation proves it >= 0

    @property
    def items_per_head(self) -> int:
        """Row blocks of a head or, where causal, pairs of them."""
        return -(-self.blocks // 2) if self.causal else self.blocks

    @property
    def others(self) -> int:
        """Heads that are not paired; at least one, as the kernel divides by them."""
        return max(1, self.batch_heads - self.paired)

    @property
    def work_items(self) -> int:
        """Work items: tiles and pairs of tiles."""
        return self.items_per_head * self.paired + self.blocks * (self.batch_heads - self.paired)

    @property
    def divisible(self) -> bool:
        """Whether the kernel's divisions of item numbers are exact.

        Pairs and others are numbered apart.
        """
        if not self.causal:
            return division_is_exact(self.work_items, self.items_per_head)
        return division_is_exact(max(1, self.items_per_head * self.paired), self.items_per_head) and division_is_exact(
            self.blocks * self.others, self.others
        )


def _plan(width: int, seq_len: int, batch_heads: int, processors: int, *, causal: bool) -> Plan:
    if width > 64:
        return MEDIUM if width == 128 else WIDE
    if batch_heads * -(-seq_len // SHORT.block_m) < 2 * processors:
        return FEW
    if causal:
        return LONG if seq_len > 4096 and 2 * batch_heads <= processors else SHORT
    return LONG if seq_len > 1024 else SHORT


def inverse_of(d: int) -> int:
    """Return the reciprocal that the kernel multiplies by instead of dividing by d."""
    return (NUMBERS - 1) // d + 1


def division_is_exact(numbers: int, d: int) -> bool:
    """Return whether tile_scheduler.divide is exact for divisor d.

    It must be for 0, ..., numbers - 1.
    """
    return numbers * d < NUMBERS or numbers * (d * inverse_of(d) - NUMBERS) < NUMBERS  # the first implies the second
