"""The page that plays a walk: one file, nothing fetched, texts escaped.

Keys and buttons work.
"""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

import ioaware
from ioaware.cli.main import run
from ioaware.cli.options import Settings
from ioaware.errors import UsageError
from ioaware.report import walk_figure
from ioaware.report.inline_text import digest
from ioaware.report.walk_figure import walk_fragment, walk_page
from ioaware.walkthrough.walk import Walk

TOY = {"seq_len": 6, "head_dim": 2, "sram_elements": 20, "dtype": "float32"}
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
DRIVER = """<script>
const section = document.querySelector("section.walk"), seen = [];
const press = (key) => section.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
const said = (name) => section.querySelector(name).textContent;
const note = (what) => seen.push([what, said(".walk-where"), said(".walk-count-text")]);
note("start"); press("ArrowRight"); press("ArrowRight"); note("two right"); press("ArrowLeft"); note("one left");
press("End"); note("end"); press("Home"); note("home");
section.querySelector("[data-go=forward]").click(); note("button");
const box = section.querySelector("[data-show=values]"); box.checked = true; box.dispatchEvent(new Event("change"));
for (let step = 0; step < 3; step++) press("ArrowRight");
const numbers = [...section.querySelectorAll(".walk-variables .walk-number")];
seen.push(["numbers", numbers.map((one) => one.textContent).join(" "), ""]);
seen.push(["wide", String(document.documentElement.scrollWidth > innerWidth), ""]);
press("End");
const output = [...section.querySelectorAll(".walk-hbm figure")].find((one) => one.querySelector("b").textContent === "O");
seen.push(["output", [...output.querySelectorAll(".walk-number")].map((one) => one.textContent).join(" "), ""]);
press("Home"); press(" "); setTimeout(() => { note("played"); document.body.dataset.seen = JSON.stringify(seen); }, 30000);
</script>"""


@pytest.fixture(scope="module")
def flash1() -> Walk:
    return ioaware.walk("flash1", source="seed", values=True, **TOY)


def data_of(page: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" class="walk-data">(.*?)</script>', page, re.DOTALL)
    assert found
    return json.loads(found[1])


def test_the_page_admits_its_own_script_and_styles_only(flash1: Walk) -> None:
    page = walk_page(flash1)
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)
    assert policy
    rules = dict(rule.split(" ", 1) for rule in html.unescape(policy[1]).split("; "))
    assert rules["default-src"] == "'none'"
    (style,), (script,) = (
        re.findall(r"<style>(.*?)</style>", page, re.DOTALL),
        re.findall(r"<script>(.*?)</script>", page, re.DOTALL),
    )
    assert rules["style-src"] == f"'{digest(style)}'"
    assert rules["script-src"] == f"'{digest(script)}'"
    assert set(re.findall(r"https?://[^\s\"')]+", page)) == {"http://www.w3.org/2000/svg"}  # a name, never fetched
    assert not re.search(r"\sstyle=|\son\w+=|src=|href=", page)  # the policy would refuse these
    assert len(page) < 100_000


def test_the_data_of_the_page_are_those_of_the_walk(flash1: Walk) -> None:
    data = data_of(walk_page(flash1))
    assert data["steps"][-1]["running_bytes"] == data["total_bytes"] == flash1.predicted_bytes
    assert [tensor["name"] for tensor in data["tensors"]] == ["Q", "K", "V", "O", "L", "M"]
    (kernel,) = (launch for launch in data["launches"] if launch["kernel"] == "flash1_kernel")
    main = [variable["name"] for variable in kernel["variables"] if variable["main"]]
    assert {"q", "k", "v", "s", "p", "m", "l", "o"} <= set(main)
    assert "divisor" not in main
    assert "672 bytes, as predict and trace count" in walk_page(flash1)


@pytest.mark.parametrize("name", ["standard", "flash1", "flash2", "split_kv", "chunked", "softmax_eager"])
def test_cases_have_a_page_with_a_row_for_each_step(name: str) -> None:
    sizes = {"seq_len": 4, "head_dim": 2, "block_m": 2, "block_n": 2, "splits": 2, "rows": 2, "cols": 4}
    from ioaware.cases import CASES

    names = {param.name for param in CASES[name].params}
    walk = ioaware.walk(name, values=True, **{key: value for key, value in sizes.items() if key in names})
    assert walk_page(walk).count("<td>(") == len(walk.steps)


