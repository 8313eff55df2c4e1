"""Results in notebooks: a table of the known values, with all text escaped."""

from __future__ import annotations

import re
from collections.abc import Callable
from html.parser import HTMLParser

import pytest

from ioaware.display.notebook import result_html
from ioaware.result import Check, Launch, Result, Traffic


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw nothing but plain bars, whatever other tests have imported."""
    monkeypatch.setattr("ioaware.display.notebook.DRAWERS", [])


def test_bytes_formulas_and_facts(result_of: Callable[..., Result]) -> None:
    result = Result(
        "predict",
        "flash2",
        {"seq_len": 1024, "kv_len": None},
        requested=Traffic(142_606_336, 10**6, read_formula="2*N*d < N**2"),
        compulsory=Traffic(10**6, 0),
        lower_bound_bytes=5,
        flops=17_179_869_184,
        extra_memory_bytes=4096,
        time_ns=1.5e6,
        check=Check(1e-3, 1e-4),
    )
    html = result_html(result)
    for text in ("142.6 MB", "2*N*d &lt; N**2", "144×", "1.5 ms", "4.096 kB", "FAILED", "seq_len=1024"):
        assert text in html, text
    assert "kv_len" not in html
    assert result._repr_html_() == html


def test_hostile_text_stays_text() -> None:
    payload = '</code><script>alert(1)</script><img src=x onerror="alert(1)">'
    result = Result("measure", payload, {payload: payload}, requested=Traffic(1, 1, read_formula=payload), notes=(payload,))

    tags: list[str] = []

    class Parser(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            tags.append(tag)
            assert not [name for name, _ in attrs if name.startswith("on") or name in ("src", "href")]

    Parser().feed(result_html(result))
    assert set(tags) <= {"div", "b", "br", "code", "table", "tr", "th", "td"}


def test_a_result_without_values() -> None:
    assert "failed" in result_html(Result("measure", "mine.py:kernel", status="failed"))


def test_notes_of_launches_appear_once_without_folders() -> None:
    notes = ("tt.load at /home/me/code/rope.py:7 counts in terms of n@rope.py:3: it is loaded from memory",)
    launches = (
        Launch("rope", notes=notes),
        Launch("rope", notes=notes),
        Launch("aten::add", origin="torch", notes=("assumed",)),
    )
    html = result_html(Result("derive", "mine.py:work", launches=launches))
    assert html.count("rope: tt.load at rope.py:7 counts in terms of n@rope.py:3") == 1
    assert "assumed" not in html


def test_bytes_at_each_place_are_bars_on_one_scale() -> None:
    result = Result("simulate", "k", {}, Traffic(300, 100), hbm=Traffic(100, 100), compulsory=Traffic(50, 50))
    assert re.findall(r"width:([\d.]+)%", result._repr_html_()) == ["100.00", "50.00", "25.00"]
    assert "width" not in Result("trace", "k", {}, Traffic(300, 100))._repr_html_()
    assert "width" not in Result("trace", "k", {}, Traffic(0, 0), compulsory=Traffic(0, 0))._repr_html_()
