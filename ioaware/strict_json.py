"""Read JSON of records strictly, and TOML.

The size is bounded, no key stands twice, and every number is finite and in range.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar, cast

from ioaware.errors import DataError, MachineError

T = TypeVar("T")

LARGEST_INTEGER = 10**30
"""Above any count of bytes, FLOPs or nanoseconds.

Limits the digits that are parsed.
"""
_LONGEST = len(str(LARGEST_INTEGER)) + 1
_LEAVES = (str, int, float, type(None))
_INFINITY = math.inf
_ZERO_FOR_DIGITS = bytes.maketrans(b"123456789", b"000000000")
_TOO_MANY_DIGITS = b"0" * len(str(LARGEST_INTEGER))
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def loads(text: str | bytes) -> Any:
    """Parse one JSON document.

    Raises `ValueError` (or `RecursionError`) for anything that is not strict.
    """
    text = text.decode("utf-8") if isinstance(text, bytes) else text
    document = _DECODER.decode(text)
    if _SURROGATE.search(text):
        _check_characters(document)
    return document


def loads_record(text: str | bytes) -> Any:
    """Parse one JSON object as `loads` does, and faster.

    It is faster where msgspec writes the same text. Then no key stands twice and every number is finite. A text with as many
    digits in a row as an integer that is too large is left to `loads`.
    """
    try:
        from msgspec import MsgspecError
        from msgspec import json as fast
    except ModuleNotFoundError:
        return loads(text)
    try:
        content = text.encode() if isinstance(text, str) else text
        document = fast.decode(content)
        many_digits = _TOO_MANY_DIGITS in content.translate(_ZERO_FOR_DIGITS)
        if isinstance(document, dict) and fast.encode(document) == content and not many_digits:
            return cast("Any", document)
    except (MsgspecError, ValueError, RecursionError):
        pass  # `loads` says what is wrong
    return loads(text)


def load_toml(text: str) -> dict[str, Any]:
    """Parse a TOML document.

    Raises `ValueError` for anything else. It raises `RecursionError` for tables nested too deeply.
    """
    import tomllib  # most readers read JSON alone

    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        raise
    except ValueError as error:  # Python's, which names its own settings as the remedy
        raise ValueError("a number has too many digits") from error


def dumps(document: Any) -> str:
    """Print JSON in one line. Raises `ValueError` for what `loads` would refuse."""
    text = json.dumps(document, allow_nan=False, separators=(",", ":"))
    loads(text)
    return text


def convert(data: Any, kind: type[T]) -> T:
    """Return a parsed document as a dataclass.

    Raises ValueError for another shape and for a field that the dataclass has not. Raises `MachineError` without msgspec.
    """
    try:
        import msgspec  # only the file boundary needs it: measuring must start on machines without it
    except ModuleNotFoundError as error:
        raise MachineError("msgspec is not installed, and reading records needs it", "pip install msgspec") from error
    try:
        converted = msgspec.convert(data, kind)
    except msgspec.MsgspecError as error:
        raise ValueError(str(error)) from error
    if unknown := sorted(unknown_fields(data, msgspec.to_builtins(converted))):
        raise ValueError(f"unknown field {', '.join(unknown)[:200]}")
    return converted


def refuse_negative(data: Any) -> None:
    """Raise ValueError for a number below 0, at any depth."""
    if isinstance(data, (int, float)) and data < 0:
        raise ValueError(f"{data!r} is below 0")
    table = cast("dict[str, Any]", data).values() if isinstance(data, dict) else ()
    for value in cast("list[Any]", data) if isinstance(data, list) else table:
        refuse_negative(value)


def unknown_fields(data: Any, known: Any, path: str = "") -> Iterator[str]:
    """Yield the paths of `data` that `known` has not, at any depth.

    `known` is what a reader made of it, as JSON. Paths that are null or empty are left out.
    """
    if isinstance(data, dict) and isinstance(known, dict):
        given = cast("dict[str, Any]", data)
        if given.items() <= cast("dict[str, Any]", known).items():  # as in most parts of a record
            return
        for key, value in given.items():
            if key in known:
                if not isinstance(value, _LEAVES):
                    yield from unknown_fields(value, known[key], f"{path}{key}.")
            elif value is not None and value != []:
                yield path + key
    elif isinstance(data, list) and isinstance(known, (list, tuple)) and data != list(cast("Sequence[Any]", known)):
        for item, same in zip(cast("list[Any]", data), cast("list[Any]", known), strict=True):
            yield from unknown_fields(item, same, path)


def is_there(path: Path) -> bool:
    """Return whether a file exists.

    Raises `DataError` where the system does not say, as in a directory without permission.
    """
    try:
        return path.exists()
    except OSError as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: OSError) -> DataError:
    return DataError(f"{path}: cannot be read ({error.strerror})", "Check the path and its permissions.")


def read_lines(path: Path, max_bytes: int) -> Iterator[tuple[int, bytes]]:
    """Yield number and content of every line that is not blank.

    They have at most `max_bytes` in all.

    Raises `DataError` for a file that is larger or cannot be read. Devices have no size, so the read itself is bounded.
    """
    try:
        with path.open("rb") as file:
            content = file.read(max_bytes + 1)
    except OSError as error:
        raise _unreadable(path, error) from error
    if len(content) > max_bytes:
        raise DataError(
            f"{path}: more than the {max_bytes} bytes that this reader accepts", "Name another file, or split this one."
        )
    for number, line in enumerate(content.split(b"\n"), start=1):
        if line.strip():
            yield number, line


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) < len(pairs):
        repeated = next(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
        raise ValueError(f"key {repeated[:60]!r} stands twice")
    return table


def _integer(digits: str) -> int:
    if len(digits) > _LONGEST or abs(int(digits)) > LARGEST_INTEGER:
        raise ValueError(f"the number {_short(digits)} is out of range")
    return int(digits)


def _float(digits: str) -> float:
    number = float(digits)
    if not -_INFINITY < number < _INFINITY:  # no call: a record has hundreds of numbers
        raise ValueError(f"the number {_short(digits)} is out of range")
    return number


def _constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_int=_integer, parse_float=_float, parse_constant=_constant)


def _short(digits: str) -> str:
    return digits if len(digits) <= 40 else f"{digits[:20]}... of {len(digits)} characters"


def _check_characters(value: Any) -> None:
    """Raise `ValueError` for a string with half of a surrogate pair."""
    if isinstance(value, str):
        value.encode("utf-8")
    elif isinstance(value, dict):
        for key, item in value.items():  # pyright: ignore[reportUnknownVariableType]
            _check_characters(key)
            _check_characters(item)
    elif isinstance(value, list):
        for item in value:  # pyright: ignore[reportUnknownVariableType]
            _check_characters(item)
