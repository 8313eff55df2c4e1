"""Plant bugs in a copy of the package and run the tests that should catch them.

One bug is planted at a time.

    python scripts/plant_bugs.py [NAME...] [--record docs/results/planted-bugs.md]

A bug is an entry of scripts/planted_bugs.toml: a file, the code there (`old`, found exactly once), what replaces it (`new`),
and the tests to run. It is caught if they fail or run out of time. The same tests must pass before it is planted.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BUGS = ROOT / "scripts" / "planted_bugs.toml"
COPIED = ("ioaware", "tests", "scripts", "docs", "reports", "README.md", "pyproject.toml", "Makefile")
LIMIT_S = 300.0
FAILED_TESTS = 1
"""pytest's exit code; an import error or an interrupted collection has another."""


@dataclass(frozen=True, slots=True)
class Bug:
    """One mutation of the package and the tests that should notice it."""

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the tests made of a bug: `test` is the first that failed."""

    bug: Bug
    caught: bool
    test: str


def read_bugs(path: Path = BUGS) -> list[Bug]:
    """Return the bugs of a TOML file.

    Raises `ValueError` for an entry whose code is not found exactly once.
    """
    entries = tomllib.loads(path.read_text(encoding="utf-8"))["bug"]
    bugs = [Bug(e["name"], e["file"], e["old"], e["new"], tuple(e["tests"].split())) for e in entries]
    for bug in bugs:
        count = (ROOT / bug.file).read_text(encoding="utf-8").count(bug.old)
        if count != 1:
            raise ValueError(f"{bug.name}: its code is found {count} times in {bug.file}")
    return bugs


def main(arguments: Sequence[str] | None = None) -> int:
    """Plant the named bugs (default: all); return 1 where fewer than 90 % are caught."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="only bugs whose name contains one of these")
    parser.add_argument("--record", type=Path, help="write the table here")
    parser.add_argument("--log", type=Path, help="append outcomes here; bugs that are in it are not planted again")
    parser.add_argument("--trust", action="store_true", help="do not run the tests without the bug first: they passed just now")
    options = parser.parse_args(arguments)
    bugs = [bug for bug in read_bugs() if not options.names or any(name in bug.name for name in options.names)]
    known = read_log(options.log) if options.log and options.log.exists() else {}
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that the copy is removed
    with tempfile.TemporaryDirectory(prefix="ioaware-bugs-") as folder:
        for outcome in plant_all([bug for bug in bugs if bug.name not in known], Path(folder), trust=options.trust):
            known[outcome.bug.name] = (outcome.caught, outcome.test)
            if options.log:
                with options.log.open("a", encoding="utf-8") as log:
                    log.write(json.dumps([outcome.bug.name, outcome.caught, outcome.test]) + "\n")
    outcomes = [Outcome(bug, *known[bug.name]) for bug in bugs]
    caught = sum(outcome.caught for outcome in outcomes)
    print(f"{caught} of {len(outcomes)} caught")
    if options.record:
        options.record.write_text(table(outcomes), encoding="utf-8")
    return 0 if caught >= 0.9 * len(outcomes) else 1


def read_log(path: Path) -> dict[str, tuple[bool, str]]:
    """Return the outcomes of an earlier run by the bugs' names."""
    lines = (json.loads(line) for line in path.read_text(encoding="utf-8").splitlines())
    return {name: (caught, test) for name, caught, test in lines}


def plant_all(bugs: Iterable[Bug], folder: Path, *, trust: bool = False) -> Iterable[Outcome]:
    """Yield the outcome of each bug, planted alone in a copy of the repository."""
    for name in COPIED:
        source = ROOT / name
        ignore = shutil.ignore_patterns("__pycache__", "*.pyc")
        shutil.copytree(source, folder / name, ignore=ignore) if source.is_dir() else shutil.copy2(source, folder / name)
    sound: set[tuple[str, ...]] = set()
    for bug in bugs:
        if bug.tests not in sound and not trust:
            code, test = run_tests(bug.tests, folder)
            if code != 0:
                raise SystemExit(f"{bug.name}: its tests fail without it: {test}")
            sound.add(bug.tests)
        path = folder / bug.file
        text = path.read_text(encoding="utf-8")
        path.write_text(text.replace(bug.old, bug.new), encoding="utf-8")
        code, test = run_tests(bug.tests, folder)
        path.write_text(text, encoding="utf-8")
        outcome = Outcome(bug, code == FAILED_TESTS, test)
        print(f"{'caught' if outcome.caught else 'MISSED' if code == 0 else f'exit {code}'}  {bug.name}  {test}", flush=True)
        yield outcome


def run_tests(tests: Sequence[str], folder: Path) -> tuple[int, str]:
    """Run tests in the copy.

    Return pytest's exit code, 1 for a run out of time, and the first failure.
    """
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
    environment = {**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1", "IOAWARE_CACHE_DIR": ""}
    try:
        done = subprocess.run(  # noqa: S603 - our own interpreter
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=LIMIT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return FAILED_TESTS, "out of time"
    failures = [line.split(" - ")[0].removeprefix("FAILED ") for line in done.stdout.splitlines() if line.startswith("FAILED ")]
    return done.returncode, failures[0] if failures else ""


def table(outcomes: Sequence[Outcome]) -> str:
    """Return the outcomes as a page of the documentation."""
    commit = subprocess.run(  # noqa: S603
        ["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--abbrev=12"],  # noqa: S607
        capture_output=True,
        text=True,
        check=False,
    ).stdout.strip()
    caught = sum(outcome.caught for outcome in outcomes)
    rows = [
        f"| {outcome.bug.name} | `{outcome.bug.file}` | {f'`{outcome.test}`' if outcome.caught else '**missed**'} |"
        for outcome in outcomes
    ]
    return "\n".join(
        [
            "# Planted bugs",
            "",
            f"{caught} of {len(outcomes)} bugs are caught ({datetime.now(UTC):%Y-%m-%d}, commit {commit}).",
            tomllib.loads(BUGS.read_text(encoding="utf-8"))["history"],
            "",
            "Each is planted alone, and the tests named in `scripts/planted_bugs.toml` run on it.",
            "`python scripts/plant_bugs.py --record docs/results/planted-bugs.md` writes this page.",
            "",
            "| bug | file | caught by |",
            "| --- | --- | --- |",
            *rows,
            "",
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
