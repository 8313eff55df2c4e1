"""How the fused Hopper backward kernel works on attention of given sizes: its blocks, and how they are dealt. Pure numbers."""

from __future__ import annotations

from dataclasses import dataclass

from ioaware.kernels.attention.hopper_plan import padded_head_dim

FUSED_ROWS = {64: 128, 128: 64}
"""Rows of a block in the fused kernel, for each padded head_dim that it has registers for."""
BLOCK_N = 128
"""Keys of a column block."""
PIECE = 64 * 64
"""Numbers in a piece of dQ's sums, 64 rows by 64 columns."""
BY_LENGTH = 31 / 16
"""So many rounds of causal column blocks are dealt by length, the last ones, and even out what pairs before them left uneven.
A little less than whole rounds: the last one, which is not full, has the shortest."""
WHOLE_BLOCKS, KEPT_BYTES = 4, 33 * 2**20
"""A program works on whole heads of so many column blocks at most, where the L2 keeps what is visited again for the next one:
of all programs' heads Q, dO and dQ's float32 sums, half of these where causal."""


@dataclass(frozen=True, slots=True)
class BackwardTiling:
    """The plan of one call: column blocks of `paired` key heads in pairs where causal, or whole key heads."""

    causal: bool
    block_m: int
    row_blocks: int
    blocks: int
    batch_heads: int
    masked: int
    whole: bool
    paired: int
    sums_shape: tuple[int, int]
    """Of dQ's sums: query heads, of all or of one key head for each program, and numbers of each."""

    @staticmethod
    def of(
        head_dim: int, seq_len: int, kv_len: int, group: int, batch_heads: int, processors: int, *, causal: bool
    ) -> BackwardTiling:
        """The fastest measured at 16,384 tokens on 132 processors (docs/hopper-attention.md). batch_heads counts key heads,
        each of `group` query heads."""
        width = padded_head_dim(head_dim)
        blocks = -(-kv_len // BLOCK_N)
        paired = 0
        if causal and blocks * batch_heads > 4 * processors:
            paired = batch_heads - -(-int(BY_LENGTH * processors) // blocks)
        whole = (
            blocks <= WHOLE_BLOCKS
            and 8 * seq_len * group * width * processors <= (2 if causal else 1) * KEPT_BYTES
            and batch_heads >= 0.9 * processors * -(-batch_heads // processors)
            and (kv_len >= seq_len or not causal)  # the first column block meets all rows
        )
        block_m = FUSED_ROWS[width]
        row_blocks = -(-seq_len // block_m)
        return BackwardTiling(
            causal=causal,
            block_m=block_m,
            row_blocks=row_blocks,
            blocks=blocks,
            batch_heads=batch_heads,
            masked=masked_row_blocks(width, seq_len, kv_len, group, causal=causal),
            whole=whole,
            paired=paired,
            sums_shape=(group * (min(batch_heads, processors) if whole else batch_heads), row_blocks * block_m * width),
        )

    @property
    def pairs(self) -> int:
        """Of a head's column blocks, rounded up."""
        return -(-self.blocks // 2)

    @property
    def deal(self) -> tuple[int, int, int, int, int]:
        """The kernel's parameters row_blocks, blocks, pairs, paired and others."""
        return self.row_blocks, self.blocks, self.pairs, self.paired, self.batch_heads - self.paired

    @property
    def hands(self) -> int:
        """What programs are dealt: heads, pairs of column blocks, column blocks."""
        if self.whole:
            return self.batch_heads
        return self.pairs * self.paired + self.blocks * (self.batch_heads - self.paired)  # in full: paired is 0

    @property
    def constants(self) -> dict[str, int]:
        """The kernel's compile-time parameters that depend on sizes."""
        return {"CAUSAL": self.causal, "MASKED": self.masked, "WHOLE": self.whole, "BLOCK_M": self.block_m}


def masked_row_blocks(width: int, seq_len: int, kv_len: int, group: int, *, causal: bool) -> int:
    """Which of a column block's row blocks may have rows that do not see all of its keys: none, the first of each consumer's
    64 keys (1), any (2)."""
    if not causal:
        return 2 if kv_len % BLOCK_N else 0
    # The kernel knows the first one with rows of 64 only. Pairs of an odd number of blocks have one beyond the last key; query
    # heads of a group have a first row block each.
    return 1 if width == 128 and seq_len == kv_len and kv_len % (2 * BLOCK_N) == 0 and group == 1 else 2
