"""Files that launch kernels while they are imported.

Such files are those that end with a call of their own test.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from ioaware.derivation.derive import derive
from ioaware.errors import UsageError
from ioaware.targets.target import load_target
from ioaware.tracing.trace import trace

FILE = """
import torch, triton, triton.language as tl

@triton.autotune(configs=[triton.Config({"B": 64}), triton.Config({"B": 128})], key=["n"])
@triton.jit
def copy(x, out, n, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(out + at, tl.load(x + at, at < n), at < n)

def run(n: int = 1000):
    x = torch.randn(n, device="cuda")
    out = torch.empty_like(x)
    copy[lambda meta: (triton.cdiv(n, meta["B"]),)](x, out, n)
    return out

table = {"doubled": 2 * run()}

def read():
    return copy[(1,)](table["doubled"], torch.empty(10, device="cuda"), 10)

def attribute():
    return table.get("doubled")
"""


def written(folder: Path, more: str = "") -> str:
    (folder / "launching.py").write_text(FILE + more)
    return str(folder / "launching.py")


def test_a_file_that_launches_when_imported_is_a_target(tmp_path: Path) -> None:
    target = load_target(f"{written(tmp_path)}:run")
    derived, traced = derive(target, target.resolve({}), machine_code=False), trace(target, target.resolve({}))
    assert derived.exact
    for result in (derived, traced):
        assert result.requested is not None
        assert (result.requested.read_bytes, result.requested.write_bytes) == (4000, 4000)
        assert len([launch for launch in result.launches if launch.origin == "triton"]) == 1


@pytest.mark.parametrize("function", ["read", "attribute"])
def test_what_such_a_kernel_computes_is_not_used(tmp_path: Path, function: str) -> None:
    target = load_target(f"{written(tmp_path)}:{function}")
    with pytest.raises(UsageError, match="table is what a kernel computes while its file is imported"):
        derive(target, target.resolve({}))


@pytest.mark.parametrize(
    "line",
    [
        "size = int(run().sum())",
        "values = (2 * run()).cpu().numpy()",
        "held = torch.zeros(1000); held.copy_(run()); held.tolist()",
        "assert torch.equal(run(), run())",
    ],
)
def test_such_a_result_is_not_read_when_imported(tmp_path: Path, line: str) -> None:
    with pytest.raises(UsageError, match="reads what a kernel computes while it is imported"):
        load_target(f"{written(tmp_path, line)}:run")
