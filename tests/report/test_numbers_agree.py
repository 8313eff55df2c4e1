"""A number is the same wherever a committed page shows it.

Compared are sentences, tables, figures and their data.
"""

from __future__ import annotations

import re
from collections import Counter
from html import unescape
from pathlib import Path

import pytest

from tests.support import ROOT
from tests.support.page_data import page_data

REPORTS = ROOT / "reports"
ATTENTION = REPORTS / "h200" / "report.html"
TARGETS = sorted(path for path in REPORTS.glob("*/report.html") if 'id="hot"' in path.read_text(encoding="utf-8"))


def plain(html: str) -> str:
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", html)).split())


def between(page: str, start: str, end: str) -> str:
    return page.partition(start)[2].partition(end)[0]


def rows(page: str, label: str) -> list[list[str]]:
    """Return the texts of the cells of the table with this label."""
    table = between(between(page, f'aria-label="{label}"', "</table>"), "<tbody>", "</tbody>")
    return [[plain(one) for one in re.findall(r"<td.*?>(.*?)</td>", row, re.DOTALL)] for row in table.split("</tr>")[:-1]]


def numbers(page: str) -> dict[str, str]:
    """Return the large numbers of a page by name."""
    found = between(page, '<dl class="numbers', "</dl>")
    values, names = re.findall(r"<dd>(.*?)</dd>", found), re.findall(r"<dt>(.*?)</dt>", found)
    return dict(zip(map(unescape, names), map(unescape, values), strict=True))


def test_accuracy_is_that_of_the_docs() -> None:
    page = ATTENTION.read_text(encoding="utf-8")
    shown = {row[0]: [cell.removesuffix(" %") for cell in row[1:5]] for row in rows(page, "Accuracy over all kernels")}
    lines = (ROOT / "docs" / "results" / "simulation-accuracy.md").read_text(encoding="utf-8").splitlines()
    cells = [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in lines if line.startswith("| all | ")]
    assert {name: numbers for _, name, *numbers in (row[:6] for row in cells)} == shown


def test_the_attention_page() -> None:
    page = ATTENTION.read_text(encoding="utf-8")
    shown, text = numbers(page), plain(between(page, "<main", "</main>"))
    libraries = rows(page, "Third-party kernels by library")
    equal, totals = (sum(int(row[column]) for row in libraries) for column in (3, 2))
    assert shown["sector totals equal to the last sector"] == f"{equal} of {totals}"
    kernels = sum(int(row[1]) for row in libraries)
    assert f"of {kernels} third-party kernels" in text
    for path in ("README.md", "docs/results/agreement.md"):
        quoted = re.sub(r"[\s*]+", " ", (ROOT / path).read_text(encoding="utf-8"))
        assert re.search(rf"{equal} of {totals} (sector )?totals of {kernels} (third-party )?kernels", quoted), path
    reads = next(row for row in rows(page, "Accuracy over all kernels") if row[0] == "HBM reads")
    assert shown["median error of simulated HBM reads"] == reads[2]
    assert f"of {reads[1]} launches and calls in steady state; 95 % of them within {reads[3]}" in text
    counts = {
        name: int(count)
        for name, count in re.findall(r">([^<>]*) \((\d+)\)</li>", between(page, 'id="agreement"', "</figure>"))
    }
    assert len(counts) == 5
    drawn = Counter(row[2] for row in page_data(page)["agreement"]["rows"] if row[1] == 0)
    assert {name: drawn[f"{name} ({count})"] for name, count in counts.items()} == counts
    systems = len(re.findall(r'<details class="system"', page))
    assert f"{systems} systems:" in text
    (lost, raced) = re.findall(r"At (\d+) of (\d+) points", text)[0]
    race = rows(page, "Speed against the best other back end")
    assert (int(lost), int(raced)) == (sum(int(row[7]) for row in race if row[7] != "none"), sum(int(row[4]) for row in race))


@pytest.mark.parametrize("path", TARGETS, ids=lambda path: path.parent.name)
def test_a_targets_page(path: Path) -> None:
    page = path.read_text(encoding="utf-8")
    shown, headline = numbers(page), plain(between(page, '<p class="headline">', "</p>"))
    bars = [row[2] for row in page_data(page)["bytes"]["rows"]]
    for name, value in shown.items():
        if name == "requested":
            moved = value.removeprefix("≤ ")
            most = "at most " if moved != value else ""
            assert f"request {most}{moved}," in headline or value == "data decide"
            assert value == "data decide" or any(text.startswith(moved) for text in bars)
        elif name in ("HBM, simulated", "compulsory"):
            assert value in headline
            assert any(text.startswith(value) for text in bars)
        else:
            assert value in [row[-1] for row in rows(page, "Least times")]


@pytest.mark.parametrize("path", TARGETS, ids=lambda path: path.parent.name)
def test_the_bytes_of_a_page_add_up(path: Path) -> None:
    """The launches' bytes are those of the first figure and of its data."""
    page = path.read_text(encoding="utf-8")
    whole_table = between(page, 'aria-label="Launches"', "</table>")
    table = between(whole_table, "<tbody>", "</tbody>")
    launches = [re.findall(r"<td(?:[^>]*?data-v=\"([^\"]*)\")?[^>]*>(.*?)</td>", row) for row in table.split("</tr>")[:-1]]
    names = [
        re.sub("<.*?>", "", name) for name in re.findall(r"<th.*?</th>", between(page, 'aria-label="Launches"', "</table>"))
    ]
    moving = [at for at, name in enumerate(names) if name in ("reads", "writes", "atomics")]
    own = [row for row in launches if "(torch)" not in row[1][1]]
    whole = page_data(page)["bytes"]["rows"][0][1]
    assert sum(int(row[at][0] or 0) for row in own for at in moving) == whole
    if "launches" in page_data(page):
        bars = page_data(page)["launches"]["rows"]
        assert sum(moved for name, moved, *_ in bars if "(torch)" not in name) == whole
