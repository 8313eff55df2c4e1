"""Read a machine from a TOML file.

It holds a preset to start from, and the numbers that differ, each checked.

preset = "H200"
name = "my H200"
sms = 132
[levels.l2]
capacity_bytes = 62914560
source = "calibrated 2026-11-22"
[l2_model]
partitions = 2
dirty_share = 0.43
capacity_spread = 0.02
skew_spread = 0.1
ways = 16
source = "calibrated 2026-11-22"
[link]
reached_bytes_per_s = 3.82e11
source = "copies of 1 GiB both ways, 2026-11-22"
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import isfinite
from pathlib import Path
from typing import Any, cast

from ioaware import strict_json
from ioaware.errors import DataError, UsageError
from ioaware.machine.file_checks import check_machine
from ioaware.machine.model import L2Model, Level, Link, Machine, Peak, Rate
from ioaware.machine.presets import find_machine
from ioaware.machine.time_bound import PEAKS

SUFFIX = ".toml"
KEYS = frozenset({"preset", "name", "sms", "source", "levels", "peaks", "l2_model", "link", "calibration"})
"""`calibration` holds what `ioaware calibrate` measured beside.

No command reads it.
"""
RATES: tuple[Rate, ...] = ("read", "write", "copy", "triad")
LEVEL_KEYS = frozenset({"capacity_bytes", "bandwidth_bytes_per_s", "source"})
HBM_KEYS = LEVEL_KEYS | {f"{rate}_bytes_per_s" for rate in RATES}
LINK_KEYS = frozenset({"reached_bytes_per_s", "source"})
PEAK_DTYPES = frozenset({"float32", *PEAKS.values()})
PEAK_KEYS = frozenset({"flops_per_s", "source"})
MODEL_KEYS = frozenset({"partitions", "dirty_share", "capacity_spread", "skew_spread", "source", "ways", "deviation"})
"""Keys of the model.

Older files have a deviation, which is not read: the sets of the model have it.
"""


LARGEST = 1e30
"""Largest number in a machine file."""


def find_machine_or_file(name: str) -> Machine:
    """Return the preset of that name, or the machine of a TOML file.

    The name of a file ends in `.toml`.

    Raises `UsageError` for a name or file that does not exist, `DataError` for a file that is damaged or contradicts itself.
    """
    if not name.endswith(SUFFIX):
        return find_machine(name)
    try:
        text = Path(name).read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"machine file {name}: cannot be read ({error.strerror})", "Name a preset or a TOML file.") from error
    except UnicodeDecodeError as error:
        raise DataError(f"machine file {name} is not text: {error.reason}", "Save it as UTF-8.") from error
    machine = read_machine(text, name)
    if text[-1:].isdigit():
        last = text.splitlines()[-1][:80]
        raise DataError(
            f"machine file {name} ends within a line, perhaps within a number: {last}",
            "End the last line if the file is whole.",
        )
    return machine


def read_machine(text: str, where: str) -> Machine:
    """Return the machine that the text of a file describes.

    Raises `DataError` naming `where` and the key.
    """
    try:
        data = strict_json.load_toml(text)
    except (ValueError, RecursionError) as error:
        raise DataError(
            f"machine file {where} is not TOML: {error}", "Correct it there; ioaware calibrate writes such a file."
        ) from error
    _known(data, KEYS, where, "")
    try:
        base = find_machine(_text(data, "preset", where))
    except UsageError as error:
        raise DataError(f"machine file {where}: {error.what}", error.remedy) from error
    levels = data.get("levels", {})
    for name, table in (("levels", levels), ("calibration", data.get("calibration", {}))):
        if not isinstance(table, Mapping):
            raise DataError(f"machine file {where}: {name} is not a table", f"Write it as [{name}] with keys below it.")
    names = {level.name for level in base.levels}
    _known(cast("Mapping[str, Any]", levels), frozenset(names), where, "levels.")
    changed = tuple(_level(level, cast("Mapping[str, Any]", levels), where) for level in base.levels)
    machine = replace(
        base,
        name=_text(data, "name", where) if "name" in data else base.name,
        sms=int(_number(data, "sms", where, least=1, whole=True)) if "sms" in data else base.sms,
        sms_source=_source(data, where) if "sms" in data else base.sms_source,
        levels=changed,
        peaks={**base.peaks, **_peaks(data.get("peaks", {}), where)},
        l2_model=_model(data["l2_model"], where) if "l2_model" in data else base.l2_model,
        link=_link(base, data["link"], where) if "link" in data else base.link,
    )
    check_machine(machine, base, where)
    return machine


def _level(level: Level, given: Mapping[str, Any], where: str) -> Level:
    if level.name not in given:
        return level
    table, place = given[level.name], f"levels.{level.name}."
    if not isinstance(table, Mapping):
        raise DataError(f"machine file {where}: levels.{level.name} is not a table", f"Write [levels.{level.name}].")
    values = cast("Mapping[str, Any]", table)
    _known(values, HBM_KEYS if level.name == "hbm" else LEVEL_KEYS, where, place)
    source = _source(values, where, place)
    if "capacity_bytes" in values:
        capacity = int(_number(values, "capacity_bytes", where, place, least=1, whole=True))
        level = replace(level, capacity_bytes=capacity, capacity_source=source)
    if "bandwidth_bytes_per_s" in values:
        bandwidth = _number(values, "bandwidth_bytes_per_s", where, place, least=1)
        level = replace(level, bandwidth_bytes_per_s=bandwidth, bandwidth_source=source)
    rates = {rate: key for rate in RATES if (key := f"{rate}_bytes_per_s") in values}
    return replace(
        level, rates={rate: _number(values, key, where, place, least=1) for rate, key in rates.items()} or level.rates
    )


def _link(base: Machine, table: object, where: str) -> Link:
    """Return the preset's link with the rate that a file has."""
    if base.link is None:
        raise DataError(f"machine file {where}: {base.name} has no known link", "Leave link out, or start from another preset.")
    if not isinstance(table, Mapping):
        raise DataError(f"machine file {where}: link is not a table", "Write [link].")
    values, place = cast("Mapping[str, Any]", table), "link."
    _known(values, LINK_KEYS, where, place)
    rate = _number(values, "reached_bytes_per_s", where, place, least=1, most=base.link.bandwidth_bytes_per_s)
    return replace(base.link, reached_bytes_per_s=rate, reached_source=_source(values, where, place))


