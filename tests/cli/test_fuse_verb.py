"""`ioaware fuse` end to end.

Answers are text and JSON, with exit codes and a derivable kernel file.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import ioaware
from ioaware.cli.main import run
from ioaware.cli.options import Settings
from ioaware.errors import InconclusiveError, UsageError

PROGRAMS = Path(__file__).parents[1] / "support" / "fusion_programs.py"
OutputOf = Callable[..., str]


@pytest.fixture
def output_of(capsys: pytest.CaptureFixture[str]) -> OutputOf:
    """Run a command line and check its exit code.

    Return stdout, or stderr if it failed.
    """

    def run_verb(*arguments: object, code: int = 0) -> str:
        assert run([*map(str, arguments)], Settings()) == code
        written = capsys.readouterr()
        return written.err if code else written.out

    return run_verb


def test_the_answer_comes_first_with_state_combiner_guards_and_proof(output_of: OutputOf) -> None:
    text = output_of("fuse", f"{PROGRAMS}:attention")
    assert text.startswith("attention: one pass instead of 3, with a state of 3 numbers")
    assert "o = l1*o1*exp(m1 - m)/l + l2*o2*exp(m2 - m)/l" in text
    assert "l: 1 stands in where it is 0" in text
    assert "T(b, c) T(a, b) = T(a, c) for all a, b, c" in text
    assert "2*e*rows*length, 2 of 4 reads saved" in text


def test_json_has_the_keys_of_the_contract(output_of: OutputOf) -> None:
    data = json.loads(output_of("fuse", f"{PROGRAMS}:attention", "--json"))
    assert data["schema"] == 1
    assert data["fusable"] is True
    assert (data["passes_before"], data["passes_after"]) == (3, 1)
    assert [number["name"] for number in data["state"]] == ["m", "l", "o"]
    assert [number["neutral"] for number in data["state"]] == ["-inf", "0", "0"]
    assert data["combine"].splitlines()[0] == "m = max(m1, m2)"
    assert len(data["guards"]) == 3
    assert "Decided symbolically" in data["certificate"]


def test_impossible_is_an_answer_too(output_of: OutputOf) -> None:
    data = json.loads(output_of("fuse", f"{PROGRAMS}:softplus_of_max", "--json"))
    assert data["fusable"] is False
    assert (data["passes_before"], data["passes_after"]) == (2, 2)
    assert "No continuous state of finitely many numbers" in data["certificate"]
    assert "Alternant: the 8 x 8 matrix" in data["certificate"]
    assert output_of("fuse", f"{PROGRAMS}:softplus_of_max").startswith("softplus_of_max: no state of finitely many numbers")


def test_undecided_is_3_and_an_unsupported_function_is_2(output_of: OutputOf, tmp_path: Path) -> None:
    assert "undecided" in output_of("fuse", f"{PROGRAMS}:growing_parameter", code=3)
    path = tmp_path / "program.py"
    path.write_text("def f(x):\n    return x[0]\n")
    assert "by index (program.py:2)" in output_of("fuse", f"{path}:f", code=2)
    assert "has no function 'g'" in output_of("fuse", f"{path}:g", code=2)


def test_a_program_imports_its_neighbours_when_it_is_called(output_of: OutputOf, tmp_path: Path) -> None:
    (tmp_path / "neighbour_of_program.py").write_text("from ioaware.fusion import exp\n")
    path = tmp_path / "program.py"
    path.write_text(
        "from ioaware.fusion import reduce_max, reduce_sum\n\n\n"
        "def f(x):\n    from neighbour_of_program import exp\n\n    return reduce_sum(exp(x - reduce_max(x)))\n"
    )
    assert json.loads(output_of("fuse", f"{path}:f", "--json"))["fusable"]


def test_the_kernel_file_can_be_derived(output_of: OutputOf, tmp_path: Path) -> None:
    kernel = tmp_path / "attention_kernel.py"
    text = output_of("fuse", f"{PROGRAMS}:attention", "--kernel", kernel)
    assert f"ioaware derive {kernel}:one_kernel" in text
    assert "@triton.jit" not in text
    derived = json.loads(output_of("derive", f"{kernel}:one_kernel", "-p", "length=1000", "--json"))
    assert derived["requested"]["read_formula"] == "8*length*rows"
    assert derived["exact"]


def test_verbose_shows_the_kernels(output_of: OutputOf) -> None:
    assert "def fused_kernel(x_ptr, v_ptr, output_0_ptr, length" in output_of("fuse", "-v", f"{PROGRAMS}:attention")


def test_from_python() -> None:
    from tests.support.fusion_programs import attention, growing_parameter

    fusion = ioaware.fuse(attention)
    assert fusion.fusable
    assert "<pre>m = max(m1, m2)" in fusion._repr_html_()
    with pytest.raises(InconclusiveError):
        ioaware.fuse(growing_parameter)
    with pytest.raises(UsageError):
        ioaware.fuse(len)
