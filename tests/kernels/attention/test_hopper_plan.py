"""Plans fit the GPU they are for, every tile is dealt to one program, and division by multiplication is division."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ioaware.kernels.attention.hopper_plan import (
    FEW,
    LONG,
    MEDIUM,
    NUMBERS,
    PLANS,
    SHORT,
    WIDE,
    Order,
    Plan,
    Tiling,
    divides,
    inverse_of,
)

SMS = 132


@pytest.mark.parametrize(
    ("head_dim", "seq_len", "batch_heads", "causal", "plan", "order"),
    [
        (40, 512, 4, False, FEW, "in turn"),
        (64, 512, 4, True, FEW, "by length"),
        (64, 512, 1024, False, SHORT, "in turn"),
        (64, 512, 1024, True, SHORT, "by length"),
        (64, 2048, 256, False, LONG, "in turn"),
        (64, 16384, 32, True, LONG, "by length"),
        (64, 16384, 256, True, SHORT, "by length"),  # each head is one program's: K and V need its 256 rows
        (72, 4096, 64, True, MEDIUM, "in pairs"),
        (128, 16384, 16, True, MEDIUM, "by length"),
        (136, 2048, 64, True, WIDE, "in pairs"),
        (256, 4096, 32, True, WIDE, "by length"),
    ],
)
def test_the_plan_for_a_call(head_dim: int, seq_len: int, batch_heads: int, causal: bool, plan: Plan, order: Order) -> None:
    tiling = Tiling.of(head_dim, seq_len, batch_heads, SMS, causal=causal)
    assert (tiling.plan, tiling.order) == (plan, order)
    assert tiling.divisible


@pytest.mark.parametrize("plan", PLANS)
def test_registers_are_there(plan: Plan) -> None:
    """64 K for 128 threads of each consumer and of the producer, who needs 24, or what a fair share leaves it."""
    warpgroups = plan.consumers + 1
    share = 65536 // (128 * warpgroups) // 8 * 8
    assert plan.consumers * plan.registers + 24 <= warpgroups * share


@pytest.mark.parametrize("order", ["in turn", "in pairs", "by length"])
@pytest.mark.parametrize("seq_len", [1, 128, 129, 384, 1000])
@pytest.mark.parametrize("programs", [1, 5, 24])
def test_every_tile_is_one_programs(order: Order, seq_len: int, programs: int) -> None:
    batch, heads = 2, 3
    for plan in (FEW, LONG):
        blocks = -(-seq_len // plan.block_m)
        run, runs = {"in turn": (blocks, 6), "in pairs": (-(-blocks // 2), 6), "by length": (6, blocks)}[order]
        tiles = dealt(Tiling(plan, order, run, runs), seq_len, batch, heads, programs)
        assert sorted(tiles) == [(b, h, block) for b in range(batch) for h in range(heads) for block in range(blocks)]


def dealt(tiling: Tiling, seq_len: int, batch: int, heads: int, programs: int) -> list[tuple[int, int, int]]:
    """hopper_order's tiles_of_program and place_of, in Python: batch, head and row block of each tile that has rows."""
    blocks = -(-seq_len // tiling.plan.block_m)
    numbers = tiling.run * tiling.runs
    programs = min(programs, numbers)

    def divided(n: int, d: int) -> int:
        return (4 * n * inverse_of(d)) >> 32

    found: list[tuple[int, int, int]] = []
    for program in range(programs):

        def seat(t: int, program: int = program) -> int:
            return program if t % 2 == 0 else programs - 1 - program

        count = -(-(numbers - program) // programs)
        if tiling.order == "by length":
            rounds, left = divmod(numbers, programs)
            count = rounds + (seat(rounds) < left)
        elif tiling.order == "in pairs":
            count *= 2
        for t in range(count):
            number = t * programs + program
            if tiling.order == "by length":
                number = t * programs + seat(t)
                shorter = divided(number, tiling.run)
                batch_head, block = number - shorter * tiling.run, blocks - 1 - shorter
            elif tiling.order == "in pairs":
                number = t // 2 * programs + program
                batch_head = divided(number, tiling.run)
                pair = number - batch_head * tiling.run
                block = blocks - 1 - pair
                if t % 2 == 1:
                    block = pair if pair < block else blocks
            else:
                batch_head = divided(number, tiling.run)
                block = number - batch_head * tiling.run
            if block < blocks:
                sample = divided(batch_head, heads)
                found.append((sample, batch_head - sample * heads, block))
    return found


@settings(derandomize=True, deadline=None)
@given(d=st.integers(1, 2**20), part=st.floats(0, 1))
@example(d=1, part=1)
@example(d=46341, part=1)
def test_where_it_divides_it_divides_exactly(d: int, part: float) -> None:
    slack = d * inverse_of(d) - NUMBERS
    most = NUMBERS if slack == 0 else min(NUMBERS, -(-NUMBERS // slack))  # the most numbers for which `divides` says yes
    while not divides(most, d):
        most -= 1
    for n in (most - 1, int(part * (most - 1)), (most - 1) // d * d, max(0, (most - 1) // d * d - 1)):
        assert 4 * n < 2**32
        assert (4 * n * inverse_of(d)) >> 32 == n // d


def test_what_cannot_be_numbered_is_seen() -> None:
    assert divides(8192 * 32, 8192)
    assert not divides(NUMBERS // 2, 46337)
    assert not Tiling(MEDIUM, "in turn", 46337, 46337).divisible
    assert inverse_of(1) < 2**31  # an int32
