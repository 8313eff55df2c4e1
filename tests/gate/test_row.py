"""Rows from documents: a bad number makes a row unreadable.

A bad number is missing, wrongly typed or non-finite.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ioaware.errors import IoawareError
from ioaware.gate.row import row_of
from ioaware.gate.sides import read_row, row_of_text
from tests.support.gate_rows import document

BAD = [float("nan"), float("inf"), float("-inf"), None, -1, True, "1"]


def test_a_document_becomes_a_row() -> None:
    row = row_of(document(), "here")
    assert (row.total_bytes, row.formulas["reads"], row.resources["registers"]) == (12_000, "8*n", 16)
    assert str(row.header) == "triton 3.7.1, cuda:90, ir 0123456789ab"


def numbers(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the paths of all counts of a document."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from numbers(item, (*path, key))
    elif isinstance(value, list):
        for at, item in enumerate(value):
            yield from numbers(item, (*path, at))
    elif type(value) is int and path[0] != "params" and "grid" not in path and "flops" not in path:
        yield path


def change(path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    found = copy.deepcopy(document())
    inner: Any = found
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return found


def of_the_row(path: tuple[Any, ...]) -> bool:
    """Return whether a row reads the number.

    A launch's own traffic is in the totals, and is not read.
    """
    return path[:1] != ("launches",) or path[2] != "requested"


PATHS = [path for path in numbers(document()) if of_the_row(path)]


@pytest.mark.parametrize("path", PATHS, ids=str)
@pytest.mark.parametrize("value", BAD, ids=repr)
def test_a_bad_number_is_refused(path: tuple[Any, ...], value: Any, tmp_path: Path) -> None:
    file = tmp_path / "row.json"
    file.write_text(json.dumps(change(path, value)))
    with pytest.raises(IoawareError):
        read_row(file)


def test_a_file_truncated_at_every_byte_is_refused() -> None:
    whole = json.dumps(document()).encode()
    for length in range(len(whole)):
        with pytest.raises(IoawareError) as raised:
            row_of_text(whole[:length], "row.json")
        assert raised.value.exit_code == 6


@pytest.mark.parametrize("key", ["schema", "source", "requested", "launches", "environment", "exact", "target"])
def test_a_missing_entry_is_refused(key: str) -> None:
    found = document()
    del found[key]
    with pytest.raises(IoawareError):
        row_of(found, "here")


@pytest.mark.parametrize("found", [[], None, 3, "row", {"schema": 2}, {"schema": True}, {**document(), "launches": []}])
def test_another_document_is_refused(found: Any) -> None:
    with pytest.raises(IoawareError):
        row_of(found, "here")


def test_no_file_and_a_directory(tmp_path: Path) -> None:
    for path, code in ((tmp_path / "none.json", 4), (tmp_path, 6)):
        with pytest.raises(IoawareError) as raised:
            read_row(path)
        assert raised.value.exit_code == code


def test_duplicate_keys_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "row.json"
    file.write_text(json.dumps(document())[:-1] + ', "exact": true}')
    with pytest.raises(IoawareError, match="stands twice"):
        read_row(file)


def test_entries_that_may_be_left_out() -> None:
    bare = document()
    del bare["params"], bare["compulsory"]
    found = row_of(bare, "here")
    assert (found.params, found.sizes, found.compulsory, found.conditions, found.notes) == ({}, {}, None, (), ())
    assert found.formulas == {"reads": "8*n", "writes": "4*n", "torch reads": "0", "torch writes": "0"}
    assert (found.bytes["torch reads"], found.bytes["torch writes"]) == (0, 0)


def test_formulas_that_hold_for_their_data_alone_are_left_out() -> None:
    """Formulas say nothing at other sizes: two kernels are compared by bytes."""
    assumed = {"read_bytes": 6, "write_bytes": 5, "read_formula": "6*n", "write_formula": "5*n"}
    found = row_of({**document(), "formulas_exact": False, "assumed": assumed}, "here")
    assert (found.formulas, found.total_bytes, found.bytes["torch reads"]) == ({}, 12_000, 6)
    whole = row_of({**document(), "assumed": assumed}, "here")
    assert (whole.formulas["torch reads"], whole.formulas["torch writes"], whole.bytes["torch writes"]) == ("6*n", "5*n", 5)
    with pytest.raises(IoawareError, match="neither true nor false"):
        row_of({**document(), "formulas_exact": 1}, "here")
