"""List the tests that are too long for `make test`, from times that it measured.

    make test PYTEST_ARGS=--junitxml=times.xml
    python -m scripts.long_tests times.xml

Of several reports each test's shortest time counts, as the first test of a process also imports libraries. It adds to
`tests/long_tests.txt`; a test that is no longer long is taken out by hand. One test of each file stays, the quickest.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from xml.etree import ElementTree

from tests.tiers import LONG_TESTS, long_tests

LIMIT_S = 0.4


def longest_s(report: Path) -> dict[str, dict[str, float]]:
    """Return how long the longest case of each test took, by file and name."""
    found: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for case in ElementTree.parse(report).iter("testcase"):  # noqa: S314 - pytest's own file
        if name := case.get("classname"):
            file, test = f"{name.replace('.', '/')}.py", str(case.get("name")).partition("[")[0]
            found[file][test] = max(found[file][test], float(str(case.get("time"))))
    return found


def too_long(times_s: Mapping[str, Mapping[str, float]]) -> set[str]:
    """Return the node ids, without cases, of tests beyond the limit."""
    return {
        f"{file}::{test}"
        for file, tests in times_s.items()
        for test, time_s in tests.items()
        if time_s > LIMIT_S and test != min(tests, key=lambda test: (tests[test], test))
    }


def main() -> None:
    """Add what a report of pytest shows to the list."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("reports", type=Path, nargs="+", help="JUnit XML of the default tests")
    reports = [longest_s(report) for report in parser.parse_args().reports]
    times_s = {
        file: {test: min(report.get(file, {}).get(test, time_s) for report in reports) for test, time_s in tests.items()}
        for file, tests in reports[0].items()
    }
    listed = long_tests() | too_long(times_s)
    LONG_TESTS.write_text("".join(f"{test}\n" for test in sorted(listed)), encoding="utf-8")


if __name__ == "__main__":
    main()
