"""Documents: commands print the shown output, and links resolve.

Numbers equal the records.

`IOAWARE_RECORD=1` rewrites the shown outputs of commands and sessions. Read the diff before committing it.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from ioaware.cli.main import VERBS, run
from ioaware.cli.options import Settings
from tests.support import ROOT

README = ROOT / "README.md"
PAGES = (README, *sorted((ROOT / "docs").glob("*.md")))
DOCUMENTS = (*PAGES, *sorted((ROOT / "docs").glob("*/*.md")), ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md")
FILE = re.compile(r"```python (\S+\.py)\n(.*?)```", re.DOTALL)
COMMAND = re.compile(r"```console\n\$ (ioaware [^\n]+)\n(.*?)```", re.DOTALL)
SESSION = re.compile(r"```pycon\n(.*?)```", re.DOTALL)
LINK = re.compile(r"\]\(([^)#\s]+)(#[^)]*)?\)")
VARIES = ("check", "registers")
"""Prefixes of lines that differ between versions of torch and Triton.

They differ in a rounding error or a register allocation.
"""


class Shown(NamedTuple):
    """A command or session of a page with the output that the page shows."""

    page: Path
    code: str
    output: str


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def commands() -> Iterator[Shown]:
    for page in PAGES:
        yield from (Shown(page, code, output) for code, output in COMMAND.findall(page.read_text(encoding="utf-8")))


def sessions() -> Iterator[Shown]:
    for page in PAGES:
        yield from (Shown(page, code, "") for code in SESSION.findall(page.read_text(encoding="utf-8")))


def stable(output: str) -> list[str]:
    return [line.rstrip() for line in output.splitlines() if not line.startswith(VARIES)]


def shown_id(value: object) -> str | None:
    return f"{name(value.page)}: {value.code.splitlines()[0]}" if isinstance(value, Shown) else None


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a directory with the files that the pages show."""
    for page in PAGES:
        for file, code in FILE.findall(page.read_text(encoding="utf-8")):
            path = tmp_path / file
            assert not path.exists() or path.read_text() == code, f"{file} is shown twice and differs"
            path.write_text(code)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)  # pyright: ignore[reportUnknownMemberType]
    return tmp_path


def arguments(command: str) -> list[str]:
    """Return the words after `ioaware`, with the shell's quotes removed."""
    return [word.strip("\"'") for word in re.findall(r"\"[^\"]*\"|'[^']*'|\S+", command)][1:]


def rewrite(shown: Shown, output: str) -> None:
    text = shown.page.read_text(encoding="utf-8")
    shown.page.write_text(text.replace(f"$ {shown.code}\n{shown.output}```", f"$ {shown.code}\n{output}```"), encoding="utf-8")


