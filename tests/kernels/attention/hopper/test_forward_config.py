"""Plans of the Hopper forward kernel fit the GPU.

Each tile belongs to one CTA.

Integer division by multiplication is exact.
"""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ioaware.kernels.attention.hopper.forward_config import (
    FEW,
    LONG,
    MEDIUM,
    NUMBERS,
    PLANS,
    SHORT,
    WIDE,
    Plan,
    Tiling,
    division_is_exact,
    inverse_of,
)

SMS = 132


@pytest.mark.parametrize(
    ("head_dim", "seq_len", "batch_heads", "causal", "plan", "paired"),
    [
        (40, 512, 4, False, FEW, 0),
        (64, 512, 4, True, FEW, 0),
        (64, 512, 1024, False, SHORT, 0),
        (64, 512, 1024, True, SHORT, 768),
        (64, 1024, 512, True, SHORT, 0),
        (64, 2048, 256, False, LONG, 0),
        (64, 16384, 32, True, LONG, 26),
        (64, 16384, 256, True, SHORT, 248),
        (72, 4096, 64, True, MEDIUM, 48),
        (128, 16384, 16, True, MEDIUM, 12),
        (136, 2048, 33, True, WIDE, 0),  # at most four rounds
        (256, 4096, 32, True, WIDE, 24),
    ],
)
def test_the_plan_for_a_call(head_dim: int, seq_len: int, batch_heads: int, causal: bool, plan: Plan, paired: int) -> None:
    tiling = Tiling.of(head_dim, seq_len, batch_heads, SMS, causal=causal)
    assert (tiling.plan, tiling.paired) == (plan, paired)
    assert tiling.divisible


@pytest.mark.parametrize(
    ("seq_len", "kv_len", "causal", "masked", "halved"),
    [
        (512, 512, False, 0, False),
        (512, 500, False, 1, False),
        (300, 300, True, 1, True),
        (300, 428, True, 1, True),
        (300, 364, True, 1, False),
        (364, 300, True, 1, False),
        (300, 301, True, 2, False),
    ],
)
def test_number_of_masked_column_blocks(seq_len: int, kv_len: int, causal: bool, masked: int, halved: bool) -> None:
    """Column blocks of 64 rows with keys that a row does not see are counted, too.

    So are those with keys beyond the last key.
    """
    constants = MEDIUM.constants(seq_len, kv_len, causal=causal)
    assert (constants["MASKED"], constants["HALVED"]) == (masked, halved)
    most, first_half = 0, True
    for row in range(0, seq_len, 64):
        keys = [min(kv_len, max(0, r + 1 + kv_len - seq_len)) if causal else kv_len for r in range(row, row + 64)]
        blocks = -(-max(1, *keys) // 128)
        most = max(most, blocks - min(keys) // 128)
        first_half &= row % 128 != 0 or (max(1, *keys) - 1) % 128 < 64  # the keys that the first of two consumers sees there
    assert most == masked
    assert halved == (first_half and causal)


@pytest.mark.parametrize("plan", PLANS)
def test_registers_fit(plan: Plan) -> None:
    """64 K registers for 128 threads of each consumer and of the producer.

    The producer needs 24 a thread, or what an equal share leaves it.
    """
    warpgroups = plan.consumers + 1
    share = 65536 // (128 * warpgroups) // 8 * 8
    assert plan.consumers * plan.registers + 24 <= warpgroups * share


@pytest.mark.parametrize("paired", [None, 0, 2, 6])
@pytest.mark.parametrize("seq_len", [1, 128, 129, 384, 1000])
@pytest.mark.parametrize("programs", [1, 5, 24])
def test_every_tile_belongs_to_one_program(paired: int | None, seq_len: int, programs: int) -> None:
    batch, heads = 2, 3
    for plan in (FEW, LONG):
        blocks = -(-seq_len // plan.block_m)
        tiling = Tiling(plan, paired is not None, blocks, batch * heads, paired or 0)
        tiles = [tile for item in schedule(tiling, heads, programs) for tile in item]
        assert sorted(tiles) == [(b, h, block) for b in range(batch) for h in range(heads) for block in range(blocks)]


@pytest.mark.parametrize("head_dim", [128, 256])
@pytest.mark.parametrize("seq_len", [2048, 4096, 8192, 16384])
def test_programs_have_balanced_work(head_dim: int, seq_len: int) -> None:
    """The largest program has at most 1 % more column blocks than the mean.

    This is at 16,384 tokens.

    Start and end of a tile count as one more block.
    """
    heads = 2048 // head_dim
    tiling = Tiling.of(head_dim, seq_len, 16384 // seq_len * heads, SMS, causal=True)
    work = [sum(block + 2 for _, _, block in tiles) for tiles in schedule(tiling, heads, SMS)]
    assert max(work) <= 1.01 * sum(work) / SMS


def schedule(tiling: Tiling, heads: int, programs: int) -> list[list[tuple[int, int, int]]]:
    """Return batch, head and row block of each program's tiles.

    This is the kernel's tile scheduler in Python.
    """
    blocks, pairs = tiling.blocks, tiling.items_per_head * tiling.paired
    programs = min(programs, tiling.work_items)

    def divide(n: int, d: int) -> int:
        return (4 * n * inverse_of(d)) >> 32

    def place(item: int, second: int) -> tuple[int, int, int]:
        batch_head = divide(item, tiling.items_per_head)
        block = item - batch_head * tiling.items_per_head
        if tiling.causal:
            block = block - blocks % 2 if second else blocks - 1 - block
            block = blocks if block < 0 else block
            if item >= pairs:
                shorter = divide(item - pairs, tiling.others)
                batch_head = tiling.paired + item - pairs - shorter * tiling.others
                block = blocks - 1 - shorter
        batch = divide(batch_head, heads)
        return batch, batch_head - batch * heads, block

    found: list[list[tuple[int, int, int]]] = []
    for program in range(programs):

        def position(r: int, program: int = program) -> int:
            return program if r % 2 == 0 else programs - 1 - program

        rounds, left = divmod(tiling.work_items, programs)
        items = [r * programs + position(r) for r in range(rounds + (position(rounds) < left))]
        places = [place(item, second) for item in items for second in range(2 if tiling.causal and item < pairs else 1)]
        found.append([tile for tile in places if tile[2] < blocks])
    return found


@settings(derandomize=True, deadline=None)
@given(d=st.integers(1, 2**20), part=st.floats(0, 1))
@example(d=1, part=1)
@example(d=46341, part=1)
def test_division_by_multiplication_is_exact_where_it_is_used(d: int, part: float) -> None:
    slack = d * inverse_of(d) - NUMBERS
    most = NUMBERS if slack == 0 else min(NUMBERS, -(-NUMBERS // slack))  # the largest bound that `division_is_exact` accepts
    while not division_is_exact(most, d):
        most -= 1
    for n in (most - 1, int(part * (most - 1)), (most - 1) // d * d, max(0, (most - 1) // d * d - 1)):
        assert 4 * n < 2**32
        assert (4 * n * inverse_of(d)) >> 32 == n // d


def test_indices_beyond_exact_division_are_detected() -> None:
    assert division_is_exact(8192 * 32, 8192)
    assert not division_is_exact(NUMBERS // 2, 46337)
    assert not Tiling(MEDIUM, False, 46337, 46337, 0).divisible
    assert not Tiling(MEDIUM, True, 46337, 46337, 0).divisible
    assert not Tiling(MEDIUM, True, 2 * 46337, 46337, 46337).divisible
    assert inverse_of(1) < 2**31  # an int32
