"""Lines of tensors between those of spilled registers, by kernels."""

from __future__ import annotations

from pathlib import Path

import pytest

from ioaware.capture.capture import DEFAULT_GPU
from ioaware.derivation.derive import derive_with_launches
from ioaware.machine import find_machine
from ioaware.simulation.planned_launch import planned_launches
from ioaware.simulation.spills.lines_of_places import PlaceLines, lines_of_places
from ioaware.targets.target import load_target

SCALED = """
import torch, triton, triton.language as tl

@triton.jit
def scaled(x, scale, out, cols, stride, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    row = tl.program_id(0)
    s = tl.load(scale + at, mask=at < cols)
    v = tl.load(x + row * stride + at, mask=at < cols)
    tl.store(out + row * stride + at, v * s, mask=at < cols)

def rows(cols=1024, count=4, device="cuda"):
    x = torch.empty(count, cols, device=device, dtype=torch.float16)
    out, scale = torch.empty_like(x), torch.empty(cols, device=device, dtype=torch.float16)
    scaled[(count,)](x, scale, out, cols, cols, BLOCK=1024, num_warps=4)
    return out
"""


@pytest.mark.parametrize(
    ("cols", "inside", "shared"),
    [
        pytest.param(1024, 1.0, 0.0, id="aligned"),
        pytest.param(768, 0.75, 0.0, id="masked"),
        pytest.param(1001, 1001 / 1024, 1.0, id="unaligned"),
    ],
)
def test_places_have_the_lines_of_their_tiles(cols: int, inside: float, shared: float, tmp_path: Path) -> None:
    """Rows that begin anywhere are loaded element by element.

    All programs load the same scales.
    """
    path = tmp_path / "scaled.py"
    path.write_text(SCALED)
    target = load_target(f"{path}:rows")
    done = derive_with_launches(target, target.resolve({"cols": cols}), gpu=DEFAULT_GPU)
    (one,) = planned_launches(done, find_machine("H200"), DEFAULT_GPU, [])
    (used,) = done.resources
    assert used
    replayed = one.plan.replay()
    indices = {key for each in replayed.executions for key in each.columns}
    found = list(lines_of_places(replayed.accesses, replayed.executions, indices, used.lines).values())
    assert found[0] == PlaceLines(inside, pytest.approx(found[0].shared), common=True)
    for place in found[1:]:
        assert place == PlaceLines(inside, pytest.approx(shared, abs=0.1), common=False)
