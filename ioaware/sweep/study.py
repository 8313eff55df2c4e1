"""Read a study, the points of a sweep, from a TOML file of grids.

It has no expressions.
"""

from __future__ import annotations

import difflib
import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Any, cast

from ioaware import strict_json
from ioaware.errors import UsageError
from ioaware.machine.presets import find_machine
from ioaware.result import Params, ParamValue, Source
from ioaware.sweep.points import SOURCES, Point, make_point

MAX_FILE_BYTES = 2**20
MAX_POINTS = 100_000
_STUDY_KEYS = ("title", "grid")
_GRID_KEYS = ("sources", "targets", "params", "together", "machines")


@dataclass(frozen=True, slots=True)
class Study:
    """A named, ordered list of distinct points."""

    name: str
    title: str
    points: tuple[Point, ...]

    @property
    def sources(self) -> tuple[Source, ...]:
        """The sources of this study, in the order a sweep runs them."""
        used = {point.source for point in self.points}
        return tuple(source for source in SOURCES if source in used)


def shipped_studies() -> tuple[str, ...]:
    """Return the names of the studies in this package."""
    folder = resources.files("ioaware") / "studies"
    return tuple(sorted(entry.name.removesuffix(".toml") for entry in folder.iterdir() if entry.name.endswith(".toml")))


def find_study(name: str) -> Study:
    """Return the study of that name, or of that TOML file.

    Raises `UsageError` that lists the names.
    """
    shipped = shipped_studies()
    if name in shipped:
        text = (resources.files("ioaware") / "studies" / f"{name}.toml").read_text(encoding="utf-8")
        return parse_study(text, name=name, where=f"study {name}")
    if "/" in name or name.endswith(".toml"):
        return parse_study(_read(Path(name)), name=Path(name).stem, where=name)
    close = difflib.get_close_matches(name, shipped, n=1)
    hint = f"Did you mean {close[0]}? " if close else ""
    raise UsageError(
        f"there is no study {name!r}", f"{hint}Studies: {', '.join(shipped)}. One of your own: path/to/study.toml."
    )


