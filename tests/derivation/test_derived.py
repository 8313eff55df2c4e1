"""Results that are exact for their own data alone.

Their formulas are upper bounds, and nowhere pass for the bytes.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from ioaware.cli.formula_tables import derived_text
from ioaware.derivation.annotated_source import AnnotatedSource
from ioaware.derivation.derive import derive
from ioaware.derivation.derived import Derived
from ioaware.errors import UsageError
from ioaware.gate.derived_snapshot import recorded
from ioaware.gate.derived_work import work_of
from ioaware.gate.difference import difference
from ioaware.gate.row import row_of
from ioaware.gate.verdict import Verdict
from ioaware.report.pages.formula_rows import formula_tables
from ioaware.report.pages.over import Span, curve
from ioaware.result import Result
from ioaware.result_file import decode, encode
from ioaware.targets.target import load_target

HERE = "tests/derivation/test_derived.py"


@triton.jit
def boundaries(x, out, n, CHANGED: tl.constexpr):
    at = tl.program_id(0) * 32 + tl.arange(0, 32)
    mask = at < n - 1
    differs = tl.load(x + at, mask) != tl.load(x + at + 1, mask)
    tl.store(out + at, at, mask & (differs == CHANGED))


def launched(n: int, *, changed: bool) -> torch.Tensor:
    x, out = (torch.arange(n, device="cuda") // 3).to(torch.int32), torch.zeros(n, dtype=torch.int32, device="cuda")
    boundaries[(triton.cdiv(n, 32),)](x, out, n, CHANGED=changed)
    return out


def changed(n: int = 100) -> torch.Tensor:
    return launched(n, changed=True)


def unchanged(n: int = 100) -> torch.Tensor:
    return launched(n, changed=False)


def result_of(name: str) -> Derived:
    return derive(load_target(f"{HERE}:{name}"), {}, machine_code=False)


@pytest.fixture(scope="module")
def result() -> Derived:
    return result_of("changed")


def test_other_sizes_are_refused(result: Derived) -> None:
    assert result.exact
    assert result.exact_here_only
    assert result.evaluate(n=100) == {"read_bytes": 792, "write_bytes": 4 * 33, "atomic_bytes": 0, "flops": 0}
    for size in (99, np.array([100, 99])):
        with pytest.raises(UsageError, match="exact at the given sizes only"):
            result.evaluate(n=size)


def test_upper_bounds_are_marked(result: Derived) -> None:
    data: dict[str, Any] = result.to_dict()
    assert data["formulas_exact"] is data["launches"][-1]["formulas_exact"] is False
    assert (data["requested"]["read_formula"], data["requested"]["write_formula"]) == ("8*n - 8", "<= 128*ceil(n/32)")
    assert "writes <= 128*ceil(n/32) bytes" in str(list(AnnotatedSource.of(result)._sections()))
    shown = formula_tables(result)[0][0].rows
    assert (shown[0].value, shown[0].text) == ("792 B", "8*n - 8")
    assert (shown[1].value, shown[1].text) == ("132 B", "<= 128*ceil(n/32)")
    assert shown[1].formula.startswith("≤\xa0<math>")
    assert "≤" not in shown[0].formula


def shown_text(result: Derived) -> str:
    from rich.console import Console

    console = Console(width=200)
    with console.capture() as said:
        for part in derived_text(result):
            console.print(part)
    return said.get()


def test_text_marks_upper_bounds(result: Derived) -> None:
    lines = [line.split() for line in shown_text(result).splitlines()]
    assert ["writes", "132", "B", "<=", "128*ceil(n/32)"] in lines
    assert ["write", "sectors", "416", "B", "<=", "128*ceil(n/32)"] in lines


def test_curves_have_the_given_size_alone(result: Derived) -> None:
    found = curve(result, Span("n", 64, 128))
    assert [(point.value, point.requested_bytes, point.sector_bytes) for point in found.points] == [(100, 924, 928 + 416)]
    assert "exact at the given sizes only" in found.why


def test_the_gate_compares_bytes(result: Derived) -> None:
    """Both versions have the same upper bounds, and not the same bytes."""
    old, new = (row_of(one.to_dict(), "here") for one in (result, result_of("unchanged")))
    assert difference(old, new).verdict is Verdict.WORSE
    assert recorded(result).texts == {"reads": "792", "writes": "132", "torch_reads": "1600", "torch_writes": "2400"}
    work = work_of(result)
    assert work.admits({"n": 100})
    assert not work.admits({"n": 99})


def test_a_record_of_a_derivation_is_read_back(result: Derived) -> None:
    """What a derivation keeps beside a result is for this process alone."""
    assert decode(encode(result)).to_dict() == result.to_dict()
    kept = {one.name for one in fields(Derived)} - {one.name for one in fields(Result)}
    assert kept & result.to_dict().keys() == set()


def squared_by_torch(n: int = 100) -> Any:
    x = torch.empty(n, device="cuda")
    return lambda: x * x


def test_a_result_without_a_triton_kernel_says_so() -> None:
    result = derive(load_target(squared_by_torch), {"n": 100}, eager=True)
    assert not result.exact
    assert result.notes[-1].startswith("no Triton kernel is launched")
    assert "depends on data" not in shown_text(result)
