"""Fifty HTML payloads in every text of the report change nothing.

They change neither its structure nor its scripts.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from ioaware.analysis.theory.claims.claim import Claim
from ioaware.report.build import build_report
from ioaware.report.figures.roofline import Roofs
from ioaware.report.inline_text import plotly_bundle
from ioaware.result import Check, Launch, Result, Traffic
from tests.support.hostile_texts import PAYLOADS, RAW_NEVER, Structure

NOW = datetime(2026, 1, 2, 3, 4, tzinfo=UTC)


def payloads_everywhere(texts: Sequence[str], make: Callable[..., Result]) -> tuple[list[Result], list[Claim], dict[str, Any]]:
    """Return results and claims with each text in every text field.

    The arguments of the report are returned too.
    """
    results = [make("flash2", n, source=source) for n in (256, 512) for source in ("predict", "measure")]
    for number, text in enumerate(texts):
        facts = {f"{number} {text}": {f"{number}": text, "list": [text]}}
        params: dict[str, Any] = {f"{number} {text}": text}
        launches = (Launch(text, notes=(text,)),)
        results.append(Result("measure", f"{number} {text}", params, Traffic(1, 1, read_formula=text), launches=launches))
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
    arguments = {"missing": list(texts), "environment": {f"{number} {text}": text for number, text in enumerate(texts)}}
    return results, claims, arguments


def build(folder: Path, texts: Sequence[str], make: Callable[..., Result]) -> str:
    results, claims, arguments = payloads_everywhere(texts, make)
    roofs = Roofs(texts[0], 1e12, 1e14, texts[1])
    path = build_report(folder, results, claims, live=False, roofs=roofs, now=NOW, **arguments)
    return path.read_text(encoding="utf-8").replace(plotly_bundle(), "")


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory, make_result: Callable[..., Result]) -> str:
    return build(tmp_path_factory.mktemp("hostile"), PAYLOADS, make_result)


def test_there_are_fifty() -> None:
    assert len(set(PAYLOADS)) == 50


def test_the_structure_is_that_of_harmless_text(hostile: str, tmp_path: Path, make_result: Callable[..., Result]) -> None:
    harmless = build(tmp_path, [f"harmless {number}" for number in range(50)], make_result)
    assert Structure(hostile).tags == Structure(harmless).tags


def test_no_payload_is_unescaped(hostile: str) -> None:
    assert [payload for payload in RAW_NEVER if payload in hostile] == []


def test_the_fields_are_shown_escaped(hostile: str) -> None:
    for text in ("{{7*7}}", "&lt;svg onload=alert(1)&gt;", "\\x1b[31mred", "user\\u202egnp.exe", "(1,000,000 characters)"):
        assert text in hostile, text


def test_no_link_leaves_the_report(hostile: str) -> None:
    assert all(link.startswith("#") or link.endswith(".png") for link in Structure(hostile).links)
    assert all(":" not in link and "//" not in link for link in Structure(hostile).links)


def test_no_text_of_a_graph_is_markup(hostile: str) -> None:
    """plotly renders some HTML, links included.

    Only its line breaks and bold may remain.
    """
    block = hostile.split('id="graphs">', 1)[1].split("</script>", 1)[0]
    for text in _strings(json.loads(block)):
        rest = text.replace("<br>", "").replace("<b>", "").replace("</b>", "")
        assert "<" not in rest.replace("<extra></extra>", "")


def _strings(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for item in items for text in _strings(item)]
