"""The three numbers are computed from the shipped records.

They are the same wherever they are quoted.
"""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from ioaware.report.attention.agreement_figure import agreement_figure
from ioaware.report.attention.recorded_bytes import Records, compared, shipped, totals
from ioaware.report.attention.three_numbers import agreement, three_numbers
from tests.support import ROOT


@pytest.fixture(scope="module")
def records() -> Records:
    return shipped()


def test_every_page_quotes_the_same_numbers(records: Records) -> None:
    found = agreement(records)
    values = [number["value"] for number in three_numbers(found)]
    for name in ("README.md", "docs/results/agreement.md", "reports/h200/report.html"):
        text = re.sub(r"\s+", " ", (ROOT / name).read_text(encoding="utf-8"))
        assert [value for value in values if value not in text] == [], name
    assert found.worst_clear <= 1e-5


def test_a_sector_more_is_noticed(records: Records) -> None:
    first = records.third_party[0]
    launch = first.launches[0]
    name = next(name for name in launch.counters or {} if name.endswith("global_op_ld.sum") and "t_sectors" in name)
    changed = replace(launch, counters={**(launch.counters or {}), name: (launch.counters or {})[name] + 1})
    wrong = replace(records, third_party=[replace(first, launches=(changed, *first.launches[1:])), *records.third_party[1:]])
    before, after = agreement(records), agreement(wrong)
    assert (after.equal_totals, after.totals) == (before.equal_totals - 1, before.totals)


def test_every_measured_point_is_in_the_picture(records: Records) -> None:
    points = compared(records)
    own = sum(one.source == "measure" for one in (*records.own, *records.systems))
    assert sum(one.kind == "requested" for one in points) == own
    assert sum(one.kind == "requested, third-party" for one in points) == len(records.third_party)
    assert sum(one.kind == "HBM, third-party" for one in points) == len(records.third_party)
    assert all(one.predicted == one.measured for one in points if one.kind == "requested, third-party")
    assert sum(one.counted for one in totals(records)) == sum(
        one.measured for one in points if one.kind == "requested, third-party"
    )
    upper = agreement_figure(points).cells[0].panels[0]
    assert sum(len(series.x) for series in upper.series if series.mark == "measure") == len(points)
    assert all("\n" in text and "predicted" in text for series in upper.series for text in series.hover)
