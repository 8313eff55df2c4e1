"""Two versions of a kernel: changed numbers, terms and lines, and their page."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import click
import pytest

from ioaware.cli.options import Settings
from ioaware.cli.reports.target_report import compared, findings_of
from ioaware.report.pages.document import render
from ioaware.report.pages.findings import Findings
from ioaware.report.pages.two_versions import changed_lines, numbers, terms
from tests.support.hostile_texts import PAYLOADS, RAW_NEVER

KERNELS = """
import torch, triton, triton.language as tl

@triton.jit
def twice_kernel(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    first = tl.load(x + i, i < n)
    second = tl.load(x + i + n, i < n)
    tl.store(out + i, first + second, i < n)

@triton.jit
def once_kernel(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    first = tl.load(x + i, i < n)
    tl.store(out + i, first + first, i < n)

def launch(kernel, n):
    x, out = torch.ones(2 * n, device="cuda"), torch.empty(n, device="cuda")
    return lambda: kernel[(triton.cdiv(n, 64),)](x, out, n, BLOCK=64)

def twice(n: int = 256):
    return launch(twice_kernel, n)

def once(n: int = 256):
    return launch(once_kernel, n)
"""


@pytest.fixture(scope="module", autouse=True)
def quiet() -> Iterator[None]:
    with click.Context(click.Command("report"), obj=Settings(quiet=True)):
        yield


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("versions") / "versions.py"
    path.write_text(KERNELS)
    return str(path)


@pytest.fixture(scope="module")
def both(file: str) -> tuple[Findings, Findings]:
    old, new = (findings_of(f"{file}:{name}", {}, config={}, recorded=()) for name in ("twice", "once"))
    return old, new


def test_numbers_of_both(both: tuple[Findings, Findings]) -> None:
    found = {row.name: (row.old, row.new) for row in numbers(*both)}
    assert found["reads"] == (2048, 1024)
    assert found["writes"] == (1024, 1024)
    assert "read sectors" not in found  # 32-byte sectors, all of their bytes used


def test_a_changed_term_comes_first(both: tuple[Findings, Findings]) -> None:
    first, second = terms(*both)
    assert (first.name, first.old, first.new) == ("reads: 8*n → 4*n", 2048, 1024)
    assert (second.name, second.old, second.new) == ("writes: 4*n", 1024, 1024)


def test_lines_that_went_and_lines_that_stayed(both: tuple[Findings, Findings]) -> None:
    found = [(line.change, (line.new or line.old).line.text.strip()) for line in changed_lines(*both)]  # pyright: ignore[reportOptionalMemberAccess]
    assert ("removed", "second = tl.load(x + i + n, i < n)") in found
    assert ("same", "first = tl.load(x + i, i < n)") in found
    assert ("removed", "tl.store(out + i, first + second, i < n)") in found
    assert ("added", "tl.store(out + i, first + first, i < n)") in found
    assert not [text for _, text in found if text.startswith("i = tl.program_id")]


def test_a_version_and_itself_are_the_same(both: tuple[Findings, Findings]) -> None:
    old, _ = both
    assert {line.change for line in changed_lines(old, old)} == {"same"}
    assert all(row.old == row.new for row in (*numbers(old, old), *terms(old, old)))


def test_functions_of_one_name_are_compared_in_any_order(both: tuple[Findings, Findings]) -> None:
    (twice,), (once,) = (one.source.kernels for one in both)
    old, new = (
        replace(one, source=replace(one.source, kernels=order))
        for one, order in zip(both, ((twice, once), (once, twice)), strict=True)
    )
    assert {line.change for line in changed_lines(old, new)} == {"same"}


def test_a_line_has_the_name_of_its_own_function(both: tuple[Findings, Findings]) -> None:
    names = {(line.change, line.function) for line in changed_lines(*both)}
    assert names == {("removed", "twice_kernel"), ("same", "once_kernel"), ("added", "once_kernel")}


def test_the_page_shows_changes_and_withholds_text(file: str) -> None:
    page = render(compared(f"{file}:twice", f"{file}:once", {}, with_text=True, config={}))
    assert f"<h1>{Path(file).name}:twice → {Path(file).name}:once</h1>" in page.replace("<wbr>", "")
    assert "A requests 3.072 kB, B 2.048 kB: 0.667× as many bytes." in page
    assert "first + second" in page
    assert "first + second" not in render(compared(f"{file}:twice", f"{file}:once", {}, with_text=False, config={}))


def test_hostile_names_are_escaped(both: tuple[Findings, Findings]) -> None:
    from ioaware.report.pages.compare_page import compare_page

    old, new = both
    text = "".join(PAYLOADS[:8])
    kernel = old.source.kernels[0]
    lines = tuple(replace(line, text=text) for line in kernel.sections[0].lines)
    kernel = replace(kernel, sections=(replace(kernel.sections[0], function=text, lines=lines),))
    derived = replace(old.derived, target=text, params={text: text})
    source = replace(old.source, result=derived, kernels=(kernel,))
    page = render(compare_page(replace(old, source=source), new, text))
    assert [payload for payload in RAW_NEVER[:8] if payload in page] == []
