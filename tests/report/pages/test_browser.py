"""The pages in a real browser at 390 and 1400 px.

Every figure is drawn, nothing overflows, the console has no message, and keys work.
"""

from __future__ import annotations

import contextlib
import csv
import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from html import unescape
from pathlib import Path
from typing import Any

import click
import pytest

from ioaware.cli.options import Settings
from ioaware.cli.reports.report_data import walks
from ioaware.cli.reports.store_report import document_of
from ioaware.cli.reports.target_report import compared, findings_of
from ioaware.report.attention.attention_page import Contents, attention_page
from ioaware.report.attention.recorded_bytes import shipped
from ioaware.report.pages.document import Document, write_document
from ioaware.report.pages.target_page import target_page
from ioaware.sweep.claim_evidence import recorded_race
from tests.support import ROOT, SUPPORT
from tests.support.invented_results import ROOFS, claim, everything

BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
TARGETS = f"{SUPPORT}/targets/derived_targets.py"
pytestmark = [pytest.mark.slow, pytest.mark.skipif(BROWSER is None, reason="no Chromium here: apt-get install chromium")]

RENDERED = sorted((ROOT / "reports").glob("**/*.html"))

PROBE = """<!DOCTYPE html><body><iframe id="page" src="%(page)s" width="%(width)d" height="1600"></iframe><script>
page.onload = async () => {
  const inside = page.contentWindow, words = inside.document;
  const key = (element, name) => element.dispatchEvent(new inside.KeyboardEvent("keydown", {key: name, bubbles: true}));
  const shown = (element) => { const box = element.getBoundingClientRect(); return box.width > 0 && box.height > 0; };
  const area = [...words.querySelectorAll(".area")].find(shown), found = {};
  found.width = words.documentElement.scrollWidth;
  const opened = () => words.querySelectorAll("details[open]").length, before = opened();
  inside.dispatchEvent(new inside.Event("beforeprint"));
  found.printed = opened() === words.querySelectorAll("details").length;
  inside.dispatchEvent(new inside.Event("afterprint"));
  found.folded = opened() === before;
  words.querySelectorAll("details").forEach((one) => { one.open = true; });
  const figures = [...words.querySelectorAll("figure[data-figure]")];
  found.figures = figures.map((one) => [...one.querySelectorAll("svg.plot, svg.bars")].filter(shown).length);
  found.cells = figures.map((one) => one.querySelectorAll(".cell").length);
  found.buttons = [...words.querySelectorAll(".buttons")].every((one) => !one.hidden);
  const look = (one) => inside.getComputedStyle(one);
  const scrolls = (one) => one.scrollWidth > one.clientWidth + 1 && ["auto", "scroll"].includes(look(one).overflowX);
  const unmarked = [...words.querySelectorAll("main *")].filter((one) => scrolls(one) && look(one).backgroundImage === "none");
  found.unmarked = unmarked.map((one) => one.textContent.slice(0, 60));
  const sizes = [...words.querySelectorAll("math *")].filter(shown).map((one) => parseFloat(look(one).fontSize));
  found.smallest = Math.min(9, ...sizes);
  const named = (one) => (one.getAttribute("aria-label") || one.textContent).trim();
  found.named = [...words.querySelectorAll("button, [role=img], [role=group], [role=region]")].every(named);
  if (area) {
    area.scrollIntoView({block: "center"});
    const {left, top, width, height} = area.getBoundingClientRect();
    const places = [0.12, 0.31, 0.53, 0.77, 0.93].flatMap((x) => [0.09, 0.38, 0.66, 0.91].map((y) => [x, y]));
    const under = ([x, y]) => words.elementFromPoint(left + x * width, top + y * height);
    found.surface = places.every((place) => area.contains(under(place)));
    area.focus();
    found.focused = words.activeElement === area;
    key(area, "ArrowRight");
    found.tip = words.getElementById("tip").hidden ? "" : words.getElementById("tip").textContent;
    const rings = () => words.querySelectorAll(".at").length;
    found.rings = rings();
    key(area, "Enter");
    area.blur();
    found.kept = rings();
    key(area, "Escape");
    found.left = rings();
    const figure = area.closest("figure") ?? words.createElement("figure"), toggle = figure.querySelector(".legend button");
    if (toggle) {
      const drawn = [...figure.querySelectorAll("[data-s]")], names = JSON.parse(toggle.parentElement.dataset.series);
      const gone = () => drawn.filter((one) => one.style.display === "none").length;
      toggle.click();
      found.hidden = gone() === drawn.filter((one) => names.includes(one.dataset.s)).length && gone() > 0;
      toggle.click();
      found.back = gone() === 0;
    }
    const search = figure.querySelector("input[type=search]");
    if (search) {
      const type = (text) => {
        search.value = text;
        search.dispatchEvent(new inside.Event("input"));
        return figure.querySelectorAll(".hit").length;
      };
      found.hits = [type(found.tip.split("\\n")[0]), type("no point has this text"), type("")];
    }
    const whole = area.getAttribute("viewBox");
    key(area, "+");
    found.zoomed = area.getAttribute("viewBox") !== whole;
    key(area, "0");
    found.restored = area.viewBox.baseVal.width === area.width.baseVal.value;
  }
  const controls = [...words.querySelectorAll("button, a[href], select, input, summary, .area, [tabindex]")].filter(shown);
  found.reached = controls.every((one) => one.disabled || one.tabIndex >= 0);
  const play = words.querySelector(".walk-play");
  if (play) {
    const walk = play.closest(".walk");
    walk.focus();
    key(walk, "End");
    found.total = walk.querySelector(".walk-count-text").textContent;
  }
  const saved = [];
  inside.URL.createObjectURL = (blob) => { saved.push(blob); return "#"; };
  words.querySelectorAll("[data-save]").forEach((one) => one.click());
  found.saved = await Promise.all(saved.map((blob) => blob.text()));
  const table = words.querySelector("table.sortable");
  if (table) { table.querySelector("th button").click(); found.sorted = table.querySelector("th").getAttribute("aria-sort"); }
  document.body.dataset.found = JSON.stringify(found);
};
</script>"""


