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


COPIED = """
import torch, triton, triton.language as tl
from torch._C import _cuda_getCurrentRawStream as get_raw_stream

empty_strided_cuda = torch._C._dynamo.guards._empty_strided_cuda
reinterpret_tensor = torch._C._dynamo.guards._reinterpret_tensor

@triton.jit
def fill(out, B: tl.constexpr):
    tl.store(out + tl.arange(0, B), 1)

def run(n: int = 16):
    with torch.cuda._DeviceGuard(0):
        torch.cuda.set_device(0)
        out = reinterpret_tensor(empty_strided_cuda((n, 1), (1, 1), torch.float32), (n,), (1,), 0)
        stream0 = get_raw_stream(0)
        fill[(1,)](out, 16)
    return out
"""


def test_code_copied_from_a_compiled_file_runs(tmp_path: Path) -> None:
    path = tmp_path / "copied.py"
    path.write_text(COPIED)
    target = load_target(f"{path}:run")
    derived, traced = derive(target, {}, machine_code=False).requested, trace(target, {}).requested
    assert derived is not None
    assert traced is not None
    assert derived.write_bytes == traced.write_bytes == 64
