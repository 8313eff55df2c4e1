"""How the Hopper kernel works on attention of given sizes: its blocks, and how tiles are numbered and dealt. Pure numbers."""

from __future__ import annotations

from dataclasses import dataclass, fields

NUMBERS = 2**30
"""hopper_order.divide divides n by d without error while n (d inverse_of(d) - NUMBERS) is below this."""


@dataclass(frozen=True, slots=True)
class Plan:
    """hopper_forward_kernel's parameters of these names."""

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
        """The kernel's compile-time parameters."""
        masked = masked_blocks(seq_len, kv_len, self.block_n, causal=causal)
        halved = causal and self.block_n == self.block_m == 128 and (kv_len - seq_len) % 128 == 0
        names = {field.name.upper(): getattr(self, field.name) for field in fields(self)}
        return {"CAUSAL": causal, "MASKED": masked, "HALVED": halved, **names}


FEW = Plan(block_n=128, stages=4, consumers=2, registers=240, q_slots=4)
SHORT = Plan(block_n=64, stages=6, consumers=4, registers=112, q_slots=8)
LONG = Plan(block_n=128, stages=4, consumers=3, registers=160, q_slots=6, pingpong=True)
MEDIUM = Plan(block_n=128, stages=2, consumers=2, registers=240, q_slots=4)
WIDE = Plan(block_n=64, stages=2, consumers=2, registers=240, q_slots=3, separate_o_smem=False)
"""WIDE has room for three Q beside K and V: each consumer's, and the next of the consumer that finishes first."""
PLANS = (FEW, SHORT, LONG, MEDIUM, WIDE)
WIDTHS = (64, 128, 256)
BY_LENGTH = {64: 31 / 8, 128: 31 / 8, 256: 31 / 16}
"""By width: so many rounds of causal tiles are dealt by length. They even out what pairs before them left uneven, and K and V
of their heads, 32 MB, stay in the L2. A little less than whole rounds: the last one, which is not full, has the shortest."""


def masked_blocks(seq_len: int, kv_len: int, block_n: int, *, causal: bool) -> int:
    """In how many column blocks there may be keys that 64 rows, from a multiple of 64 on, do not see: the last ones."""
    if causal and (kv_len - seq_len) % 64:
        return 2  # the diagonal passes through two
    return int(causal or kv_len % block_n != 0)


def padded_head_dim(head_dim: int) -> int:
    """The head_dim of the tiles: TMA fills what is missing with zeros."""
    return next(width for width in WIDTHS if width >= head_dim)


@dataclass(frozen=True, slots=True)
class Tiling:
    """The plan of one call and how its tiles are dealt: all in turn, or those of `paired` heads in pairs and of others by
    length (hopper_order)."""

    plan: Plan
    causal: bool
    blocks: int
    batch_heads: int
    paired: int

    @staticmethod
    def of(head_dim: int, seq_len: int, batch_heads: int, processors: int, *, causal: bool) -> Tiling:
        """The fastest measured at 16,384 tokens on 132 processors (docs/hopper-attention.md); FEW where SHORT would leave
        processors without tiles."""
        width = padded_head_dim(head_dim)
        plan = _plan(width, seq_len, batch_heads, processors, causal=causal)
        blocks = -(-seq_len // plan.block_m)
        all_by_length = blocks * batch_heads <= 4 * processors or (width, blocks) == (64, 4)  # the latter by 2 %, measured
        if not causal or all_by_length:
            return Tiling(plan, causal, blocks, batch_heads, 0)
        by_length = -(-int(BY_LENGTH[width] * processors) // blocks)
        return Tiling(plan, True, blocks, batch_heads, max(0, batch_heads - by_length))  # never below: derivation knows

    @property
    def run(self) -> int:
        """Row blocks or, where causal, pairs of a head."""
        return -(-self.blocks // 2) if self.causal else self.blocks

    @property
    def others(self) -> int:
        """Heads that are not dealt in pairs; at least one, as the kernel divides by them."""
        return max(1, self.batch_heads - self.paired)

    @property
    def hands(self) -> int:
        """Tiles and pairs of tiles that programs can have."""
        return self.run * self.paired + self.blocks * (self.batch_heads - self.paired)

    @property
    def divisible(self) -> bool:
        """Whether the kernel divides every tile's number without error. It numbers pairs and others apart."""
        if not self.causal:
            return divides(self.hands, self.run)
        return divides(max(1, self.run * self.paired), self.run) and divides(self.blocks * self.others, self.others)


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
    """Whether hopper_order.divide is right for 0, ..., numbers - 1 and divisor d."""
    return numbers * d < NUMBERS or numbers * (d * inverse_of(d) - NUMBERS) < NUMBERS  # the first implies the second
