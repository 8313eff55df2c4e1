"""Record on which SM each program of a launch runs, and when.

Kernels write it themselves: their PTX gets a few instructions at the beginning and before each return.

    PYTHONPATH=. python3 scripts/probe_placement.py FILE [--small]     (a CUDA GPU, Triton; a minute)

FILE gets one JSON object: for each launch the durations of its programs, and the programs of a few SMs in order.
"""

# pyright: basic, reportAttributeAccessIssue=false, reportArgumentType=false
from __future__ import annotations

import argparse
import ctypes
import json
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
import triton.compiler.compiler as triton_compiler
from numpy.typing import NDArray
from triton.backends.nvidia.compiler import CUDABackend

from ioaware.environment import gpu_environment, software_environment
from ioaware.measurement.nvml import load_nvml, open_gpu
from ioaware.targets.target import load_target

MOST_PROGRAMS, FIELDS, WORD_BYTES = 600_000, 6, 8
NAME = "ioaware_places"
SMS = (0, 50, 100)
"""SMs of which every program is recorded."""
LAUNCHES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("standard", {"head_dim": 64, "seq_len": 32768, "heads": 2}),
    ("standard", {"head_dim": 128, "seq_len": 16384, "heads": 4}),
    ("square_tiling", {"block_m": 32, "seq_len": 2048, "heads": 64, "head_dim": 128}),
    ("square_tiling", {"block_m": 64, "seq_len": 2048, "heads": 64, "head_dim": 128}),
    ("small_cache_bwd", {"block_m": 32, "seq_len": 2048, "heads": 64, "head_dim": 128}),
    ("small_cache_bwd", {"block_m": 64, "seq_len": 2048, "heads": 64, "head_dim": 128}),
    ("flash2_bwd", {"batch": 2, "heads": 64, "seq_len": 4096, "head_dim": 64}),
    ("gqa_bwd", {"heads": 64, "kv_heads": 8, "seq_len": 2048, "head_dim": 64}),
    ("flash_rowwise", {"heads": 16, "seq_len": 1024, "head_dim": 64}),
    ("softmax_materialised", {"rows": 16384, "cols": 4096}),
)
NUMBER = """
{
.reg .pred %io_other; .reg .b32 %io_number, %io_word; .reg .b64 %io_at, %io_long, %io_time, %io_sm;
mov.u32 %io_word, %tid.x; setp.ne.u32 %io_other, %io_word, 0; @%io_other bra $io_done_LABEL;
mov.u32 %io_number, %ctaid.z; mov.u32 %io_word, %nctaid.y; mul.lo.u32 %io_number, %io_number, %io_word;
mov.u32 %io_word, %ctaid.y; add.u32 %io_number, %io_number, %io_word;
mov.u32 %io_word, %nctaid.x; mul.lo.u32 %io_number, %io_number, %io_word;
mov.u32 %io_word, %ctaid.x; add.u32 %io_number, %io_number, %io_word;
mov.u64 %io_at, NAME; mad.wide.u32 %io_at, %io_number, SIZE, %io_at;
mov.u64 %io_long, %clock64; mov.u64 %io_time, %globaltimer;
WRITE
$io_done_LABEL:
}
"""
BEGIN = """mov.u32 %io_word, %smid; cvt.u64.u32 %io_sm, %io_word;
st.global.v2.u64 [%io_at], {%io_long, %io_sm}; st.global.u64 [%io_at+24], %io_time;"""
END = "st.global.u64 [%io_at+16], %io_long; st.global.u64 [%io_at+32], %io_time;"


def noting(ptx: str) -> str:
    """Return PTX that writes the SM and the clocks of each program to `NAME`."""
    labels = iter(range(100))

    def block(write: str) -> str:
        filled = NUMBER.replace("WRITE", write).replace("NAME", NAME).replace("SIZE", str(FIELDS * WORD_BYTES))
        return filled.replace("LABEL", str(next(labels)))

    memory = f".global .align 16 .b8 {NAME}[{MOST_PROGRAMS * FIELDS * WORD_BYTES}];"
    ptx = ptx.replace(".address_size 64", f".address_size 64\n{memory}", 1)
    ptx = ptx.replace("// %bb.0:", f"// %bb.0:{block(BEGIN)}", 1)
    return re.sub(r"^\tret;$", lambda _: f"{block(END)}\tret;", ptx, flags=re.MULTILINE)