def parse_study(text: str, *, name: str, where: str) -> Study:
    """Parse a study from TOML.

    Points come in the order of the file, the last parameter varying fastest; repeats are dropped. Raises `UsageError` with
    the file, the table and the key.
    """
    try:
        data = strict_json.load_toml(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{where}: not TOML ({str(error)[:200]})", "Correct it there.") from error
    _known_keys(data, _STUDY_KEYS, where)
    title = data.get("title", name)
    if not isinstance(title, str):
        raise UsageError(f"{where}: title is not text", 'Write title = "...".')
    grids = data.get("grid")
    if not isinstance(grids, list) or not grids:
        raise UsageError(f"{where}: no [[grid]]", "A study is a list of [[grid]] tables with sources, targets and params.")
    points: dict[tuple[str, str], Point] = {}
    for number, grid in enumerate(cast("list[object]", grids), start=1):
        for point in _grid_points(grid, f"{where}, grid {number}"):
            points.setdefault((point.key, point.machine), point)
        if len(points) > MAX_POINTS:
            raise UsageError(f"{where}: more than {MAX_POINTS} points", "Split it into two studies.")
    return Study(name, title, tuple(points.values()))


def _grid_points(grid: object, where: str) -> list[Point]:
    """Yield the points of a study.

    There is one for every source and target at every combination of `together` rows and `params` values, and a measured one
    for every machine.
    """
    if not isinstance(grid, dict):
        raise UsageError(f"{where}: not a table", "Write [[grid]], with double brackets.")
    table = cast("dict[str, Any]", grid)
    _known_keys(table, _GRID_KEYS, where)
    sources = cast("list[Source]", _names(table, "sources", where))
    for source in sources:
        if source not in SOURCES:
            raise UsageError(f"{where}: sources has {source!r}", f"Sources of a study: {', '.join(SOURCES)}.")
    targets = _names(table, "targets", where)
    params = _params(table.get("params", {}), f"{where}, params")
    rows = _together(table.get("together", [{}]), f"{where}, together", params)
    machines = [find_machine(name).device for name in _names(table, "machines", where)] if "machines" in table else [""]
    if "machines" in table and "measure" not in sources:
        raise UsageError(f"{where}: machines without measure in sources", "machines says on which GPUs to measure.")
    count = (len(sources) - 1 + len(machines)) * len(targets) * len(rows) * math.prod(len(values) for values in params.values())
    if count > MAX_POINTS:
        raise UsageError(f"{where}: {count} points, more than the {MAX_POINTS} a study may have", "Split it into two studies.")
    try:
        return [
            replace(make_point(source, target, {**row, **dict(zip(params, values, strict=True))}), machine=machine)
            for source, target, row in itertools.product(sources, targets, rows)
            for values in itertools.product(*params.values())
            for machine in (machines if source == "measure" else [""])
        ]
    except UsageError as error:
        raise UsageError(f"{where}: {error.what}", error.remedy) from error


def _params(value: object, where: str) -> dict[str, list[ParamValue]]:
    """Return each parameter's values; a single value is a list of one."""
    values: dict[str, list[ParamValue]] = {}
    for name, item in _table(value, where).items():
        listed = cast("list[object]", item) if isinstance(item, list) else [item]
        if not listed:
            raise UsageError(f"{where}: {name} has no values", "Give one or more, or leave it out.")
        values[name] = [_scalar(one, name, where) for one in listed]
    return values


def _together(value: object, where: str, params: Mapping[str, object]) -> list[Params]:
    """Return the rows of parameters that vary together.

    An example is fewer heads at a longer sequence.
    """
    if not isinstance(value, list) or not value:
        raise UsageError(f"{where}: not a list of tables", "For example: together = [{ seq_len = 512, heads = 64 }]")
    rows: list[Params] = []
    for item in cast("list[object]", value):
        row = _table(item, where)
        for name in row.keys() & params.keys():
            raise UsageError(f"{where}: {name} is in params too", "Give each parameter in one of the two.")
        rows.append({name: _scalar(one, name, where) for name, one in row.items()})
    return rows


def _table(value: object, where: str) -> dict[str, object]:
    if not isinstance(value, dict):
        raise UsageError(f"{where}: not a table", "For example: params = { seq_len = [512, 1024], causal = false }")
    return cast("dict[str, object]", value)


def _scalar(value: object, name: str, where: str) -> ParamValue:
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise UsageError(f"{where}: {name} is out of range", "Integers have at most 64 bits.")
    if isinstance(value, (bool, int, float, str)):
        return value
    raise UsageError(f"{where}: {name} is a {type(value).__name__}", "Parameters are numbers, true, false or text.")


def _names(table: Mapping[str, Any], key: str, where: str) -> list[str]:
    """Return a required list of text."""
    value: object = table.get(key)
    if not isinstance(value, list) or not value or not all(isinstance(item, str) for item in cast("list[object]", value)):
        raise UsageError(f"{where}: {key} must be a list of names", f'For example: {key} = ["{_EXAMPLE[key]}"]')
    return cast("list[str]", value)


_EXAMPLE = {"sources": "predict", "targets": "flash2", "machines": "H200"}


def _known_keys(table: Mapping[str, Any], known: tuple[str, ...], where: str) -> None:
    for key in table:
        if key not in known:
            close = difflib.get_close_matches(key, known, n=1)
            hint = f"Did you mean {close[0]}? " if close else ""
            raise UsageError(f"{where}: unknown key {key!r}", f"{hint}Keys: {', '.join(known)}.")


def _read(path: Path) -> str:
    try:
        if path.exists() and not path.is_file():
            raise UsageError(f"{path}: not a file", "Name a TOML file or a shipped study.")
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
        if len(data) > MAX_FILE_BYTES:
            raise UsageError(f"{path}: more than {MAX_FILE_BYTES} bytes, too large for a study", "Name another file.")
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: not UTF-8 text", "Save it as UTF-8.") from error
    except OSError as error:
        shipped = ", ".join(shipped_studies())
        raise UsageError(f"{path}: cannot be read ({error.strerror})", f"Studies in ioaware: {shipped}.") from error
