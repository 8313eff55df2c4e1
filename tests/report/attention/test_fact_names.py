"""Facts of records in words and units."""

from __future__ import annotations

import json

import pytest

from ioaware.report.attention.fact_names import FACTS, WORDS, fact_text, fact_words
from ioaware.report.attention.text_rows import environment_rows, telemetry
from ioaware.result import Result
from tests.support import ROOT


@pytest.mark.parametrize(
    ("name", "value", "words", "text"),
    [
        ("power_limit_mw", 700_000, "power limit", "700 W"),
        ("peak_hbm_bytes_per_s", 4_814_304_000_000, "peak rate of HBM", "4.814 TB/s"),
        ("ecc", True, "ECC", "on"),
        ("cudnn", 91_900, "cuDNN", "9.19.0"),
        ("torch", "2.11.0", "PyTorch", "2.11.0"),
        ("window.seconds", 0.5, "measured window", "500 ms"),
        ("gpm.sm_activity", 0.9, "share of the SMs that is busy (GPM)", "90 %"),
        (
            "after.throttle_bits",
            0x4 | 0x20,
            "why clocks are lower, after the window",
            "software power cap, software thermal slowdown",
        ),
        ("after.throttle_bits", 0, "why clocks are lower, after the window", "none"),
        ("unheard_of", 3, "unheard_of", "3"),
    ],
)
def test_a_fact_has_words_and_a_unit(name: str, value: object, words: str, text: str) -> None:
    assert (fact_words(name), fact_text(name, value)) == (words, text)


def test_tables_have_no_raw_name_of_a_known_fact() -> None:
    rows = environment_rows([{"power_limit_mw": 700_000, "gpu": "a GPU"}])
    assert rows == [("power limit", "700 W"), ("GPU", "a GPU")]
    one = Result("measure", "t", {}, telemetry={"before": {"power_mw": 131_576}})
    assert telemetry([one]) == [("power, before the window", "131.6 W", "131.6 W", "131.6 W", 1)]


def test_every_recorded_fact_has_words() -> None:
    """A name with an underscore is one that a reader has to guess."""
    lines = [path.read_text().splitlines()[0] for path in (ROOT / "ioaware/recorded").glob("h200-*.jsonl")]
    seen = {name for line in lines for name in json.loads(line).get("environment") or {}}
    assert len(seen) > 5
    assert {name for name in seen if "_" in name} - FACTS.keys() - WORDS.keys() == set()
