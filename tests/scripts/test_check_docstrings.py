"""First lines of docstrings are at most 80 characters long."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts import check_docstrings

LONG = "x" * 81
PLACES = {
    "module": f'"""{LONG}"""\n',
    "class": f'class A:\n    """{LONG}"""\n',
    "function": f'def f():\n    """{LONG}\n\n    Rest.\n    """\n',
    "constant": f'A = 1\n"""{LONG}"""\n',
    "field": f'class A:\n    a: int\n    """{LONG}"""\n',
}


@pytest.mark.parametrize("source", PLACES.values(), ids=PLACES)
def test_a_long_first_line_is_found_in_each_place(tmp_path: Path, source: str, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "a.py"
    file.write_text(source)
    assert check_docstrings.main([str(tmp_path)]) == 1
    assert f"{file}:" in capsys.readouterr().out
    file.write_text(source.replace(LONG, LONG[:80]))
    assert check_docstrings.main([str(file)]) == 0


def test_other_strings_may_be_long(tmp_path: Path) -> None:
    file = tmp_path / "a.py"
    file.write_text(f'"""Short.\n\n{LONG}\n"""\nA = """{LONG}"""\nprint("""{LONG}""")\n')
    assert check_docstrings.main([str(file)]) == 0
