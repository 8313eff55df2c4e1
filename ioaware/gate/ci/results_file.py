"""Write and read one run of the gate: its calls, its time and its commit."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

from ioaware._atomic_file import atomic_write
from ioaware.environment import checkout_commit, installed_version
from ioaware.errors import DataError
from ioaware.gate.ci.outcome import Outcome, outcome_of
from ioaware.strict_json import loads, read_lines

SCHEMA, KIND = 1, "traffic results"
COMMIT = re.compile(r"[0-9a-f]{7,64}(-dirty)?")
LARGEST_BYTES = 64 * 2**20


@dataclass(frozen=True, slots=True)
class Run:
    """One run: its time, the commit if there is one, its exit code and its calls."""

    time: datetime
    commit: str
    exit_code: int
    outcomes: tuple[Outcome, ...]


def write_results(path: Path, root: Path, outcomes: Sequence[Outcome], exit_code: int) -> None:
    """Write a run that has just ended, replacing the file. Raises `WriteError`."""
    document = {
        "schema": SCHEMA,
        "kind": KIND,
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": _commit(root),
        "triton": installed_version("triton") or "",
        "exit_code": exit_code,
        "outcomes": [one.to_dict() for one in outcomes],
    }
    with atomic_write(path) as partial:
        partial.write_text(json.dumps(document, indent=1, allow_nan=False) + "\n", encoding="utf-8")


def _commit(root: Path) -> str:
    """Return the commit of a job of GitHub, else that of the checkout, else nothing."""
    named = os.environ.get("GITHUB_SHA", "")
    return named if COMMIT.fullmatch(named) else checkout_commit(root) or ""


def read_results(path: Path) -> Run:
    """Return a run that `write_results` wrote. Raises `DataError` for any other file."""
    content = b"\n".join(line for _, line in read_lines(path, LARGEST_BYTES))
    try:
        return _run(loads(content))
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise DataError(
            f"{path}: not results of the gate ({str(error)[:200]})", "Write them: pytest --traffic-results FILE."
        ) from error


def _run(document: object) -> Run:
    if not isinstance(document, dict):
        raise TypeError("no object")
    table = cast("dict[str, Any]", document)
    if type(table["schema"]) is not int or (table["schema"], table["kind"]) != (SCHEMA, KIND):
        raise ValueError(f"schema {table['schema']!r} of kind {str(table['kind'])[:40]!r}")
    time, commit, code, outcomes = (table[name] for name in ("time", "commit", "exit_code", "outcomes"))
    if not isinstance(time, str) or not isinstance(outcomes, list) or type(code) is not int:
        raise TypeError("time, exit_code or outcomes is of another type")
    if not isinstance(commit, str) or not (commit == "" or COMMIT.fullmatch(commit)):
        raise ValueError(f"commit is {str(commit)[:60]!r}")
    when = datetime.fromisoformat(time)
    if when.tzinfo is None:
        raise ValueError(f"time {time!r} has no zone")
    return Run(when, commit, code, tuple(outcome_of(one) for one in cast("list[object]", outcomes)))
