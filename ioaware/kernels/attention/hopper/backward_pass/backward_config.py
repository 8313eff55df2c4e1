"""Configure the fused Hopper backward kernel: blocks and column block schedule.

Pure numbers.
"""

from __future__ import annotations

from dataclasses import dataclass

from ioaware.kernels.attention.hopper.forward_config import padded_head_dim

FUSED_ROWS = {64: 128, 128: 64}
"""Rows of a block in the fused kernel, for each padded head_dim.

Other head_dims exceed its registers.
"""
BLOCK_N = 128
"""Keys of a column block."""
PIECE = 64 * 64
"""Elements of a piece of dQ's accumulator: 64 rows by 64 columns."""
LPT_ROUNDS = 31 / 16
"""Last rounds of causal column blocks that are in LPT order.

They balance what the pairs before them leave uneven. Slightly less than whole rounds, so that the last round, which is not
full, has the shortest blocks.
"""
LEAST_SHARE, WORTH_ONE_OF = 4, 64
"""Row blocks that dividing the last round by rows must save, one in so many.

The division is of the column blocks of the last round, without a mask. A CTA's share has at least LEAST_SHARE row blocks;
summing dK and dV takes about as long as that.
"""
WHOLE_BLOCKS, KEPT_BYTES = 4, 33 * 2**20
"""Most column blocks of a head for which a CTA works on whole heads.

It does so if the next column block rereads its data from the L2. Those are Q, dO and dQ's float32 accumulator of all CTAs'
heads (half of them where causal), at most KEPT_BYTES.
"""


@dataclass(frozen=True, slots=True)
class BackwardTiling:
    """The tiling of one call.

    Column blocks of `paired` key heads are paired where causal; others are whole key heads.
    """

    causal: bool
    block_m: int
    row_blocks: int
    blocks: int
    batch_heads: int
    masked: int
    whole: bool
    paired: int
    before: int
    """Rounds of whole column blocks before the last one, if that is divided by rows."""
    left: int
    """Column blocks of the last round that are divided by rows."""
    share: int
    """Row blocks of a CTA's range of these; 0: nothing is divided."""
    sums_shape: tuple[int, int]
    """Shape of dQ's accumulator.

    It counts query heads (of all key heads, or of one for each CTA) and elements of each.
    """

    @staticmethod
    def of(
        head_dim: int, seq_len: int, kv_len: int, group: int, batch_heads: int, processors: int, *, causal: bool,
        divides: bool = True,
    ) -> BackwardTiling:  # fmt: skip
        """Return the fastest tiling at 16,384 tokens on 132 SMs.

        The measurements are in docs/lab-notes/hopper-attention.md.

        batch_heads counts key heads, each of `group` query heads; divides: the last round may be divided by rows.
        """
        width = padded_head_dim(head_dim)
        blocks = -(-kv_len // BLOCK_N)
        paired = 0
        if causal and blocks * batch_heads > 4 * processors:
            paired = batch_heads - -(-int(LPT_ROUNDS * processors) // blocks)
        whole = (
            blocks <= WHOLE_BLOCKS
            and 8 * seq_len * group * width * processors <= (2 if causal else 1) * KEPT_BYTES
            and batch_heads >= 0.9 * processors * -(-batch_heads // processors)
            and (kv_len >= seq_len or not causal)  # all rows see the first column block
        )
        block_m = FUSED_ROWS[width]
        row_blocks = -(-seq_len // block_m)
        before, left, share = (0, 0, 0)
        if divides and not (causal or whole):
            before, left, share = last_round(blocks * batch_heads, row_blocks, processors)
        return BackwardTiling(
            causal=causal,
            block_m=block_m,
            row_blocks=row_blocks,
            blocks=blocks,
            batch_heads=batch_heads,
            masked=masked_row_blocks(width, seq_len, kv_len, group, causal=causal),
            whole=whole,
            paired=paired,
            before=before,
            left=left,
            share=share,
            sums_shape=(group * (min(batch_heads, processors) if whole else batch_heads), row_blocks * block_m * width),
        )

    @property
    def pairs(self) -> int:
        """Pairs of a head's column blocks, rounded up."""
        return -(-self.blocks // 2)

    @property
    def schedule(self) -> tuple[int, ...]:
        """The kernel's parameters that describe the schedule.

        They are row_blocks, blocks, pairs, paired, others, before, rest and share.
        """
        others = self.batch_heads - self.paired
        rest = self.left * self.row_blocks
        return self.row_blocks, self.blocks, self.pairs, self.paired, others, self.before, rest, self.share

    @property
    def parts(self) -> int:
        """Elements of the accumulators of dK and dV.

        They belong to the column blocks that are divided by rows.
        """
        width = next(width for width, rows in FUSED_ROWS.items() if rows == self.block_m)
        return 2 * self.left * BLOCK_N * width

    @property
    def work_items(self) -> int:
        """Number of work items.

        They are heads, pairs of column blocks, column blocks, or ranges of the last ones' rows.
        """
        if self.whole:
            return self.batch_heads
        if self.share:
            return self.blocks * self.batch_heads - self.left + -(-self.left * self.row_blocks // self.share)
        return self.pairs * self.paired + self.blocks * (self.batch_heads - self.paired)  # without a mask paired is 0

    def holds(self, *, float16: bool) -> bool:
        """Return whether 64 columns of K stay in registers.

        They do where registers are left, and it is faster.
        """
        if self.block_m == FUSED_ROWS[64]:
            return not (self.whole or self.causal or float16)
        return not self.whole

    def constants(self, *, float16: bool) -> dict[str, int]:
        """Return the kernel's compile-time parameters that depend on sizes and dtype."""
        return {
            "CAUSAL": self.causal,
            "MASKED": self.masked,
            "WHOLE": self.whole,
            "SPLIT": self.share > 0,
            "HOLD": self.holds(float16=float16),
            "BLOCK_M": self.block_m,
        }


def last_round(tiles: int, row_blocks: int, processors: int) -> tuple[int, int, int]:
    """Return whole rounds before the last, and how the last is divided.

    The other numbers are its column blocks, and row blocks of a CTA's share of it.

    All are 0 where dividing the last round by rows is not worth it.
    """
    before = tiles // processors
    left = tiles - before * processors
    share = max(-(-left * row_blocks // processors), LEAST_SHARE)
    gain = row_blocks - share - LEAST_SHARE
    if left == 0 or gain * WORTH_ONE_OF < (before + 1) * row_blocks:
        return 0, 0, 0
    # Plain numbers also under derivation: the overlap of ranges and column blocks has no short formula.
    return int(before), int(left), int(share)


def masked_row_blocks(width: int, seq_len: int, kv_len: int, group: int, *, causal: bool) -> int:
    """Return which row blocks of a column block may be masked.

    It is none (0), the first of a consumer (1), or any (2).
    """
    if not causal:
        return 2 if kv_len % BLOCK_N else 0
    # The kernel peels the first one with rows of 64 only. Pairs of an odd number of blocks have one beyond the last key; query
    # heads of a group have a first row block each.
    return 1 if width == 128 and seq_len == kv_len and kv_len % (2 * BLOCK_N) == 0 and group == 1 else 2
