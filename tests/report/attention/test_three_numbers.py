"""The three numbers are computed from the shipped records.

They are the same wherever they are quoted.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace

import pytest

from ioaware.report.attention.agreement_figure import agreement_figure
from ioaware.report.attention.recorded_bytes import Records, compared, shipped, totals, unpredicted
from ioaware.report.attention.three_numbers import agreement, three_numbers
from ioaware.simulation.accuracy_record.recorded_accuracy import recorded_accuracy
from ioaware.simulation.predictions import RECORDED, measured_points
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
    assert found.kernels == len({(one.target, one.kernel) for one in totals(records)})
    assert f"totals of {found.kernels} third-party kernels" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_a_sector_more_is_noticed(records: Records) -> None:
    first = records.third_party[0]
    launch = first.launches[0]
    name = next(name for name in launch.counters or {} if name.endswith("global_op_ld.sum") and "t_sectors" in name)
    changed = replace(launch, counters={**(launch.counters or {}), name: (launch.counters or {})[name] + 1})
    wrong = replace(records, third_party=[replace(first, launches=(changed, *first.launches[1:])), *records.third_party[1:]])
    before, after = agreement(records), agreement(wrong)
    assert (after.equal_totals, after.totals) == (before.equal_totals - 1, before.totals)


def test_the_numbers_of_the_page_are_those_of_the_command(records: Records) -> None:
    found = replace(recorded_accuracy(measured_points()), again=())
    assert found.rows == records.accuracy().rows
    assert agreement(records).hbm in found.rows


def test_a_point_of_other_kernels_or_without_a_derivation_has_no_totals(records: Records) -> None:
    first, *rest = records.third_party
    other = replace(first, launches=(replace(first.launches[0], kernel="another"), *first.launches[1:]))
    for changed in (replace(records, third_party=[other, *rest]), replace(records, derived=records.derived[1:])):
        assert agreement(changed).totals < agreement(records).totals
    uncounted = replace(first, launches=tuple(replace(one, counters=None) for one in first.launches))
    assert agreement(replace(records, third_party=[uncounted, *rest])).totals < agreement(records).totals


def test_every_measured_point_is_in_the_picture(records: Records) -> None:
    points = compared(records)
    kinds = Counter(one.kind for one in points)
    apart = "repeated", "l1"  # the same points once more, and probes
    paths = (path for path in RECORDED.rglob("*.jsonl") if path.parent.name not in apart)
    lines = (line for path in paths for line in path.read_text(encoding="utf-8").splitlines())
    files = sum('"source":"measure"' in line[:40].replace(" ", "") and '"failed"' not in line for line in lines)
    assert files == len(records.measured) == len({one.point for one in points}) + unpredicted(records, points)
    assert kinds["HBM, steady state"] == len(records.steady) > 100
    own = sum(one.source == "measure" for one in (*records.own, *records.systems))
    assert kinds["requested"] >= own + len(records.steady)
    assert sum(one.counted for one in totals(records)) == sum(
        one.measured for one in points if one.kind == "requested, third-party"
    )
    upper = agreement_figure(points).cells[0].panels[0]
    assert f"All {files} points" in agreement_figure(points, unpredicted(records, points)).caption
    assert sum(len(series.x) for series in upper.series if series.mark == "measure") == len(points)
    assert all("\n" in text and "predicted" in text for series in upper.series for text in series.hover)
