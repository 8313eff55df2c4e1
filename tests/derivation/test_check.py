"""`derive --check` counts again by interpreting the IR; a number that differs is not exact."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
import triton
import triton.language as tl

from ioaware.analysis.ir import Count
from ioaware.derivation import derive as module
from ioaware.derivation.derive import derive
from ioaware.targets.target import load_target

pytestmark = pytest.mark.filterwarnings("ignore:TRITON_DEFAULT_FP_FUSION")


@triton.jit
def scaled(x, out, n, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(out + at, 2.0 * tl.load(x + at, mask=at < n), mask=at < n)


@triton.jit
def listed(x, index, out, B: tl.constexpr):
    rows = tl.load(index + tl.arange(0, B))
    tl.store(out + tl.arange(0, B), tl.load(x + rows))


def double(n: int = 100, device: str = "cuda") -> torch.Tensor:
    x = torch.empty(n, device=device)
    out = torch.empty_like(x)
    scaled[(triton.cdiv(n, 32),)](x, out, n, B=32)
    return out


def gathered(n: int = 100, device: str = "cuda") -> torch.Tensor:
    x, out = torch.empty(n, device=device), torch.empty(32, device=device)
    listed[(1,)](x, torch.empty(32, dtype=torch.int32, device=device), out, B=32)
    return out


def notes(host: object, **params: int) -> tuple[bool, list[str]]:
    result = derive(load_target(host), params, machine_code=False, check=True)  # type: ignore[arg-type]
    (launch,) = (launch for launch in result.launches if launch.origin == "triton")
    return launch.exact, [note for note in launch.notes if note.startswith("check:")]


def test_a_right_formula_is_confirmed() -> None:
    assert notes(double, n=77) == (True, ["check: counted again by plain interpretation"])


def test_data_dependent_kernels_are_not_checked() -> None:
    exact, (note,) = notes(gathered)
    assert exact
    assert note.startswith("check: not checked: data decide tt.load at")


def test_a_wrong_formula_is_found_and_not_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    right = module.kernel_traffic

    def wrong(*args: Any) -> Any:
        kernel = right(*args)
        return replace(kernel, read_bytes=Count(kernel.read_bytes.expr + 4))

    monkeypatch.setattr(module, "kernel_traffic", wrong)
    exact, (note,) = notes(double, n=77)
    assert not exact
    assert note == "check: WRONG: read_bytes is 312, and 308 by plain interpretation"
