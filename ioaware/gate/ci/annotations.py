"""Write annotations of a pull request: GitHub's workflow commands, one a line.

https://docs.github.com/en/actions/reference/workflows-and-actions/workflow-commands
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from ioaware.display.text import clean
from ioaware.gate.ci.outcome import Outcome

MOST_OF_A_STEP = 10
"""GitHub shows at most 10 errors of a step and drops the others."""
LONGEST_LINE, MOST_LINES = 1000, 40


def error_annotations(outcomes: Sequence[Outcome], workspace: Path) -> Iterator[str]:
    """Yield an error for each outcome that blocks, in the order given.

    The last one counts those that GitHub would drop.
    """
    blocking = [one for one in outcomes if one.blocks]
    shown = blocking if len(blocking) <= MOST_OF_A_STEP else blocking[: MOST_OF_A_STEP - 1]
    for one in shown:
        title = f"{one.verdict}: {one.target or one.test}"
        yield command("error", one.message or one.reason, file=_below(one.path, workspace), line=one.line, title=title)
    if left := len(blocking) - len(shown):
        yield command("error", f"{left:,} more fail; the job summary lists them", title="memory traffic")


def command(name: str, message: str, *, file: str = "", line: int = 0, title: str = "") -> str:
    """Return a workflow command in one line, its values escaped."""
    values = {"file": file, "line": str(line) if file and line else "", "title": title}
    properties = ",".join(f"{key}={_property(value)}" for key, value in values.items() if value)
    return f"::{name}{' ' if properties else ''}{properties}::{_message(message)}"


def _message(text: str) -> str:
    lines = [_data(clean(line, LONGEST_LINE)) for line in text.splitlines()[:MOST_LINES]]
    return "%0A".join(lines)


def _property(text: str) -> str:
    return _data(clean(text, LONGEST_LINE)).replace(":", "%3A").replace(",", "%2C")


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _below(path: str, workspace: Path) -> str:
    """Return a path as GitHub has it: below the workspace, with slashes."""
    place = Path(path)
    return place.relative_to(workspace).as_posix() if path and place.is_relative_to(workspace) else path


def workspace_of(root: Path) -> Path:
    """Return the directory that paths of annotations are relative to.

    It is the checkout of the job, else the root of the tests.
    """
    return Path(os.environ.get("GITHUB_WORKSPACE") or root)
