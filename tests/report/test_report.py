"""The report as files: one self-contained page.

The tests cover its policy, size, structure and notes.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from ioaware.errors import UsageError, WriteError
from ioaware.report.build import build_report
from ioaware.report.inline_text import json_block, plotly_bundle
from ioaware.result import Result

NOW = datetime(2026, 1, 2, 3, 4, tzinfo=UTC)
MAX_PAGE_BYTES = 6_000_000
FIGURES = ("traffic", "traffic_causal", "blocks", "memory", "roofline", "exponents")


class Page(HTMLParser):
    """Tags, attributes, visible text and inline scripts of a page.

    They are as a browser parses them.
    """

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self.words: list[str] = []
        self._inside = ""
        self.feed(html)
        self.text = " ".join(" ".join(self.words).split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        self._inside = tag if tag in ("script", "style") else self._inside
        if tag == "script":
            self.scripts.append((dict(attrs), ""))

    def handle_endtag(self, tag: str) -> None:
        if tag == self._inside:
            self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside == "script":
            attrs, before = self.scripts[-1]
            self.scripts[-1] = attrs, before + data
        elif not self._inside:
            self.words.append(data)

    def ids(self) -> list[str]:
        return [value for _, name, value in self.attributes if name == "id"]

    def policy(self) -> str:
        return next(value for _, name, value in self.attributes if name == "content" and "default-src" in value)


@pytest.fixture(scope="module")
def built(
    results: Sequence[Result], tmp_path_factory: pytest.TempPathFactory, full_claims: Sequence[Any], full_roofs: Any
) -> Path:
    folder = tmp_path_factory.mktemp("report")
    return build_report(folder, results, full_claims, live=False, roofs=full_roofs, missing=["an invented gap"], now=NOW)


@pytest.fixture(scope="module")
def page(built: Path) -> Page:
    return Page(built.read_text(encoding="utf-8"))


def test_one_page_and_a_png_per_figure(built: Path) -> None:
    assert built.name == "report.html"
    names = {path.name for path in built.parent.iterdir()}
    assert names == {"report.html", *(f"{name}.png" for name in FIGURES)}
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in built.parent.glob("*.png"))


def test_the_structure_of_the_page(page: Page) -> None:
    assert page.ids() == ["summary", *FIGURES, "claims", "points", "environment", "graphs"]
    for text in (
        "In short",
        "Recorded.",
        "Missing: an invented gap",
        "Theorem 2 is inconclusive",
        "inconclusive Theorem 2",
        "An invented note.",
        "Points not drawn, or drawn apart",
        "Outputs against the float64 reference",
        "NVIDIA Invented",
        "2026-01-02 03:04 UTC",
        "power_w",
    ):
        assert text in page.text, text


def test_the_order_of_the_three_counts_is_stated_with_its_exception(built: Path) -> None:
    """A measured point may lie below the compulsory bytes.

    It does so by what is not yet written back.
    """
    page = built.read_text(encoding="utf-8")
    stated = [line for line in page.splitlines() if "compulsory ≤ HBM ≤ requested" in line]
    assert len(stated) == 1
    assert "but for writes that the L2 still holds" in stated[0]


def test_failed_and_unstable_points_are_listed_with_their_reasons(page: Page) -> None:
    assert "out of memory" in page.text
    assert "SM clock fell during the point" in page.text
    assert re.search(r"flash2 measure failed .*head_dim=256", page.text)


def test_live_and_recorded_reports_are_labelled(tmp_path: Path, result_of: Callable[..., Result]) -> None:
    results = [result_of("flash2", 512, source="measure")]
    live = Page(build_report(tmp_path, results, [], live=True, now=NOW).read_text("utf-8")).text
    assert "Live." in live
    assert "Recorded." not in live
    without = Page(build_report(tmp_path, [result_of("flash2", 512)], [], live=True, now=NOW).read_text("utf-8")).text
    assert "No measurement." in without
    assert "Live." not in without


def test_the_policy_allows_exactly_the_scripts_of_the_page(page: Page) -> None:
    executed = [text for attrs, text in page.scripts if attrs.get("type") != "application/json"]
    digests = {f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'" for text in executed}
    directives = dict(part.strip().split(" ", 1) for part in page.policy().split(";"))
    assert len(executed) == 2
    assert set(directives["script-src"].split()) == digests
    assert directives["default-src"] == "'none'"
    assert directives["img-src"] == "data:"
    assert "connect-src" not in directives


def test_nothing_is_fetched(built: Path, page: Page) -> None:
    links = [value for _, name, value in page.attributes if name in ("src", "href", "srcset", "action", "poster", "data")]
    pngs = {path.name for path in built.parent.glob("*.png")}
    assert all(value.startswith("#") or value in pngs for value in links)
    assert "http" not in built.read_text("utf-8").replace(plotly_bundle(), "").replace("http-equiv", "")


def test_the_graphs_on_the_page_are_the_graphs_in_its_data(page: Page) -> None:
    graphs = json.loads(next(text for attrs, text in page.scripts if attrs.get("id") == "graphs"))
    places = [value for _, name, value in page.attributes if name == "data-graph"]
    assert places == list(graphs)


def test_small_enough_with_five_hundred_points(built: Path, results: Sequence[Result]) -> None:
    assert len(results) >= 500
    assert built.stat().st_size <= MAX_PAGE_BYTES


def test_equal_input_gives_equal_files(tmp_path: Path, result_of: Callable[..., Result], claim_of: Callable[..., Any]) -> None:
    results = [result_of("flash2", n, source=source) for n in (256, 512) for source in ("predict", "trace", "measure")]
    first, second = tmp_path / "a", tmp_path / "b"
    for folder in (first, second):
        build_report(folder, results, [claim_of()], live=False, now=NOW)
    for path in first.iterdir():
        assert path.read_bytes() == (second / path.name).read_bytes(), path.name


def test_an_empty_report_lists_what_is_missing(tmp_path: Path) -> None:
    path = build_report(tmp_path, [], [], live=False, now=NOW)
    text = Page(path.read_text("utf-8")).text
    for sentence in ("No measurement", "No claim was checked", "There is no traced or measured point", "no GPU to describe"):
        assert sentence in text, sentence
    assert [entry.name for entry in tmp_path.iterdir()] == ["report.html"]


def test_a_failed_write_leaves_the_last_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = build_report(tmp_path, [], [], live=False, now=NOW)
    before = path.read_bytes()

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(WriteError, match="No space left"):
        build_report(tmp_path, [], [], live=True, missing=["another"], now=NOW)
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["report.html"]


def test_a_page_is_replaced_only_when_complete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = build_report(tmp_path, [], [], live=False, now=NOW)
    before = path.read_bytes()

    def refuse(*_: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(WriteError, match="Input/output error"):
        build_report(tmp_path, [], [], live=True, missing=["another"], now=NOW)
    assert path.read_bytes() == before


def test_json_cannot_end_its_element() -> None:
    texts = ["</script>", "<!--<script>", "&amp;", "\u2028"]
    block = json_block(texts)
    assert not set(block) & set("<>&\u2028")
    assert json.loads(block) == texts


def test_a_file_in_the_way_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "report").write_text("in the way")
    with pytest.raises(WriteError, match="cannot be written"):
        build_report(tmp_path / "report", [], [], live=False)


def test_without_plotly_there_is_one_clear_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "plotly.offline", None)
    with pytest.raises(UsageError, match="plotly") as caught:
        build_report(tmp_path, [], [], live=False)
    assert "pip install plotly" in caught.value.remedy
    assert not list(tmp_path.iterdir())
