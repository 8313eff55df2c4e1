"""Ask git when lines of source were written."""

from __future__ import annotations

import subprocess
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

TIMEOUT_S = 10.0
Line = tuple[str, int]
"""A file and the number of a line in it."""


def line_ages(lines: Iterable[Line]) -> dict[Line, int]:
    """Return the times at which lines were committed, in seconds since 1970.

    One that is not committed yet is the newest. Lines of files that git does not know are left out.
    """
    numbers: defaultdict[str, set[int]] = defaultdict(set)
    for path, number in lines:
        numbers[path].add(number)
    return {(path, at): age for path, wanted in numbers.items() for at, age in _ages_of_file(path, sorted(wanted)).items()}


def newest(lines: Iterable[Line], ages: Mapping[Line, int]) -> set[Line]:
    """Return the lines that were written last.

    None where git does not know them all, or where they were written together.
    """
    wanted = set(lines)
    if not wanted <= ages.keys():
        return set()
    last = max((ages[line] for line in wanted), default=0)
    found = {line for line in wanted if ages[line] == last}
    return found if found < wanted else set()


def _ages_of_file(path: str, numbers: list[int]) -> dict[int, int]:
    ranges = [f"-L{number},{number}" for number in numbers]
    command = ["git", "-C", str(Path(path).parent), "blame", "--line-porcelain", *ranges, "--", Path(path).name]
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=TIMEOUT_S, check=False)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired):
        return {}
    if done.returncode:
        return {}
    found: dict[int, int] = {}
    number = 0
    for line in done.stdout.splitlines():
        words = line.split(" ")
        if len(words[0]) == 40 and len(words) >= 3 and words[2].isdigit():
            number = int(words[2])
        elif words[0] == "committer-time":
            found[number] = int(words[1])
    return found
