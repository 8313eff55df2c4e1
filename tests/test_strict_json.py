"""Errors of TOML files are the project's own sentences."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

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