@contextmanager
def kernels_that_note() -> Iterator[list[Any]]:
    """Make Triton compile kernels that note their places; yield those made."""
    make, create = CUDABackend.make_ptx, triton_compiler.CompiledKernel.__init__
    made: list[Any] = []

    def make_ptx(*given: Any) -> str:
        return noting(make(*given))

    def created(self: Any, *given: Any, **named: Any) -> None:
        create(self, *given, **named)
        made.append(self)

    CUDABackend.make_ptx, triton_compiler.CompiledKernel.__init__ = make_ptx, created
    try:
        yield made
    finally:
        CUDABackend.make_ptx, triton_compiler.CompiledKernel.__init__ = make, create


class Memory:
    """What the kernels noted, in their own memory."""

    def __init__(self, kernel: Any) -> None:
        self.driver = ctypes.CDLL("libcuda.so.1")
        self.address, self.bytes = ctypes.c_uint64(), ctypes.c_size_t()
        module = ctypes.c_void_p(kernel.module)
        _done(self.driver.cuModuleGetGlobal_v2(ctypes.byref(self.address), ctypes.byref(self.bytes), module, NAME.encode()))

    def clear(self) -> None:
        """Forget everything."""
        _done(self.driver.cuMemsetD8_v2(self.address, 0, self.bytes))

    def read(self) -> NDArray[np.int64]:
        """Return clock at the start, SM, clock at the end, and nanoseconds of both."""
        found = np.empty((MOST_PROGRAMS, FIELDS), dtype=np.int64)
        _done(self.driver.cuMemcpyDtoH_v2(ctypes.c_void_p(found.ctypes.data), self.address, self.bytes))
        return found[: 1 + int(np.flatnonzero(found[:, 0]).max(initial=-1)), :5]


def places(target: str, params: dict[str, Any], made: list[Any]) -> list[dict[str, Any]]:
    """Run a target's call twice and return what the kernels of the second noted."""
    loaded = load_target(target)
    work = loaded.build(device="cuda", **loaded.resolve(params))
    work.run()
    torch.cuda.synchronize()
    kernels = [(one, Memory(one)) for one in made if getattr(one, "module", None) is not None]
    for _, memory in kernels:
        memory.clear()
    work.run()
    torch.cuda.synchronize()
    found = [(one, memory.read()) for one, memory in kernels]
    return [described(target, params, one, noted) for one, noted in found if len(noted)]


def described(target: str, params: dict[str, Any], kernel: Any, noted: NDArray[np.int64]) -> dict[str, Any]:
    """Return what is recorded of a launch: clocks are from the first start on an SM."""
    start, sm, end = noted.T[:3]
    of_sms = {str(one): _programs(np.flatnonzero(sm == one), start, end) for one in SMS}
    clocks = end - start
    return {
        "target": target,
        "params": params,
        "kernel": kernel.metadata.name,
        "programs": len(noted),
        "warps": kernel.metadata.num_warps,
        "shared_bytes": kernel.metadata.shared,
        "registers": kernel.n_regs,
        "mean_clocks": round(float(clocks.mean()), 1),
        "deviation_clocks": round(float(clocks.std()), 1),
        "sms": of_sms,
    }


def _programs(numbers: NDArray[np.intp], start: NDArray[np.int64], end: NDArray[np.int64]) -> list[list[int]]:
    """Return number, start and end of the first programs of an SM, in order."""
    ordered = numbers[np.argsort(start[numbers], kind="stable")][:200]
    first = start[ordered[:1]]
    return np.stack((ordered, start[ordered] - first, end[ordered] - first), 1).tolist()


def _done(code: int) -> None:
    """Raise where the driver answers anything but success."""
    if code:
        raise RuntimeError(f"the CUDA driver answers {code}: see CUresult in cuda.h")


def main() -> None:
    """Write the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--small", action="store_true", help="the last launch, to try the script")
    given = parser.parse_args()
    launches: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="ioaware-") as cache, kernels_that_note() as made:
        os.environ["TRITON_CACHE_DIR"] = cache
        for target, params in LAUNCHES[-1:] if given.small else LAUNCHES:
            launches += places(target, params, made)
    environment = {**gpu_environment(open_gpu(load_nvml()).limits), **software_environment()}
    given.file.write_text(json.dumps({"schema": 1, "launches": launches, "environment": environment}) + "\n")
    print(f"{len(launches)} launches recorded")


if __name__ == "__main__":
    main()
