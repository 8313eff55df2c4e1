"""Untrusted text is printed without characters that move, hide or reorder others."""

from __future__ import annotations

import unicodedata

from hypothesis import given, settings
from hypothesis import strategies as st

from ioaware.display.text import MAX_LENGTH, clean, without_folders


def test_controls_and_direction_marks_are_escaped() -> None:
    assert clean("a\x1b[31mb") == "a\\x1b[31mb"
    assert clean("user\u202egnp.exe") == "user\\u202egnp.exe"
    assert clean("one\ntwo\tthree") == "one two three"


def test_a_very_long_name_is_cut_with_its_length() -> None:
    text = clean("x" * 10**6)
    assert len(text) < MAX_LENGTH + 40
    assert text.endswith("… (1,000,000 characters)")


@settings(derandomize=True, deadline=None)
@given(st.text())
def test_every_printed_character_is_visible(text: str) -> None:
    categories = {unicodedata.category(character) for character in clean(text)}
    assert not categories & {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


@settings(derandomize=True, deadline=None)
@given(st.text(alphabet=st.characters(categories=["L", "N", "P", "S"]), max_size=MAX_LENGTH))
def test_ordinary_text_is_unchanged(text: str) -> None:
    assert clean(text) == text


def test_targets_are_without_folders_of_their_file() -> None:
    assert without_folders("/home/a/b.py:f") == "b.py:f"
    assert without_folders("package.module:f") == "package.module:f"
    assert without_folders("flash2") == "flash2"
