"""Formulas in sentences as MathML: what is a formula, and what is not."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any

import pytest

from ioaware.report.attention.typography import typeset
from tests.support.hostile_texts import PAYLOADS

ELEMENTS = frozenset({"math", "mrow", "mi", "mn", "mo", "msup", "msub", "msqrt", "mspace", "mover"})


class Outline(HTMLParser):
    """The text of a sentence.

    Formulas are in braces, powers and indices in brackets behind ^ and _.
    """

    def __init__(self, html: str) -> None:
        super().__init__()
        self.text, self.open, self.seen = "", list[list[Any]](), set[tuple[str, Any]]()
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add((tag, tuple(attrs)))
        if self.open and self.open[-1][0] in ("msup", "msub"):
            self.open[-1][1] += 1
            self.text += {"msup": "^[", "msub": "_["}[self.open[-1][0]] if self.open[-1][1] == 2 else ""
        self.text += {"math": "{", "msqrt": "√[", "mspace": " "}.get(tag, "")
        self.open.append([tag, 0])

    def handle_endtag(self, tag: str) -> None:
        self.open.pop()
        self.text += {"math": "}", "msqrt": "]", "msup": "]", "msub": "]"}.get(tag, "")

    def handle_data(self, data: str) -> None:
        self.text += data


def outline(text: str) -> str:
    return Outline(typeset(text)).text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("moves Theta(N^2 d^2 / M) elements", "moves {Θ(N^[2] d^[2]/M)} elements"),
        ("o = e^(b1 - b) o1", "{o=e^[b_[1]−b] o_[1]}"),
        ("only if T_c (3d + 4) <= 4N.", "only if {T_[c] (3d+4)≤4N}."),
        ("N^2 d / sqrt(M), at least (1 + sqrt 3) M", "{N^[2] d/√[M]}, at least {(1+√[3]) M}"),
        ("2^-11 and M^-1 of seq_len", "{2^[−11]} and {M^[−1]} of seq_len"),
        ("O = softmax(Q K^T) V with O(N) memory", "{O=softmax(Q K^[T]) V} with {O(N)} memory"),
        ("B_r = ceil(M / 4d) rows", "{B_[r]=⌈M/4d⌉} rows"),
        ("e^(m - m') l~ of d'_i", "{e^[m−m^[′]] l~} of {d^[′]_[i]}"),
        ("block j of S as S_(:, j:j+1)", "block j of {S} as {S_[:,j:j+1]}"),
        ("sum |p| of S_ij, sum_j x_j", "{∑|p|} of {S_[ij]}, {∑_[j] x_[j]}"),
    ],
)
def test_formulas_are_typeset(text: str, shown: str) -> None:
    assert outline(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "A row of 12 blocks", "Algorithm 1 (arXiv 2307.08691)", "all-to-all over heads", "flash2_bwd moves 3 tiles", "eq. (14)",
        "Algorithm 1's blocks", "the notes' section 4.1", "the blocks of GPUs' heads", "'sub-quadratic' is a word",
        "and FlashAttention-2, in (half",
        "what the L1 holds is read - again", "within 0.10% at 49 points", "and (half a",
    ],
)  # fmt: skip
def test_words_and_numbers_stay_text(text: str) -> None:
    assert outline(text) == text


@pytest.mark.parametrize("text", [*PAYLOADS, *(f"N^2 {text} = {text}^{text}_{text}" for text in PAYLOADS)], ids=repr)
def test_hostile_text_becomes_no_element(text: str) -> None:
    seen = Outline(typeset(text)).seen
    assert seen <= {*((name, ()) for name in ELEMENTS), ("mspace", (("width", "0.18em"),))}


@pytest.mark.parametrize(
    "text", ["(" * 1000, "sqrt(" * 200, "a^" * 500, "N_" * 500, "[|" * 400], ids=["(", "sqrt", "^", "_", "|"]
)
def test_deep_brackets_end(text: str) -> None:
    assert typeset(text)
