"""The committed reports: the index links what is there.

Each page is small and names no folder of the machine.
"""

from __future__ import annotations

import re
from html import unescape

import pytest

from tests.support import ROOT

REPORTS = ROOT / "reports"
MAX_BYTES = 1_500_000
PAGES = sorted(REPORTS.glob("**/*.html"))


def test_there_are_pages() -> None:
    assert len(PAGES) >= 7


def test_the_index_links_every_page() -> None:
    links = set(re.findall(r'href="([^"#]+)"', (REPORTS / "index.html").read_text(encoding="utf-8")))
    assert links == {str(path.relative_to(REPORTS)) for path in REPORTS.glob("*/report.html")}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(REPORTS)))
def test_figures_need_no_script(path) -> None:
    """Why: a figure drawn by a script appears only after all of the page is read."""
    page = path.read_text(encoding="utf-8")
    drawn = [cell for cell in re.split(r'<div class="cell" data-cell="\d+">', page)[1:] if "<svg" in cell[:200]]
    assert len(drawn) == page.count('data-cell="')
    (script,) = re.finditer(r"<script(?! type=.application/json)", page)
    assert page.find("<svg") < page.rfind("</figure>") < script.start() or page.count("<figure") == 0
    assert re.findall(r'<link|@import|<img|src="', page) == []


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(REPORTS)))
def test_a_page_is_whole(path) -> None:
    page = path.read_text(encoding="utf-8")
    assert len(page) < MAX_BYTES
    assert re.findall(r"(?:/tmp|/work|/home|/root)/", page) == []
    captions = [
        unescape(re.sub(r"<[^>]*>", "", text)) for text in re.findall(r"<figcaption>(.*?)</figcaption>", page, re.DOTALL)
    ]
    assert [caption for caption in captions if len(caption.split()) > 60] == []
    assert all((path.parent / name).exists() for name in re.findall(r'href="([^"#]+\.png)"', page))


def test_no_text_of_third_party_source_is_committed() -> None:
    for name in ("triton-matmul", "liger-rms-norm", "mamba-chunk-scan", "paged-decode"):
        assert "tl.load" not in (REPORTS / name / "report.html").read_text(encoding="utf-8")
