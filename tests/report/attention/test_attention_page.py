"""The report on attention from invented results.

Tested are structure, safety, labels, and what is said where data are missing.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from ioaware.analysis.theory.claims.claim import Claim
from ioaware.errors import UsageError, WriteError
from ioaware.report.attention.attention_page import Contents, attention_page
from ioaware.report.attention.recorded_bytes import NONE
from ioaware.report.figures.roofline import Roofs
from ioaware.report.inline_text import json_block
from ioaware.report.pages.document import render, write_document
from ioaware.result import Check, Launch, Result, Traffic
from tests.support.hostile_texts import PAYLOADS, RAW_NEVER, Structure

NOW = datetime(2026, 1, 2, 3, 4, tzinfo=UTC)
FIGURES = ("traffic", "traffic_causal", "blocks", "memory", "many_gpus", "link_roofline", "roofline")


@pytest.fixture(scope="module")
def contents(results: Sequence[Result], full_claims: Sequence[Claim], full_roofs: Roofs) -> Contents:
    return Contents(results, full_claims, NONE, roofs=full_roofs, missing=["an invented gap"])


@pytest.fixture(scope="module")
def page(contents: Contents) -> str:
    return render(attention_page(contents, NOW))


def words(html: str) -> str:
    body = re.sub(r"<(script|style)\b.*?</\1>", " ", html, flags=re.DOTALL)
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", body)).split())


def test_sections_come_in_the_order_of_the_argument(page: str) -> None:
    sections = re.findall(r'<section id="([\w-]+)"', page)
    assert sections == [
        "first", "walk", "theory", "measurements", "speed", "third-party", "accuracy", "headlines", "fused", "systems",
        "environment",
    ]  # fmt: skip
    assert re.findall(r'<figure id="(\w+)"', page) == list(FIGURES)


def test_what_it_says(page: str) -> None:
    text = words(page)
    for said in (
        "an invented gap",
        "holds Theorem 1 An invented statement.",
        "inconclusive Theorem 2",
        "An invented note.",
        "out of memory",
        "SM clock fell during the point",
        "NVIDIA Invented",
        "2026-01-02 03:04 UTC",
        "power_w",
        "were recorded earlier",
        "not measured yet",
    ):
        assert said in text, said


def test_the_first_screen_has_one_sentence(page: str) -> None:
    """How few bytes FlashAttention moves stands with the bytes over N."""
    (said,) = re.findall(r'<p class="headline">(.*?)</p>', page)
    assert re.findall(r"[.?!](?=\s|$)", said) == ["."]
    first, measured = page.split('<section id="measurements">')
    assert "standard attention moves" not in words(first)
    assert "standard attention moves" in words(measured).split("Speed")[0]


def test_environments_appear_once(page: str) -> None:
    assert page.count("NVIDIA Invented") == 1


def test_live_measurements_are_labelled(contents: Contents) -> None:
    live = words(render(attention_page(replace(contents, live=True), NOW)))
    assert "were measured in this run" in live
    assert "were recorded earlier" not in live


def test_without_data_every_section_says_what_is_missing() -> None:
    text = words(render(attention_page(Contents([], [], NONE), NOW)))
    for said in (
        "No walk was made",
        "No claim was checked",
        "No race is recorded",
        "No measurement",
        "not checked in this run",
    ):
        assert said in text, said


def test_the_policy_allows_exactly_the_script_and_style_of_the_page(page: str) -> None:
    policy = unescape(re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)[0])
    inside = page.rpartition("<script>")[2].partition("</script>")[0], *re.findall(r"<style>(.*?)</style>", page, re.DOTALL)
    script, style = ("sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in inside)
    assert policy == (f"default-src 'none'; script-src '{script}'; style-src '{style}'; base-uri 'none'; form-action 'none'")
    assert " style=" not in page
    assert "http" not in page.replace("http-equiv", "").replace("http://www.w3.org/2000/svg", "")


def test_a_picture_per_figure_and_no_file_half_written(
    make_result: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = [make_result("flash2", n, source=source) for n in (512, 1024) for source in ("predict", "measure")]
    path = write_document(attention_page(Contents(few, [], NONE), NOW), tmp_path)
    assert {one.name for one in tmp_path.iterdir()} == {
        "report.html",
        "traffic.png",
        "memory.png",
        "many_gpus.png",
        "link_roofline.png",
        "roofline.png",
    }
    before = path.read_bytes()

    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(WriteError, match="No space left"):
        write_document(attention_page(Contents([], [], NONE), NOW), tmp_path)
    assert path.read_bytes() == before
    assert len(list(tmp_path.iterdir())) == 6


def test_without_the_library_of_the_pngs_there_is_one_clear_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ioaware.report.svg.rasterise.find_spec", lambda _: None)
    with pytest.raises(UsageError, match="resvg-py"):
        write_document(attention_page(Contents([], [], NONE), NOW), tmp_path)
    assert not list(tmp_path.iterdir())


def test_repeated_texts_come_back_from_the_rows_that_have_them(page: str) -> None:
    data = json.loads(page.split('id="data">')[1].split("</script>")[0])
    texts = [text for run in data["traffic"]["runs"] for text in run[-1]]
    again = [text for text in texts if isinstance(text, int)]
    assert again
    assert all(isinstance(texts[number], list) for number in again)


def test_json_cannot_end_its_element() -> None:
    texts = ["</script>", "<!--<script>", "&amp;", "\u2028"]
    block = json_block(texts)
    assert not set(block) & set("<>&\u2028")
    assert json.loads(block) == texts


def hostile_contents(texts: Sequence[str], make: Callable[..., Result]) -> Contents:
    """Return contents with each text in every text field."""
    results = [make("flash2", n, source=source) for n in (256, 512) for source in ("predict", "measure")]
    for number, text in enumerate(texts):
        facts = {f"{number} {text}": {f"{number}": text, "list": [text]}}
        params: dict[str, Any] = {f"{number} {text}": text}
        results.append(
            Result(
                "measure", f"{number} {text}", params, Traffic(1, 1, read_formula=text), launches=(Launch(text, notes=(text,)),)
            )
        )
        results.append(
            make("flash1", 300 + number, source="measure", notes=(f"{number} {text}",), environment=facts, telemetry=facts)
        )
        results.append(make("flash1", 64, source="measure", status="failed", notes=(text,), check=Check(1.0, 0.1)))
    part = [{"part": text, "says": text, "expected": text, "observed": text, "points": 1, "verdict": text} for text in texts]
    power = {"exponent": 2.0, "low": 1.9, "high": 2.1, "expected": 2, "points": 4, "verdict": "holds"}
    exponents = [{"quantity": text, "variable": text, **power} for text in texts]
    compared = [{"part": text, "where": text, "expected": text, "observed": text} for text in texts]
    evidence = {"parts": part, "exponents": exponents, "points": compared, "notes": list(texts)}
    claims = [Claim("theorem2", "statement", "source", "holds", evidence)]
    claims += [Claim(f"{number} {text}", text, text, "fails", {}) for number, text in enumerate(texts)]
    environment = {f"{number} {text}": text for number, text in enumerate(texts)}
    roofs = Roofs(texts[0], 1e12, 1e14, texts[1])
    checks = {case: {"trace": Result("trace", texts[0], {}, status="failed", notes=tuple(texts))} for case in ("flash2", "gqa")}
    return Contents(
        results, claims, NONE, roofs=roofs, checks=checks, missing=list(texts), environment=environment
    )  # fmt: skip


@pytest.fixture(scope="module")
def hostile(make_result: Callable[..., Result]) -> str:
    return render(attention_page(hostile_contents(PAYLOADS, make_result), NOW))


def test_the_structure_is_that_of_harmless_text(hostile: str, make_result: Callable[..., Result]) -> None:
    harmless = render(attention_page(hostile_contents([f"harmless {number}" for number in range(50)], make_result), NOW))
    typeset = {"math", "mrow", "mi", "mn", "mo", "msup", "msub", "msqrt", "mspace", "wbr"}
    first, second = (
        [("td", ()) if tag == ("td", ("class",)) else tag for tag in Structure(text).tags if tag[0] not in typeset]
        for text in (hostile, harmless)
    )
    # a formula in a text is typeset, by elements of MathML; a name may be divided; a cell of long text has a class
    assert first == second
    assert {tag for tag in Structure(hostile).tags if tag[0] in typeset} <= {
        *((name, ()) for name in typeset), ("mspace", ("width",)), ("mo", ("form",)),
    }  # fmt: skip


def test_no_payload_is_unescaped(hostile: str) -> None:
    assert [payload for payload in RAW_NEVER if payload in hostile] == []
    for text in ("{{7*7}}", "&lt;svg onload=alert(1)&gt;", "\\x1b[31mred", "user\\u202egnp.exe"):
        assert text in hostile, text


def test_no_link_leaves_the_report(hostile: str) -> None:
    assert all(link.startswith("#") or link.endswith(".png") for link in Structure(hostile).links)
    assert all(":" not in link and "//" not in link for link in Structure(hostile).links)
