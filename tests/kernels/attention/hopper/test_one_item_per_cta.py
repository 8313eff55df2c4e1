"""CTAs with one work item each move the bytes of CTAs with several."""

from __future__ import annotations

import pytest
import torch

from ioaware.derivation.derive import derive
from ioaware.kernels.attention.hopper.backward import hopper_backward
from ioaware.kernels.attention.hopper.forward import hopper_forward
from ioaware.result import Result
from ioaware.targets.target import load_target

HEADS, ROWS, SMS = 32, 1024, 132
WORK_ITEMS = HEADS * ROWS // 128


def forward(persistent: bool = True, causal: bool = False, device: str = "cuda") -> None:
    q, k, v = (torch.zeros(1, HEADS, ROWS, 128, dtype=torch.float16, device=device) for _ in range(3))
    hopper_forward(q, k, v, causal=causal, scale=0.1, persistent=persistent)


def backward(persistent: bool = True, causal: bool = False, device: str = "cuda") -> None:
    q, k, v, o, do = (torch.zeros(1, HEADS, ROWS, 128, dtype=torch.float16, device=device) for _ in range(5))
    lse = torch.zeros(1, HEADS, ROWS, device=device)
    hopper_backward(q, k, v, o, lse, do, causal=causal, scale=0.1, persistent=persistent)


def derived(name: str, *, persistent: bool, causal: bool) -> Result:
    target = load_target(f"{__file__}:{name}")
    return derive(target, target.resolve({"persistent": persistent, "causal": causal}), machine_code=False)


def grid(result: Result) -> tuple[object, ...]:
    return next(tuple(launch.grid) for launch in result.launches if launch.kernel.startswith("hopper"))


@pytest.mark.slow
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("name", ["forward", "backward"])
def test_bytes_do_not_depend_on_the_number_of_ctas(name: str, causal: bool) -> None:
    several, one = (derived(name, persistent=persistent, causal=causal) for persistent in (True, False))
    assert grid(several) == (SMS, 1, 1)
    assert grid(one) == (WORK_ITEMS, 1, 1)
    assert all(launch.exact for launch in one.launches if launch.kernel.endswith("_kernel"))
    if name == "forward" or causal:  # without a mask, a last round is divided by rows where CTAs are persistent
        assert one.requested == several.requested
