"""Answer questions that the figures on speed raise.

The answers come from the records of the race.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ioaware.bench.race_record import Record
from ioaware.report.attention.race_rows import losses, widest_spread


def answers(race: Sequence[Record], flash_4: Sequence[Record]) -> Iterator[dict[str, str]]:
    """Yield questions with their answers.

    `flash_4` is the separate run beside flash-attn-4.
    """
    if not race:
        return
    yield _answer("Where do others win?", f"{_lost(race)}.")
    if flash_4:
        yield _answer("And flash-attn-4?", f"Raced in a separate run beside cuDNN. There others win: {_lost(flash_4).lower()}.")
    torch = str(race[0].environment.get("torch", "unknown"))
    absent = sorted({entry.name for record in race for entry in record.entries if entry.status == "absent"})
    yield _answer(
        "Which FlashAttention is “flash”?",
        f"The flash back end of scaled_dot_product_attention in torch {torch}, no other build. Not installed in this run: "
        f"{', '.join(absent) or 'none'}.",
    )
    yield _answer(
        "Why is d = 256 above the matmul's line?",
        "The line is no bound: a matmul of 8192³ at the same power limit, under which the clock falls with the work. Per clock "
        "the kernel stays below the tensor cores' 4,096 FLOP an SM.",
    )
    yield _answer(
        "How far do rounds differ?",
        f"Half the interquartile range of a time is at most {100 * widest_spread(race):.1f} % of its median, over all back "
        "ends and points; ratios are taken round by round.",
    )


def _answer(question: str, answer: str) -> dict[str, str]:
    return {"question": question, "answer": answer}


def _lost(race: Sequence[Record]) -> str:
    """Return at how many points another back end is faster, where, and by how much."""
    lost = losses(race)
    if not lost:
        return f"At none of {len(race)} points"
    places = sorted({f"{one.record.point.what}, d {one.record.point.head_dim}" for one in lost})
    return f"At {len(lost)} of {len(race)} points ({'; '.join(places)}), by up to {100 * (1 - lost[0].value):.1f} %"
