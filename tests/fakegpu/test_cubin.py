"""Registers and spills read from a cubin equal those of cuobjdump."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from ioaware.errors import DataError
from ioaware.fakegpu.cubin import resources

CUOBJDUMP = Path(triton.__file__).parent / "backends/nvidia/bin/cuobjdump"


@triton.jit
def centred_kernel(x_ptr, out_ptr, SIZE: tl.constexpr):
    lanes = tl.arange(0, SIZE)
    x = tl.load(x_ptr + lanes)
    tl.store(out_ptr + lanes, x - tl.sum(x, axis=0))


@pytest.fixture(scope="module")
def cubins() -> list[bytes]:
    """Compile a kernel without and with a register limit."""
    target = GPUTarget("cuda", 90, 32)
    signature = {"x_ptr": "*fp32", "out_ptr": "*fp32", "SIZE": "constexpr"}
    source = ASTSource(centred_kernel, signature, constexprs={"SIZE": 4096})
    options = {"enable_fp_fusion": True, "num_warps": 1}
    return [triton.compile(source, target=target, options=options | limit).asm["cubin"] for limit in ({}, {"maxnreg": 32})]


@pytest.mark.parametrize("index", [0, 1])
def test_resources_equal_those_of_cuobjdump(cubins: list[bytes], index: int, tmp_path: Path) -> None:
    file = tmp_path / "kernel.cubin"
    file.write_bytes(cubins[index])
    command = [str(CUOBJDUMP), "--dump-resource-usage", str(file)]
    text = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    found = re.search(r"centred_kernel:\s+REG:(\d+) STACK:(\d+)", text)
    assert found is not None, text
    assert resources(cubins[index]) == (int(found[1]), int(found[2]))
    assert (resources(cubins[index])[1] > 0) == (index == 1)  # the register limit makes it spill


def test_other_bytes_are_refused(cubins: list[bytes]) -> None:
    for data in (b"", b"not an ELF file at all", cubins[0][:100], cubins[0][:-400], b"\x7fELF\x02" + bytes(200)):
        with pytest.raises(DataError):
            resources(data)
