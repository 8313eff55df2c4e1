"""`coverage` on the command line: its list and each exit code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ioaware.cli.main import run
from ioaware.cli.options import Settings

KERNEL = "import triton\n\n@triton.jit\ndef k(x):\n    pass\n"


def coverage(*arguments: str) -> int:
    return run(["coverage", *arguments], Settings())


def test_coverage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    assert coverage("--require", "0") == 4  # no kernel, no ledger
    (tmp_path / "k.py").write_text(KERNEL)
    assert coverage() == 0
    assert coverage("--require", "50") == 4
    assert coverage("--write") == 0
    assert coverage("--require", "50") == 1
    assert coverage("--require", "nan") == 1
    assert coverage("--require", "101") == 2
    capsys.readouterr()
    assert coverage("--json") == 0
    assert json.loads(capsys.readouterr().out)["share_percent"] == 0
    ledger = tmp_path / "traffic-ledger.toml"
    ledger.write_text(ledger.read_text().replace('pending = "since', 'exempt = "data decide'))
    assert coverage("--require", "50") == 4  # no kernel to gate
    ledger.write_text(ledger.read_text()[:-9])
    assert coverage() == 6
    assert "Traceback" not in capsys.readouterr().err
