"""Read stored runs, of the gate or of a sweep, as the lines of a history."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from ioaware.display.text import params_text
from ioaware.errors import UsageError
from ioaware.gate.ci.results_file import read_results
from ioaware.report.pages.history_page import HistoryLine, RunLabel
from ioaware.result import Result
from ioaware.strict_json import is_there

Key = tuple[str, str, str]
GATE = "requested, gate"


@dataclass(slots=True)
class StoredRun:
    """One run.

    Its label, its time if known, and bytes and failing verdicts by kernel, point and place.
    """

    label: RunLabel
    time: datetime | None
    bytes: dict[Key, int] = field(default_factory=dict[Key, int])
    verdicts: dict[Key, tuple[str, bool]] = field(default_factory=dict[Key, tuple[str, bool]])


def read_runs(paths: Sequence[Path]) -> list[StoredRun]:
    """Return the runs of files.

    By time where all of them have one, else in the order given.

    A file is what `pytest --traffic-results` wrote, a store of `sweep`, or JSONL of `export`. Raises `UsageError`, `DataError`.
    """
    runs = [_read(path) for path in paths]
    times = [run.time for run in runs if run.time is not None]
    if len(times) == len(runs):
        runs.sort(key=lambda run: run.time or times[0])
    return runs


def history_lines(runs: Sequence[StoredRun]) -> list[HistoryLine]:
    """Return a line for each kernel, point and place that any run has."""
    keys = dict.fromkeys(key for run in runs for key in (*run.bytes, *run.verdicts))
    last = runs[-1].verdicts if runs else {}
    lines: list[HistoryLine] = []
    for key in keys:
        verdict, fails = last.get(key, ("", False))
        lines.append(HistoryLine(*key, tuple(run.bytes.get(key) for run in runs), verdict, fails))
    return lines


def _read(path: Path) -> StoredRun:
    if not is_there(path) or not path.is_file():
        raise UsageError(f"there is no file {path}", "Name results of pytest --traffic-results, stores, or JSONL of export.")
    return _of_gate(path) if path.suffix == ".json" else _of_results(path)


def _of_gate(path: Path) -> StoredRun:
    run = read_results(path)
    label = RunLabel(path.stem, run.commit[:12], run.time.isoformat(sep=" ", timespec="minutes"))
    found = StoredRun(label, run.time)
    for one in run.outcomes:
        key = (one.target or one.test, one.point, GATE)
        if one.bytes is not None:
            found.bytes[key] = max(one.bytes, found.bytes.get(key, 0))
        verdict, fails = found.verdicts.get(key, ("", False))
        found.verdicts[key] = (verdict, fails) if fails else (one.verdict, one.blocks)
    return found


def _of_results(path: Path) -> StoredRun:
    results = _stored(path)
    commits = {str((result.environment or {}).get("commit", "")) for result in results} - {""}
    found = StoredRun(RunLabel(path.stem, commits.pop() if len(commits) == 1 else ""), None)
    for result in results:
        for place, traffic in (("requested", result.requested), ("HBM", result.hbm)):
            key = (result.target, params_text(result.params), f"{place}, {result.source}")
            if traffic is not None and traffic.total_bytes is not None:
                found.bytes[key] = traffic.total_bytes
        if result.status != "ok":
            found.verdicts[(result.target, params_text(result.params), f"requested, {result.source}")] = (
                result.status,
                result.status in ("failed", "impossible"),
            )
    return found


def _stored(path: Path) -> list[Result]:
    if path.suffix == ".jsonl":
        from ioaware.result_file import read_jsonl

        return list(read_jsonl(path))
    from ioaware.sweep.store import Store

    with Store(path, readonly=True) as store:
        return store.results()
