"""The recorded runs of tests/benchmarks on an H200, and the page on them."""

from __future__ import annotations

import math
from collections import Counter

from ioaware.cases import CASES
from ioaware.gate.measured.comparison import compare_runs
from ioaware.gate.measured.json_results import json_results
from ioaware.prediction import predict
from ioaware.result import Result
from tests.benchmarks.test_cases import SIZES
from tests.support import ROOT

RECORDED = ROOT / "ioaware" / "recorded" / "benchmarks"
PAGE = ROOT / "docs" / "results" / "gpu-benchmarks.md"


def run(name: str) -> dict[str, Result]:
    return {one.target.partition("[")[2].rstrip("]"): one for one in json_results(RECORDED / f"h200-{name}.json")}


def test_the_page_counts_what_is_recorded() -> None:
    first, second = run("first"), run("second")
    both = [case for case in CASES if case in first and case in second]
    found = compare_runs([first[case] for case in both], [second[case] for case in both])
    counts = Counter(str(one.time_verdict) for one in found.points)
    said = (
        f"The first run has {len(first)} of {len(CASES)} cases, the second {len(second)}, both have {len(both)}: "
        f"{counts['SAME']} SAME, {counts['UNSURE']} UNSURE, {counts['BETTER']} BETTER, {counts['WORSE']} WORSE"
    )
    assert said in " ".join(PAGE.read_text().split())
    assert all(str(one.bytes_verdict) == "SAME" for one in found.points)
    rows = PAGE.read_text().splitlines()
    for case in both:
        times = [run[case].timing for run in (first, second)]
        assert all(times)
        one, other = (time.median_ns / 1000 for time in times if time)
        assert f"| {case} | {one:,.1f} | {other:,.1f} | {100 * (other / one - 1):+.1f} % |" in rows


def test_the_runs_are_of_one_machine_and_commit_and_of_the_bytes_predicted() -> None:
    first, second = run("first"), run("second")
    (environment,) = {tuple(sorted((one.environment or {}).items())) for one in (*first.values(), *second.values())}
    assert dict(environment)["gpu"] == "NVIDIA H200"
    assert "commit" in dict(environment)
    for case, one in {**first, **second}.items():
        given = {param.name: int(SIZES[param.name]) for param in CASES[case].params if param.name in SIZES}
        moved = predict(case, **given).requested
        assert moved is not None
        assert one.requested is not None
        assert (one.requested.read_bytes, one.requested.write_bytes) == (moved.read_bytes, moved.write_bytes)
        assert one.timing is not None
        assert 0 < one.timing.median_ns < math.inf
