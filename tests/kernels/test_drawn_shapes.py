"""Traced bytes equal the closed forms at 200 shapes that Hypothesis draws.

Lengths are 1 to 1024 and heads 16 to 128, so that most tiles are ragged. Each part has a seed of its own, and takes a minute
or less; two workers of pytest-xdist share the parts.
"""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from ioaware.result import ParamValue
from tests.support.agreement import assert_agreement

PARTS, SHAPES_PER_PART, TRACED_TWICE = 10, 20, 0
CASES = ("standard", "flash1", "flash2")
SHAPES = st.fixed_dictionaries(
    {
        "batch": st.just(1),
        "heads": st.just(1),
        "seq_len": st.integers(1, 1024),
        "kv_len": st.none() | st.integers(1, 1024),
        "head_dim": st.integers(16, 128),
        "causal": st.booleans(),
        "dtype": st.sampled_from(["float16", "float32"]),
    }
)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_traced_equals_predicted(part: int) -> None:
    tried = 0

    @seed(part)
    @settings(
        max_examples=SHAPES_PER_PART,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=[*HealthCheck],
    )
    @given(case=st.sampled_from(CASES), params=SHAPES)
    def agrees(case: str, params: dict[str, ParamValue]) -> None:
        nonlocal tried
        tried += 1
        traced = assert_agreement(case, params)
        if part == TRACED_TWICE:
            assert assert_agreement(case, params) == traced

    agrees()
    assert tried == SHAPES_PER_PART
