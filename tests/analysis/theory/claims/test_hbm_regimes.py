"""Regimes in which bytes at HBM follow requests."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ioaware.analysis.theory.claims.evidence import Observation
from ioaware.analysis.theory.claims.hbm_regimes import judge_hbm, swept_bytes
from ioaware.result import Result, Traffic
from ioaware.sweep.claim_evidence import gather, observe
from ioaware.sweep.points import make_point

BEYOND, WITHIN = {"seq_len": 8192, "heads": 64, "head_dim": 64}, {"seq_len": 512, "heads": 8, "head_dim": 64}


def seen(target: str, params: dict[str, int], share: float) -> Observation:
    """Return a measurement with this share of its requested reads at HBM."""
    return observe(
        Result(
            "measure",
            target,
            make_point("measure", target, params).params,
            requested=Traffic(10**9, 1),
            hbm=Traffic(int(share * 10**9), 1),
        )
    )


def test_the_records_of_an_h200_show_every_regime() -> None:
    parts = list(judge_hbm(gather([]).measured("flash1", "flash2")))
    assert [part.verdict for part in parts] == ["holds"] * 4
    assert all(part.points >= 5 for part in parts)


def test_a_row_is_as_far_apart_as_the_rows_of_all_heads() -> None:
    row_bytes = 2 * 64 * 2 + 8
    assert swept_bytes(seen("flash1", BEYOND, 1)) == (64 * 8192 * row_bytes,) * 2
    many = seen("flash1", BEYOND | {"heads": 1000}, 1)
    assert swept_bytes(many) == (132 * 8192 * row_bytes, 1000 * 8192 * row_bytes)


@pytest.mark.parametrize(
    ("params", "share", "verdict"), [(BEYOND, 0.99, "holds"), (BEYOND, 0.9, "fails"), (WITHIN, 0.9, "fails")]
)
def test_flash1_follows_beyond_the_l2_alone(params: dict[str, int], share: float, verdict: str) -> None:
    (part,) = judge_hbm([seen("flash1", params, share)])
    assert part.verdict == verdict


def test_masked_problems_and_other_orders_are_left_out() -> None:
    one = seen("flash1", BEYOND, 0.5)
    causal = replace(one, observed=replace(one.observed, params={**one.observed.params, "causal": True}))
    ordered = replace(one, observed=replace(one.observed, params={**one.observed.params, "order": "row_sawtooth"}))
    assert list(judge_hbm([causal, ordered])) == []