@pytest.mark.parametrize("shown", list(commands()), ids=shown_id)
@pytest.mark.usefixtures("folder")
def test_a_command_prints_what_is_shown(shown: Shown, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(arguments(shown.code), Settings()) == 0
    printed = capsys.readouterr()
    if os.environ.get("IOAWARE_RECORD"):
        rewrite(shown, "".join(f"{line.rstrip()}\n" for line in printed.out.splitlines()))
        return
    assert printed.err == ""
    assert stable(printed.out) == stable(shown.output)


@pytest.mark.slow
def test_a_separate_process_prints_what_is_shown(folder: Path) -> None:
    """A process that finds the shown file in its working directory."""
    shown = next(shown for shown in commands() if "explain" in shown.code)
    command = [sys.executable, "-m", "ioaware", *arguments(shown.code)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert stable(done.stdout) == stable(shown.output)


@pytest.mark.parametrize("shown", list(sessions()), ids=shown_id)
@pytest.mark.usefixtures("folder")
def test_a_session_prints_what_is_shown(shown: Shown) -> None:
    test = doctest.DocTestParser().get_doctest(shown.code, {}, name(shown.page), name(shown.page), 0)
    report: list[str] = []
    with contextlib.redirect_stderr(io.StringIO()):
        failed = doctest.DocTestRunner().run(test, out=report.append).failed
    assert failed == 0, "".join(report)


def test_the_pages_have_commands_sessions_and_a_file() -> None:
    assert len(list(commands())) >= 5
    assert len(list(sessions())) >= 2
    assert len(FILE.findall(README.read_text(encoding="utf-8"))) == 1


@pytest.mark.parametrize("page", DOCUMENTS, ids=name)
def test_every_link_resolves(page: Path) -> None:
    prose = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    broken = [link for link, _ in LINK.findall(prose) if "://" not in link and not (page.parent / link).exists()]
    assert broken == []


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_is_in_the_table_and_on_the_page_of_the_command_line(verb: str) -> None:
    assert re.search(rf"^\| .*`{verb}\b", README.read_text(encoding="utf-8"), re.MULTILINE)
    assert re.search(rf"^## `?{verb}\b", (ROOT / "docs" / "cli.md").read_text(encoding="utf-8"), re.MULTILINE)


def test_the_speeds_are_those_of_the_recorded_race() -> None:
    from ioaware.bench.goals import goals
    from ioaware.sweep.claim_evidence import recorded_race

    results = goals(recorded_race())
    assert results
    table = (ROOT / "docs" / "results" / "attention-speed.md").read_text(encoding="utf-8")
    for goal in results:
        row = f"| {goal.name} | {goal.value:.3f} | {goal.at_least:.2f} | {goal.points} | {goal.worst} |"
        assert row in table


def test_the_numbers_of_agreement_are_the_same_wherever_they_are_quoted() -> None:
    """README and the agreement page quote the numbers of the tables of results."""
    from ioaware.bench.goals import goals
    from ioaware.sweep.claim_evidence import recorded_race

    quoted = [re.sub(r"\s+", " ", path.read_text(encoding="utf-8")) for path in (README, ROOT / "docs/results/agreement.md")]
    coverage = (ROOT / "docs/results/derive-coverage.md").read_text(encoding="utf-8")
    counters = (ROOT / "docs/results/derive-against-counters.md").read_text(encoding="utf-8")
    (kernels, exact, equal) = re.findall(
        r"\*\*(\d+) kernels: (\d+) exact.*?Of the exact ones (\d+) equal their trace", coverage
    )[0]
    found = re.findall(r"^(\d+) kernels of (\d+) libraries, (\d+) launches", counters, re.MULTILINE)
    (third_party, libraries, launches) = found[0]
    (same, totals) = re.findall(r"derived against counted: (\d+) of (\d+) equal to the last sector", counters)[0]
    assert f"**{equal} of {exact}** exact formulas" in quoted[0]
    wide = (ROOT / "docs/results/kernel-coverage.md").read_text(encoding="utf-8")
    (all_kernels, all_libraries) = re.findall(r"^- (\d+) kernels of \d+ targets of (\d+) libraries", wide, re.MULTILINE)[0]
    (derived, formulas, own_data) = re.findall(r"Exact: (\d+) \(.*?\): (\d+) by a formula, (\d+) at", wide)[0]
    (agree, both, differ) = re.findall(r"sizes for (\d+), at both sizes for (\d+). It differs for (\d+)", wide)[0]
    assert f"**{derived} of {all_kernels}** kernels of {all_libraries} libraries" in quoted[0]
    assert f"differs for {differ}." in quoted[0]
    assert f"**{all_kernels} kernels of {all_libraries} libraries**, at two sizes" in quoted[1]
    assert f"{derived} are exact: {formulas} by a formula, {own_data} at" in quoted[1]
    assert f"all {agree} at the target's sizes and with {both} at both; it differs for {differ}." in quoted[1]
    assert f"**{same} of {totals}** sector totals of " in quoted[0]  # of how many kernels: tests/report/test_numbers_agree.py
    assert f"**{kernels} kernels of seven libraries.** {exact} formulas are exact" in quoted[1]
    assert f"{equal} equal the interpreter's count" in quoted[1]
    assert f"**{third_party} kernels of {libraries} libraries, {launches} launches**" in quoted[1]
    assert f"**{same} of {totals} totals**" in quoted[1]
    assert all("65 of 116" in text for text in quoted)  # counted in tests/sweep/test_recorded.py
    means = {goal.name: goal.value for goal in goals(recorded_race()) if goal.name.endswith("geometric mean")}
    forward, backward = (f"{value:.2f} times ({name.partition(',')[0]})" for name, value in means.items())
    assert forward in quoted[0]
    assert backward in quoted[0]
