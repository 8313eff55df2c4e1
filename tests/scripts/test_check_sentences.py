"""Sentences have at most 25 words."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts import check_sentences

SHORT = "This sentence " + "really " * 22 + "ends."
LONG = "This sentence " + "really " * 23 + "ends."
PLACES = {
    "page.md": "# Title\n\nFirst. {}\n",
    "list.md": "- one\n- {}\n- three\n",
    "docstring.py": '"""Short.\n\n{}\n"""\n',
    "field.py": 'class A:\n    a: int\n    """Short.\n\n    {}\n    """\n',
    "comment.py": "# {}\nA = 1\n",
}


@pytest.mark.parametrize("name", PLACES)
def test_a_long_sentence_is_found_in_each_place(tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / name
    file.write_text(PLACES[name].format(LONG.replace(" ends", "\n    ends" if "field" in name else " ends")))
    assert check_sentences.main([str(file)]) == 1
    assert f"{file}:" in (shown := capsys.readouterr().out)
    assert "26 words" in shown
    file.write_text(PLACES[name].format(SHORT))
    assert check_sentences.main([str(tmp_path)]) == 0


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("code.md", f"```\n{LONG}\n```\n"),
        ("table.md", f"| {LONG} |\n|---|\n"),
        ("formula.py", f'"""Short.\n\nFormulas:\n    {LONG}\n"""\n'),
        ("code.py", f'A = "{LONG}"\n'),
        ("symbols.md", "Reads " + "`seq_len` N 2 d + 1, " * 30 + "in all.\n"),
        ("two.md", f"{SHORT} {SHORT}\n\n{SHORT}\n"),
    ],
)
def test_what_is_no_sentence_may_be_long(tmp_path: Path, name: str, text: str) -> None:
    file = tmp_path / name
    file.write_text(text)
    assert check_sentences.main([str(file)]) == 0