def test_a_row_of_a_matrix_is_a_row_on_chip() -> None:
    data = data_of(walk_page(ioaware.walk("standard", values=True, **TOY)))
    variables = {variable["name"]: variable for variable in data["launches"][1]["variables"]}
    assert (variables["s"]["rows"], variables["s"]["cols"], variables["s"]["row"]) == (1, 6, True)


def test_several_walks_fit_in_a_page(flash1: Walk) -> None:
    first, second = walk_fragment(flash1, identifier="one"), walk_fragment(flash1, identifier="two")
    assert first.script == second.script
    assert 'id="one"' in first.html
    assert 'aria-labelledby="two-title"' in second.html
    assert data_of(first.html) == data_of(second.html)


def test_names_from_outside_are_escaped(tmp_path: Path) -> None:
    hostile = tmp_path / "a<b>&'.py"
    hostile.write_text((Path(__file__).parents[1] / "support/targets/walked_targets.py").read_text())
    page = walk_page(ioaware.walk(f"{hostile}:while_loop", values=True))
    assert "<b>&" not in page
    assert data_of(page)["target"].endswith("a<b>&'.py:while_loop")


def test_of_a_large_variable_the_page_holds_the_size() -> None:
    walk = ioaware.walk("flash2", values=True, seq_len=32, head_dim=32, block_m=32, block_n=32)
    values = [step["values"] for step in data_of(walk_page(walk))["steps"]]
    assert values[1]["q"] == {"rows": 32, "cols": 32}
    assert len(values[1]["m"]) == 32


def test_a_walk_that_is_too_long_is_refused(flash1: Walk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walk_figure, "MAX_STEPS", 10)
    with pytest.raises(UsageError, match="11 steps, a page holds 10"):
        walk_page(flash1)


def test_the_verb_writes_the_page_and_prints_its_path(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["walk", "flash2", *(word for name, value in TOY.items() for word in ("-p", f"{name}={value}"))]
    page = tmp_path / "walk.html"
    assert run([*arguments, "-o", str(page)], Settings()) == 0
    assert capsys.readouterr().out == f"{page}\n"
    assert "312 bytes, as predict and trace count" in page.read_text(encoding="utf-8")
    assert run([*arguments, "-o", str(page), "--program", "0"], Settings()) == 2


def dump(page: Path) -> subprocess.CompletedProcess[str]:
    """Return the document after the page's scripts have run in virtual time.

    The browser's log is returned too.
    """
    assert CHROMIUM
    options = ("--headless=new", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--virtual-time-budget=60000")
    command = [CHROMIUM, *options, f"--user-data-dir={page.parent / 'profile'}", "--dump-dom", page.as_uri()]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")
def test_in_a_browser_the_policy_admits_the_page_and_every_matrix_is_drawn(flash1: Walk, tmp_path: Path) -> None:
    page = tmp_path / "walk.html"
    page.write_text(walk_page(flash1), encoding="utf-8")
    done = dump(page)
    assert "CONSOLE" not in done.stderr
    assert "Step 1 of 11: flash1_init, program (0, 0, 0)" in done.stdout
    assert done.stdout.count('class="walk-matrix') == 7  # six tensors and the initialisation's zeros


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")
def test_in_a_browser_keys_and_buttons_step_and_play(flash1: Walk, tmp_path: Path) -> None:
    page = tmp_path / "walk.html"
    without_policy = re.sub(r"<meta http-equiv[^>]*>", "", walk_page(flash1))
    page.write_text(without_policy.replace("</body>", f"{DRIVER}</body>"), encoding="utf-8")
    done = dump(page)
    assert "CONSOLE" not in done.stderr
    found = re.search(r'data-seen="([^"]*)"', done.stdout)
    assert found
    seen = {what: (where, count) for what, where, count in json.loads(html.unescape(found[1]))}
    steps = {what: re.search(r"Step (\d+)", where)[1] for what, (where, _) in seen.items() if where.startswith("Step")}  # pyright: ignore[reportOptionalSubscript]
    assert steps == {"start": "1", "two right": "3", "one left": "2", "end": "11", "home": "1", "button": "2", "played": "11"}
    assert seen["end"][1].startswith("672 B of 672 B; compulsory 192 B (the mark), so far 3.50×")
    assert seen["played"][1].endswith("672 bytes, as predict and trace count.")
    assert "0.38 −0.78 −0.55 −2.76 −1.97 −0.18" in seen["numbers"][0]  # the toy example's S of the first tiles
    assert seen["output"][0] == "−0.17 −0.33 −0.22 −0.70 −0.41 0.14 −0.03 −0.97 −0.60 0.07 −0.47 0.29"  # its O
    assert seen["wide"][0] == "false"
