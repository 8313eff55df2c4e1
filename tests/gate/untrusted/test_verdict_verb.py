"""`ioaware verdict` and `ioaware.verdict`: output, JSON and exit codes.

Tested too is what is not examined.
"""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
import torch

import ioaware
from ioaware.cli.main import run
from ioaware.cli.options import Settings
from ioaware.gate.untrusted.finding import Outcome
from tests.support import ROOT

FOLDER = ROOT / "tests" / "support" / "untrusted"
CHEATS, SOUND = FOLDER / "cheats.py", FOLDER / "sound.py"
VECTOR = ("-p", "x=f32[n=200]")
REFERENCE = ("--reference", f"{CHEATS}:reference")


def verdict(*arguments: str) -> int:
    return run(["verdict", *arguments], Settings())


@pytest.mark.slow
def test_the_json_of_a_refused_kernel(capsys: pytest.CaptureFixture[str]) -> None:
    assert verdict(f"{CHEATS}:first_row_only", "-p", "x=f32[rows=6, cols=10]", *REFERENCE, "--json") == 1
    data = json.loads(capsys.readouterr().out)
    assert (data["schema"], data["verdict"], data["params"]["rows"]) == (1, "REFUSED", 6)
    assert {one["rule"] for one in data["findings"]} == {"wrong_output", "unread_input"}
    assert set(data["findings"][0]) == {"rule", "outcome", "what", "where", "evidence"}
    assert data["numbers"]["requested"]["read_formula"] == "4*cols*rows"
    assert data["numbers"]["spilled_bytes"] == 0
    assert data["numbers"]["registers"] > 0
    assert data["kernels"] == ["first_row_kernel"]


@pytest.mark.slow
def test_library_operators_are_a_fact_and_no_finding(capsys: pytest.CaptureFixture[str]) -> None:
    spec = f"{SOUND}:with_torch_operators"
    assert verdict(spec, *VECTOR, "--reference", f"{spec}_reference") == 0
    printed = capsys.readouterr().out
    assert "library operators 2 aten.mul.Tensor, aten.add.Tensor" in " ".join(printed.split())
    assert "SOUND: none of" in printed


@pytest.mark.slow
def test_a_time_that_cannot_be_exits_with_3(capsys: pytest.CaptureFixture[str]) -> None:
    spec = f"{SOUND}:relu_by_device_function"
    large = ("-p", "x=f32[n=67108864]", "--trial", "n=200", "--reference", f"{spec}_reference")
    assert verdict(spec, *large, "--time-us", "20") == 3
    printed = capsys.readouterr().out
    assert "IMPOSSIBLE impossible_time" in printed
    assert "least time" in printed
    assert verdict(spec, *large, "--time-us", "150") == 0


@pytest.mark.slow
@pytest.mark.parametrize("cheat", ["at_the_checked_size", "at_large_sizes"])
def test_a_branch_that_the_trial_does_not_take_is_incomplete(cheat: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert verdict(f"{CHEATS}:{cheat}", *VECTOR, "--trial", "n=90", *REFERENCE) == 3
    assert "INCOMPLETE other_path" in capsys.readouterr().out


@pytest.mark.slow
def test_what_cannot_be_examined_is_incomplete(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "target.py").write_text(
        "import torch\ndef raises(x): raise ValueError('no')\ndef returns(): return torch.ones(3)\n"
    )
    for function, params, reason in (("raises", VECTOR, "ValueError"), ("returns", (), "the inputs")):
        assert verdict(f"{tmp_path / 'target.py'}:{function}", *params, *REFERENCE) == 3
        assert reason in capsys.readouterr().out
    assert verdict(f"{SOUND}:sum_by_atomics", *VECTOR) == 3
    assert "give --reference" in capsys.readouterr().out


@pytest.mark.slow
def test_unread_bytes_without_a_reference(capsys: pytest.CaptureFixture[str]) -> None:
    assert verdict(f"{SOUND}:first_half", "-p", "x=f32[rows=6, cols=20]", "--no-reference") == 1
    assert "SUSPECT unread_input: x: 240 of 480 B" in capsys.readouterr().out
    assert verdict(f"{SOUND}:embedding", "--no-reference") == 3
    assert "INCOMPLETE unread_input" in capsys.readouterr().out


def test_what_is_given_wrongly_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert verdict(f"{SOUND}:add", *VECTOR, *REFERENCE, "--no-reference") == 2
    assert verdict(f"{SOUND}:sum_by_atomics", *VECTOR, "--time-us", "nan") == 2
    assert verdict(f"{SOUND}:nothing", *VECTOR) == 2
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.slow
def test_the_page_shows_what_a_refused_kernel_prints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (ROOT / "docs" / "verdict.md").read_text(encoding="utf-8")
    for file, code in re.findall(r"```python (\S+\.py)\n(.*?)```", page, re.DOTALL):
        (tmp_path / file).write_text(code)
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```text\n\$ ioaware verdict ([^\n]+)\n(.*?)```", page, re.DOTALL)
    ((command, shown),) = [block for block in blocks if "--record" not in block[0]]  # records are those of a GPU
    assert verdict(*shlex.split(command)) == 1
    printed = capsys.readouterr().out
    assert [line for line in printed.splitlines() if not line.startswith("registers")] == [
        line for line in shown.splitlines() if not line.startswith("registers")
    ]


@pytest.mark.slow
def test_from_python() -> None:
    from tests.support.untrusted import cheats, sound

    x = torch.arange(200.0)
    assert ioaware.verdict(sound.softmax, x[None], reference=sound.softmax_reference).outcome is Outcome.SOUND
    found = ioaware.verdict(cheats.cached_by_address, x, reference=cheats.reference)
    assert found.outcome is Outcome.REFUSED
    assert "cached_result" in {one.rule for one in found.findings}
    assert torch.equal(x, torch.arange(200.0))
    named = ioaware.verdict(f"{CHEATS}:decoy", x="f32[n=200]", reference=f"{CHEATS}:reference")
    assert [one.rule for one in named.findings] == ["decoy_kernel"]