@pytest.fixture(scope="module", autouse=True)
def quiet() -> Iterator[None]:
    with click.Context(click.Command("report"), obj=Settings(quiet=True)):
        yield


def document(name: str) -> Document:
    if name == "target":
        return target_page(findings_of("flash2", {"heads": "64", "head_dim": "128", "seq_len": "1024"}, config={}))
    if name == "launches":
        return target_page(findings_of(f"{TARGETS}:one_launch_each", {}, config={}))
    if name == "attention":
        contents = Contents(everything(), [claim()], shipped(), recorded_race(), walks=walks(), roofs=ROOFS)
        return attention_page(contents, datetime(2026, 1, 2, tzinfo=UTC))
    if name == "versions":
        return compared(f"{TARGETS}:flat", f"{TARGETS}:strided", {}, config={}, with_text=True)
    return document_of(None, "h200-blocks")


@pytest.fixture(scope="module", params=["attention", "target", "launches", "versions", "study"])
def page(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_document(document(request.param), tmp_path_factory.mktemp(request.param))


def probe(page: Path, width: int) -> dict[str, Any]:
    """Return what the probe finds in a frame of that width.

    Fails on any message of the console.
    """
    outer = page.with_name(f"probe-{width}.html")
    outer.write_text(PROBE % {"page": page.name, "width": width})
    flags = ("--headless", "--no-sandbox", "--disable-gpu", "--allow-file-access-from-files", "--enable-logging=stderr")
    profile = f"--user-data-dir={page.parent / 'profile'}"
    command = [str(BROWSER), *flags, profile, "--window-size=1500,1700", "--virtual-time-budget=5000", "--dump-dom"]
    dumped, said = dump([*command, outer.as_uri()], page.with_name(f"dump-{width}"))
    assert [line for line in said.splitlines() if "CONSOLE" in line] == []
    (found,) = re.findall(r'data-found="([^"]*)"', dumped)
    return json.loads(unescape(found))


def dump(command: list[str], place: Path) -> tuple[str, str]:
    """Return the document and the log of a browser, which is ended then.

    Some do not end by themselves.
    """
    out, log = place.with_suffix(".html.txt"), place.with_suffix(".log")
    with out.open("wb") as document, log.open("wb") as messages:
        browser = subprocess.Popen(command, stdout=document, stderr=messages, start_new_session=True)
        try:
            for _ in range(1200):
                if b"</html>" in out.read_bytes() or browser.poll() is not None:
                    break
                time.sleep(0.1)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(browser.pid, signal.SIGKILL)
            browser.wait()
    return out.read_text(), log.read_text(errors="replace")


@pytest.mark.parametrize("width", [390, 1400])
def test_a_page_works(page: Path, width: int) -> None:
    found = probe(page, width)
    assert found["width"] <= width
    assert found["figures"] == found["cells"]
    assert min(found["figures"], default=1) > 0
    assert found["unmarked"] == [], "columns are lost without a shadow at the edge"
    assert found["smallest"] == 9, "px of a formula's fractions within indices"
    assert found["buttons"]
    assert (found["printed"], found["folded"]) == (True, True), "paper has what the page folds away"
    assert found["named"]
    assert found["reached"]
    assert "216 B of 216 B" in found.get("total", "216 B of 216 B")
    if "tip" in found:
        assert found["surface"], "the pointer reaches a plot between its lines"
        assert (found["focused"], found["zoomed"], found["restored"]) == (True, True, True)
        assert "=" in found["tip"] or ":" in found["tip"]
        assert found["rings"] == found["kept"] >= 1
        assert found["left"] == 0
        assert found.get("hidden", True)
        assert found.get("back", True)
        hits = found.get("hits", [1, 0, 0])
        assert hits[0] > 0 == hits[1] == hits[2]
    assert len(found["saved"]) == 2 * len(found["figures"])
    for table, data in zip(found["saved"][::2], found["saved"][1::2], strict=True):
        columns, *rows = csv.reader(table.splitlines())
        assert columns == json.loads(data)["columns"]
        assert columns[:3] in (["name", "value", "shown"], ["cell", "panel", "series"])
        assert len(rows) == len(json.loads(data)["rows"])
        assert {len(row) for row in rows} == {len(columns)}
    assert found.get("sorted", "ascending") == "ascending"


def test_a_message_on_the_console_is_noticed(page: Path, tmp_path: Path) -> None:
    copy = tmp_path / "report.html"
    copy.write_text(page.read_text().replace("</footer>", "</footer><script>alert(1)</script>"))
    with pytest.raises(AssertionError, match="CONSOLE"):
        probe(copy, 1400)


@pytest.mark.parametrize("path", RENDERED, ids=str)
def test_rendered_reports_fit_a_phone(path: Path, tmp_path: Path) -> None:
    copy = tmp_path / "report.html"
    copy.write_text(path.read_text())
    assert probe(copy, 390)["width"] <= 390