def _peaks(table: object, where: str) -> dict[str, Peak]:
    """Return the peaks that a file has, by dtype."""
    if not isinstance(table, Mapping):
        raise DataError(f"machine file {where}: peaks is not a table", "Write [peaks.float16] and so on.")
    found: dict[str, Peak] = {}
    for dtype, given in cast("Mapping[str, Any]", table).items():
        place = f"peaks.{dtype}."
        if dtype not in PEAK_DTYPES:
            raise DataError(f"machine file {where}: peaks.{dtype} is no dtype", f"Known: {', '.join(sorted(PEAK_DTYPES))}.")
        if not isinstance(given, Mapping):
            raise DataError(f"machine file {where}: peaks.{dtype} is not a table", f"Write [peaks.{dtype}].")
        values = cast("Mapping[str, Any]", given)
        _known(values, PEAK_KEYS, where, place)
        found[dtype] = Peak(_number(values, "flops_per_s", where, place, least=1), _source(values, where, place))
    return found


def _model(table: object, where: str) -> L2Model:
    if not isinstance(table, Mapping):
        raise DataError(f"machine file {where}: l2_model is not a table", "Write [l2_model].")
    values, place = cast("Mapping[str, Any]", table), "l2_model."
    _known(values, MODEL_KEYS, where, place)
    partitions = _number(values, "partitions", where, place, least=1, most=2, whole=True)
    return L2Model(
        1 if partitions == 1 else 2,
        _number(values, "dirty_share", where, place, least=0, most=1),
        _number(values, "capacity_spread", where, place, least=0, most=0.9),
        _number(values, "skew_spread", where, place, least=0, most=1),
        _text(values, "source", where, place),
        int(_number(values, "ways", where, place, least=0, most=1024, whole=True)) if "ways" in values else 0,
    )


def _known(given: Mapping[str, Any], keys: frozenset[str], where: str, place: str) -> None:
    unknown = sorted(given.keys() - keys)
    if unknown:
        raise DataError(f"machine file {where}: unknown key {place}{unknown[0]}", f"Known: {', '.join(sorted(keys))}.")


def _text(given: Mapping[str, Any], key: str, where: str, place: str = "") -> str:
    value = given.get(key)
    if not isinstance(value, str) or not value or not value.isprintable():
        raise DataError(f"machine file {where}: {place}{key} is missing or no text in one line", f'Write {key} = "...".')
    return value


def _source(given: Mapping[str, Any], where: str, place: str = "") -> str:
    """Return the source of a table's numbers, the file unless it names one."""
    return _text(given, "source", where, place) if "source" in given else where


def _number(
    given: Mapping[str, Any],
    key: str,
    where: str,
    place: str = "",
    *,
    least: float,
    most: float = float("inf"),
    whole: bool = False,
) -> float:
    value = given.get(key)
    kinds = (int,) if whole else (int, float)
    if not isinstance(value, kinds) or isinstance(value, bool) or not least <= value <= min(most, LARGEST):
        wanted = f"{'a whole number' if whole else 'a number'} from {least:g}" + (f" to {most:g}" if isfinite(most) else "")
        raise DataError(f"machine file {where}: {place}{key} is {repr(value)[:40]}", f"It must be {wanted}.")
    return float(value)
