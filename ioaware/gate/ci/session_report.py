"""Collect the calls of a pytest session, and write what CI shows of them.

That is a job summary, annotations, JUnit properties and results. A report of pytest carries the calls of its test, so that
the process that reports has those of all workers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ioaware.display.units import times_text
from ioaware.gate.ci.annotations import error_annotations, workspace_of
from ioaware.gate.ci.job_summary import Table, job_summary_file, write_summary
from ioaware.gate.ci.outcome import FAILED, OPEN, SKIPPED, Outcome, outcome_of, worst_first
from ioaware.gate.verdict import Verdict

COLUMNS = ("verdict", "test", "call", "reads", "writes", "bytes", "vs compulsory", "why")
ATTACHED = "traffic_outcomes"
"""The attribute of a report, which pytest-xdist passes on."""


@dataclass(slots=True)
class TestCalls:
    """The calls of one test while it runs, and how its phases ended."""

    test: str
    path: str
    line: int
    outcomes: list[Outcome] = field(default_factory=list[Outcome])
    failure: str = ""
    skipped: bool = False

    def finished(self) -> list[Outcome]:
        """Return the calls, with one more where they do not show how the test ended.

        So it is where the test failed and each of them holds, and where it was skipped.
        """
        for one in self.outcomes:
            if one.verdict == OPEN and not self.skipped:
                one.reason = one.reason or "compared with nothing"
        if self.failure and all(one.passes for one in self.outcomes):
            return [*self.outcomes, self._other(FAILED, self.failure)]
        return self.outcomes or ([self._other(SKIPPED, "")] if self.skipped else [])

    def _other(self, verdict: str, text: str) -> Outcome:
        first = text.strip().partition("\n")[0]
        return Outcome(self.test, path=self.path, line=self.line, verdict=verdict, reason=first, message=text)


def properties(outcomes: Sequence[Outcome]) -> Iterator[tuple[str, str]]:
    """Yield the JUnit properties of a test's calls.

    The first has `traffic.bytes`, the second `traffic.2.bytes`.
    """
    for number, one in enumerate(outcomes, 1):
        prefix = "traffic" if number == 1 else f"traffic.{number}"
        ratio = one.vs_compulsory
        values = {
            "target": one.target,
            "verdict": one.verdict,
            "reads": one.reads,
            "writes": one.writes,
            "point": one.point,
            "bytes": None if one.bytes is None else str(one.bytes),
            "vs_compulsory": None if ratio is None else f"{ratio:.4g}",
        }
        yield from ((f"{prefix}.{name}", value) for name, value in values.items() if value)


class SessionReport:
    """The calls of all tests of a session, by test.

    A test that runs again replaces its calls. One that was seen to move more stays blocked: exact bytes do not vary.
    """

    def __init__(self, root: Path, summary: Path | None, results: Path | None) -> None:
        self._root, self._summary, self._results = root, summary, results
        self._calls: dict[str, list[Outcome]] = {}
        self._grown: set[str] = set()

    def add(self, report: object) -> None:
        """Add the calls that a report carries, if it does."""
        attached: Sequence[Mapping[str, Any]] | None = getattr(report, ATTACHED, None)
        if attached is not None:
            test, calls = str(getattr(report, "nodeid", "")), [outcome_of(one) for one in attached]
            self._calls[test] = calls
            if any(one.verdict in (Verdict.WORSE, Verdict.GROWTH) for one in calls):
                self._grown.add(test)

    @property
    def outcomes(self) -> list[Outcome]:
        """Return the calls, the worst first."""
        return worst_first(one for calls in self._calls.values() for one in calls)

    @property
    def tests(self) -> set[str]:
        """Return the tests that called `traffic(...)`."""
        return {test for test, calls in self._calls.items() if calls}

    @property
    def blocked(self) -> set[str]:
        """Return the tests with a call whose verdict fails a build."""
        now = {test for test, calls in self._calls.items() if any(one.blocks and one.verdict != OPEN for one in calls)}
        return now | self._grown

    def write(self, exit_code: int, problems: Sequence[str], *, always: bool) -> None:
        """Write the job summary and the results, if requested. Raises `WriteError`."""
        outcomes = self.outcomes
        if self._results:
            from ioaware.gate.ci.results_file import write_results  # its JSON and commit are needed only here

            write_results(self._results, self._root, outcomes, exit_code)
        path = job_summary_file(self._summary)
        if path and (self._summary or always or outcomes):
            blocking = sum(one.blocks for one in outcomes)
            table = Table(COLUMNS, [_cells(one) for one in outcomes], blocking)
            write_summary(path, _title(len(outcomes), blocking, exit_code), problems, table)

    def annotations(self) -> Iterator[str]:
        """Yield an annotation for each call that fails the build, within GitHub's limit."""
        return error_annotations(self.outcomes, workspace_of(self._root))


def _title(count: int, blocking: int, exit_code: int) -> str:
    calls = f"{count:,} call{'' if count == 1 else 's'}"
    if blocking:
        return f"Memory traffic: {blocking:,} of {calls} fail{'s' if blocking == 1 else ''}"
    if exit_code:
        return f"Memory traffic: the run failed with exit code {exit_code}; {calls}, none of them failing"
    return f"Memory traffic: {calls}, none failing"


def _cells(one: Outcome) -> tuple[str, ...]:
    ratio = one.vs_compulsory
    return (
        one.verdict,
        one.test,
        one.target,
        one.reads,
        one.writes,
        "" if one.bytes is None else f"{one.bytes:,}",
        "" if ratio is None else times_text(ratio),
        one.reason,
    )
