"""The table of third-party kernels: targets, what counts as wrong, and its page.

No library is needed.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[2] / "scripts" / "foreign"
sys.path.insert(0, str(SCRIPTS))
from checked import CheckedRow, _badness  # noqa: E402
from kernel_table import document, read, rows_of, summary  # noqa: E402
from libraries import LIBRARIES, targets_of  # noqa: E402

TARGET = """
import torch
import triton
import triton.language as tl


@triton.jit
def copy_kernel(x, out, n, BLOCK: tl.constexpr):
    lanes = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + lanes, tl.load(x + lanes, lanes < n), lanes < n)


def copied(n: int = 100, device: str = "cuda"):
    x = torch.ones(n, device=device)
    copy_kernel[(triton.cdiv(n, 64),)](x, torch.empty_like(x), n, BLOCK=64)


def dies(n: int = 100, device: str = "cuda"):
    import os

    os._exit(3)
"""


def test_every_file_of_targets_has_some() -> None:
    for library in LIBRARIES.values():
        assert targets_of(SCRIPTS / library.file), library.file


def test_a_target_is_checked_at_two_sizes_in_a_process_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    file = tmp_path / "some.py"
    file.write_text(TARGET, encoding="utf-8")
    (row,) = rows_of(f"{file}:copied")
    assert (row.kernel, row.reads, row.exact, row.here, row.elsewhere) == (
        "copy_kernel",
        "`4*n`",
        "formula",
        "agrees",
        "agrees",
    )
    assert row.sizes == "n=61"
    (dead,) = rows_of(f"{file}:dies")
    assert dead.exact == "crash"
    assert "exit code 3" in dead.reason


def test_the_page_counts_what_the_rows_say(tmp_path: Path) -> None:
    right = CheckedRow("mamba.py:swiglu", "kernel", "`4*n`", "`4*n`", "", "formula", "", "agrees", "agrees", "n=7", 1.5)
    wrong = CheckedRow("mamba.py:other", "kernel", "`4*n`", "`4*n`", "", "no", "why", "WRONG: read_bytes", "", "", 61.0)
    refused = CheckedRow("attorch_layers.py:relu", reason="it reads | data")
    text = document({"mamba.py:swiglu": [right], "mamba.py:other": [wrong], "attorch_layers.py:relu": [refused]})
    assert "2 kernels of 2 targets of 2 libraries" in text
    assert "It differs for 1." in text
    assert "Refused: 1 targets" in text
    assert "| relu | | | | | refused: it reads \\| data | | | |" in text
    assert "1 take more than 60 s" in summary([right, wrong], 1)
    assert _badness(wrong) > _badness(right)
    assert read(tmp_path / "nothing") == {}
