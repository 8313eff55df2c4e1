"""The page of claims lists every claim and error of the modules.

`IOAWARE_RECORD=1` rewrites its tables.
"""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import Iterable

import pytest

from ioaware.analysis.theory.claims.errata.all_errata import ERRATA
from ioaware.sweep.verify import CLAIMS, verify
from tests.support import ROOT

PAGE = ROOT / "docs" / "claims.md"
TABLES = {"claim": "| claim | verdict | statement | source |", "error": "| error | where | printed | corrected |"}


def cell(text: str) -> str:
    """Return text that a table shows unchanged.

    No pipe ends a cell, and no star or underscore is markup.
    """
    return re.sub(r"([|*_~<])", r"\\\1", text)


def table(header: str, rows: Iterable[Iterable[str]]) -> str:
    lines = [header, "|---" * (header.count("|") - 1) + "|"]
    return "\n".join([*lines, *("| " + " | ".join(map(cell, row)) + " |" for row in rows)])


def tables() -> dict[str, str]:
    claims = ((name, importlib.import_module(path)) for name, path in CLAIMS.items())
    return {
        "claim": table(TABLES["claim"], ((name, "holds", module.STATEMENT, module.SOURCE) for name, module in claims)),
        "error": table(TABLES["error"], ((case.number, case.where, case.printed, case.corrected) for case in ERRATA)),
    }


@pytest.mark.parametrize("name", TABLES)
def test_the_page_has_the_table_of_the_modules(name: str) -> None:
    expected, text = tables()[name], PAGE.read_text(encoding="utf-8")
    (shown,) = re.findall(rf"^{re.escape(TABLES[name])}\n(?:\|.*\n?)*", text, re.MULTILINE)
    if os.environ.get("IOAWARE_RECORD"):
        PAGE.write_text(text.replace(shown, f"{expected}\n"), encoding="utf-8")
        return
    assert shown.strip() == expected


@pytest.mark.slow
def test_every_claim_holds_on_the_real_kernels_and_recorded_counters() -> None:
    """The verdicts of `ioaware verify` are those on the page."""
    claims = verify()
    assert [claim.claim for claim in claims] == list(CLAIMS)
    assert {claim.claim: claim.verdict for claim in claims if claim.verdict != "holds"} == {}
