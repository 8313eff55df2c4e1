"""`ioaware walk` end to end: steps, values, parts of a walk, refusals.

Steps and values are as text and JSON.
"""

from __future__ import annotations

import json

import pytest
import torch

from ioaware.cli.main import run
from ioaware.cli.options import Settings
from ioaware.kernels.attention.references import work
from tests.support import SUPPORT

TOY = ("-p", "seq_len=6", "-p", "head_dim=2", "-p", "sram_elements=20", "-p", "dtype=float32")


@pytest.fixture
def output_of(capsys: pytest.CaptureFixture[str]):
    """Run `ioaware walk` and check its exit code.

    Return stdout, or stderr if it failed.
    """

    def run_verb(*arguments: str, code: int = 0) -> str:
        assert run(["walk", *arguments], Settings()) == code
        written = capsys.readouterr()
        return written.err if code else written.out

    return run_verb


def test_steps_and_totals(output_of) -> None:
    text = output_of("flash1", *TOY)
    assert "B_c = 3, B_r = 2" in text
    step = next(line for line in text.splitlines() if "j=1, i=2" in line)
    assert step.split()[-2:] == ["80", "672"]
    assert "Q[4:6, :], O[4:6, :], L[4:6], M[4:6]" in step
    assert "672 bytes, as predict and trace count" in text
    assert "3.5× this" in text


def test_values_stand_side_by_side_under_their_names(output_of) -> None:
    text = output_of("flash1", *TOY, "--input", "seed", "--values")
    assert "[-2.76 -1.97 -0.18]  [0.08 0.17 1.00]  [-inf]  [-0.18]" in text
    assert "O[0:2, :] in HBM" in text
    only = output_of("flash1", *TOY, "--input", "seed", "--value", "divisor", "--limit", "5")
    assert "divisor" in only
    assert "m_block" not in only
    assert "6 more steps" in only


def test_one_program(output_of) -> None:
    data = json.loads(output_of("flash2", *TOY, "--program", "1", "--json"))
    assert [step["program"] for step in data["steps"]] == [[1, 0, 0]] * 5
    assert data["number_of_steps"] == 10
    assert data["steps"][-1]["running_bytes"] == data["total_bytes"] == data["predicted_bytes"] == data["traced_bytes"] == 312
    assert data["agrees"] is True


def test_json_has_strings_for_infinities_and_null_for_unwritten_elements(output_of) -> None:
    data = json.loads(output_of("flash1", *TOY, "--values", "--json", "--limit", "1"))
    contents = dict(zip(data["launches"][0]["tensors"], data["launches"][0]["contents"], strict=True))
    assert contents["M"][0] == [None]
    assert data["steps"][0]["moves"][2]["cells"] == [[0, 0, "-inf"], [1, 0, "-inf"]]


def test_refusals(output_of) -> None:
    assert "no case 'flash9'" in output_of("flash9", code=2)
    assert "no step has a variable z" in output_of("flash2", *TOY, "--value", "z", code=2)
    assert "no launch has a program (7,)" in output_of("flash2", *TOY, "--program", "7", code=2)
    assert "--program x is not a program" in output_of("flash2", "--program", "x", code=2)
    assert "there is no file no.npz" in output_of("flash2", *TOY, "--input", "no.npz", code=2)


def test_an_output_that_is_wrong_fails(output_of, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(work.TOLERANCES, torch.float32, 0.0)
    output_of("flash2", *TOY, code=1)


def test_a_users_target(output_of) -> None:
    text = output_of(f"{SUPPORT / 'targets/walked_targets.py'}:while_loop", "-p", "n=6")
    assert "atomics in HBM" in text
    assert "56 bytes, as trace counts" in text
