"""Print as JSON what only the package itself can say.

This is the `points` of its studies, or the `records` that it reads.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from layouts import package_module, require_checkout


def points() -> list[dict[str, Any]]:
    """Return target and parameters of every point of the shipped studies.

    It does not matter which source a point asks.
    """
    study = package_module("study")
    found = [point for name in study.shipped_studies() for point in study.find_study(name).points]
    return [{"target": point.target, "params": dict(point.params)} for point in found]


def records(checkout: Path) -> dict[str, Any]:
    """Read every recorded file; return the number of records and their digests.

    The kernels' names are kept apart.
    """
    from ioaware.errors import DataError

    folder = checkout / "ioaware" / "recorded"
    readers = (package_module("result_file").read_jsonl, package_module("race_record").read)
    found: dict[str, Any] = {}
    for path in sorted(folder.rglob("*.jsonl")):
        name = path.relative_to(folder).as_posix()
        found[name] = {"unread": True, **summary(map(json.loads, path.read_text(encoding="utf-8").splitlines()))}
        for reader in readers:
            with suppress(DataError):  # a record of another kind
                found[name] = summary(record.to_dict() for record in reader(path))
    return found


def summary(found: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Digest records one by one, so that a difference names its record."""
    kernels: list[list[dict[str, str]]] = []
    digests: list[str] = []
    for data in found:
        launches = data.get("launches", [])
        kernels.append([{"kernel": launch.pop("kernel")} for launch in launches])
        text = json.dumps(data, sort_keys=True, separators=(",", ":"))
        digests.append(hashlib.sha256(text.encode()).hexdigest()[:16])
    return {"records": len(digests), "sha256": digests, "launches": kernels}


def main() -> None:
    """Print the answer to the question that the first argument names."""
    question, checkout = sys.argv[1], Path(sys.argv[2])
    require_checkout(checkout)
    print(json.dumps(points() if question == "points" else records(checkout)))


if __name__ == "__main__":
    main()
