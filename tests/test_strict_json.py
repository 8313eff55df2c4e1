"""JSON and TOML are read strictly; errors are the project's own sentences."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ioaware import strict_json
from ioaware.errors import IoawareError
from ioaware.gate.repository.gate_config import project_table
from ioaware.gate.repository.ledger import LEDGER, read_ledger
from ioaware.machine.machine_file import read_machine
from ioaware.sweep.study import parse_study

LONG = "sms = " + "9" * 5000


def test_an_error_of_syntax_stays() -> None:
    assert strict_json.load_toml("a = 1") == {"a": 1}
    with pytest.raises(ValueError, match="end of document"):
        strict_json.load_toml("a =")


@pytest.mark.parametrize("file", ["ledger", "pyproject.toml", "machine", "study"])
def test_a_number_of_thousands_of_digits_is_refused_in_short(file: str, tmp_path: Path) -> None:
    (tmp_path / LEDGER).write_text(LONG)
    (tmp_path / "pyproject.toml").write_text(LONG)
    with pytest.raises(IoawareError, match="a number has too many digits") as refused:
        {
            "ledger": lambda: read_ledger(tmp_path),
            "pyproject.toml": lambda: project_table(tmp_path),
            "machine": lambda: read_machine(LONG, "m.toml"),
            "study": lambda: parse_study(LONG, name="s", where="s.toml"),
        }[file]()
    assert len(str(refused.value)) < 300
    assert "set_int_max" not in str(refused.value)


@dataclass(frozen=True)
class Row:
    n: int
    more: dict[str, int] | None = None


@pytest.mark.parametrize("data", [-1, [0, -0.5], {"a": {"b": [3, -2]}}])
def test_a_number_below_zero_at_any_depth(data: object) -> None:
    with pytest.raises(ValueError, match="is below 0"):
        strict_json.refuse_negative(data)
    strict_json.refuse_negative({"a": [0, 1.5, None, "-1"]})


def test_an_unknown_field_that_is_null_or_empty_is_left_out() -> None:
    assert strict_json.convert({"n": 3, "gone": None, "old": []}, Row) == Row(3)
    with pytest.raises(ValueError, match="unknown field old"):
        strict_json.convert({"n": 3, "gone": None, "old": [0]}, Row)


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda one: st.lists(one) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), one),
    max_leaves=12,
)
RECORDS = (
    '{"a":1,"b":[1.5,-2,true,null,"x"],"c":{"d":1e-05,"e":"\\u00e9"}}',
    '{"a":1, "b":2}',
    '{"a":1,"a":1}',
    '{"a":1e999}',
    '{"a":NaN}',
    '{"a":-0}',
    '{"a":1' + "0" * 29 + "}",
    '{"a":1' + "0" * 30 + "}",
    '{"a":1' + "0" * 29 + "1}",
    '{"a":[-1' + "0" * 40 + "]}",
    "1" + "0" * 40,
    '{"a":18446744073709551615,"b":18446744073709551616}',
    '{"a":"\\ud800"}',
    '{"a":"é"}',
    "[" * 5000,
    "[" * 5000 + "]" * 5000,
    '{"a":1}x',
    "\ufeff1",
    "",
)


def outcome(reader: Callable[[str | bytes], Any], text: str | bytes) -> object:
    try:
        return "read", repr(reader(text))
    except (ValueError, RecursionError) as error:
        return type(error), str(error)


@pytest.mark.parametrize("text", RECORDS, ids=lambda text: text[:20])
def test_a_record_is_read_as_strictly_as_any_json(text: str) -> None:
    assert outcome(strict_json.loads_record, text) == outcome(strict_json.loads, text)
    assert outcome(strict_json.loads_record, text.encode()) == outcome(strict_json.loads, text.encode())


@settings(derandomize=True)
@given(data=st.data())
def test_a_record_cut_or_changed_anywhere_is_read_as_any_json(data: st.DataObject) -> None:
    text = strict_json.dumps(data.draw(VALUES))
    at, other = data.draw(st.integers(0, len(text))), data.draw(st.sampled_from(["", "0", "e", '"', ",", "9" * 40, "\\ud800"]))
    for changed in (text, text[:at], text[:at] + other + text[at:]):
        assert outcome(strict_json.loads_record, changed) == outcome(strict_json.loads, changed)


def test_bytes_that_are_no_utf_8_are_refused() -> None:
    for reader in (strict_json.loads, strict_json.loads_record):
        with pytest.raises(ValueError, match="utf-8"):
            reader(b'{"a":"\xff"}')
