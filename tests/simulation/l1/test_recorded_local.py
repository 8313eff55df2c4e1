"""Words of local memory that warps use again, as an H200 counted them."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

import numpy as np
import pytest

from ioaware.simulation.l1.l1_sets import FIRST, LAST_USE, NORMAL, STORED, WAYS, WHOLE, add_served_sectors
from ioaware.simulation.l1.l1_shape import LINE_BYTES, LINE_SECTORS

USES = {"S": STORED, "R": NORMAL, "L": LAST_USE, "G": NORMAL, "E": FIRST}
OTHERS = {"v4, evict_first": FIRST, "stored v4": STORED}
SMS = 132
SHARED = "u16", "u16 of 16 bytes"
"""Loads of which several instructions touch a line."""


def launches(phases: str, *, alone: bool = False) -> list[dict[str, Any]]:
    text = (files("ioaware") / "recorded" / "l1" / "h200-local.json").read_text()
    found = [one for one in json.loads(text)["launches"] if one["phases"] == phases and (one["other_bytes"] == 0) == alone]
    return [one for one in found if one["programs"] == 1 or not alone]


def missed(one: dict[str, Any]) -> tuple[float, float]:
    """Return how often a word misses, counted and by the model.

    All warps of an SM run in step.
    """
    warps, words, lines = one["warps"] * one["programs"], one["words"], one["other_bytes"] // LINE_BYTES
    capacity = (256 << 10) - int(one["config_bytes"])
    sets, warp, word = capacity // (LINE_BYTES * WAYS), np.arange(warps), np.arange(words)
    own = (((1 << 22) + 7 * warp[None, :]) * sets + word[:, None]).ravel()
    program, place = np.divmod(warp, one["warps"])
    begin = (program * SMS * one["warps"] + place) * (words + lines * one["phases"].count("T"))
    streamed = 0
    columns: list[tuple[np.ndarray, int, int]] = []
    for phase in one["phases"].split():
        if phase == "T":
            streams = begin[None, :] + words + streamed + np.arange(lines)[:, None]
            streamed += lines
            shared = WHOLE if one["other"] in SHARED else 0
            columns.append((streams.ravel(), OTHERS.get(one["other"], NORMAL), shared))
        else:
            at = (begin[None, :] + word[:, None]).ravel() if phase in "GE" else own
            columns.append((at, USES[phase], 0))
    line, use, again, number = (
        np.concatenate(each)
        for each in zip(
            *(
                (at, np.full(at.size, use), np.full(at.size, again), np.full(at.size, n))
                for n, (at, use, again) in enumerate(columns)
            ),
            strict=True,
        )
    )
    served = np.zeros(len(columns), dtype=np.int64)
    whole = np.full(line.size, (1 << LINE_SECTORS) - 1, dtype=np.uint64)
    kinds = line, np.ones_like(line), whole, number.astype(np.int64), use.astype(np.int8), again.astype(np.int16)
    add_served_sectors(served, capacity, *kinds)
    loads = [n for n, phase in enumerate(one["phases"].split()) if phase in "RLGE"]
    accessed = LINE_SECTORS * words * warps
    hits = one["global_hits" if "G" in one["phases"] else "local_hits"] / SMS
    return len(loads) - hits / accessed, len(loads) - served[loads].sum() / accessed


@pytest.mark.parametrize(
    ("phases", "most"),
    [
        ("S T R", 0.06),
        ("S T L", 0.05),
        ("S S T R", 0.05),
        ("S R T R", 0.05),
        ("S L S T R", 0.05),
        ("S L S T L", 0.05),
        ("S L T R", 0.08),
        ("S S L T R", 0.08),
        ("G G T G", 0.04),
        ("G E T G", 0.08),
        ("G G E T G", 0.08),
    ],
)
def test_an_l1_keeps_as_many_words_as_was_counted(phases: str, most: float) -> None:
    """Stores (S), loads (R), last loads (L) and other memory (T).

    Global memory is loaded in G, and with `evict_first` in E.
    """
    errors = [abs(counted - modelled) for counted, modelled in map(missed, launches(phases))]
    assert len(errors) >= 12
    assert sum(errors) / len(errors) < most


@pytest.mark.parametrize(("phases", "most"), [("S L", 0.04), ("S R", 0.13)])
def test_words_alone_hit_as_was_counted(phases: str, most: float) -> None:
    errors = [abs(counted - modelled) for counted, modelled in map(missed, launches(phases, alone=True))]
    assert len(errors) == 32
    assert sum(errors) / len(errors) < most
