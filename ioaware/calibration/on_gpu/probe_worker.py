"""Launch the probes on the GPU.

The command is `python -m ioaware.calibration.on_gpu.probe_worker counters|rates OUT`.

`counters` launches the plan once, to run under ncu. `rates` times reading, writing, copying, triad, L2 and matmuls, and how far
programs of a wave drift apart. Both write JSON to OUT.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
import triton

from ioaware.calibration.on_gpu import probe_kernels as kernels
from ioaware.calibration.probes import (
    BLOCK_BYTES,
    L1_BLOCK_BYTES,
    MATMUL_SIDE,
    MATMUL_TILE,
    MIB,
    PARENT_LOCK,
    PASSES,
    STRIDED_ELEMENTS,
    Probe,
    Sizes,
    plan,
)
from ioaware.environment import gpu_environment
from ioaware.machine.detect import detect_machine
from ioaware.measurement.gpu_lock import gpu_lease
from ioaware.measurement.nvml import load_nvml, open_gpu
from ioaware.measurement.parent_watchdog import watch_parent

FLOAT_BYTES = 4
RATE_BYTES = 2 << 30
REPETITIONS = 20
L2_PASSES, L2_PROGRAMS_PER_SM, L2_BLOCKS = 64, 4, 2
PRODUCT_TILE, PRODUCT_PROGRAMS_PER_SM, HALF_BYTES = (64, 128), 8, 2
MATMUL_RATE_SIDE = 8192
DRIFT_BYTES, DRIFT_WAVES = 16 * MIB, 8
LEASE_S = 600.0


class Buffers:
    """Three tensors as large as the largest probe, and the outputs of the sweeps."""

    def __init__(self, sizes: Sizes, size_bytes: int) -> None:
        self.sizes = sizes
        self.x, self.y, self.z = (torch.zeros(size_bytes // FLOAT_BYTES, device="cuda") for _ in range(3))
        self.out = torch.zeros(sizes.sms * BLOCK_BYTES // FLOAT_BYTES, device="cuda")
        self.a, self.b, self.c = (torch.randn(MATMUL_SIDE, MATMUL_SIDE, device="cuda", dtype=torch.float16) for _ in range(3))

    def launch(self, probe: Probe) -> None:
        """Launch a probe."""
        kernel = getattr(kernels, probe.kernel)
        block, sms = BLOCK_BYTES // FLOAT_BYTES, self.sizes.sms
        if probe.kernel.startswith("l1_"):
            small, blocks = L1_BLOCK_BYTES // FLOAT_BYTES, probe.size_bytes // L1_BLOCK_BYTES
            tensors = (self.x, self.y) if probe.kernel == "l1_beside_stores" else (self.x,)
            kernel[(sms,)](*tensors, self.out, blocks, PASSES=PASSES, BLOCK=small)
        elif probe.kernel == "l2_shared":
            kernel[(sms,)](self.x, self.out, probe.size_bytes // BLOCK_BYTES, PASSES=PASSES, BLOCK=block)
        elif probe.kernel == "l2_private":
            kernel[(sms,)](self.x, self.out, probe.size_bytes // BLOCK_BYTES // sms, PASSES=PASSES, BLOCK=block)
        elif probe.kernel == "strided":
            kernel[(triton.cdiv(STRIDED_ELEMENTS, block),)](self.x, self.y, BLOCK=block)
        elif probe.kernel == "matmul":
            tiles = MATMUL_SIDE // MATMUL_TILE
            kernel[(tiles, tiles)](self.a, self.b, self.c, SIDE=MATMUL_SIDE, TILE=MATMUL_TILE)
        else:
            x, y, z = self.x, self.y, self.z
            tensors = {"fill": (x,), "read": (x, self.out), "copy": (x, y), "add": (x, y, z)}[probe.kernel]
            kernel[(probe.size_bytes // BLOCK_BYTES,)](*tensors, BLOCK=block)


def counters(sizes: Sizes) -> dict[str, Any]:
    """Launch the plan between the profiler's start and stop.

    Kernels are compiled before.
    """
    probes = plan(sizes)
    largest = max(*(p.size_bytes for p in probes), *(p.size_bytes * sizes.sms for p in probes if p.kernel.startswith("l1_")))
    buffers = Buffers(sizes, largest)
    for probe in {one.kernel: one for one in probes}.values():
        buffers.launch(probe)
    torch.cuda.synchronize()
    runtime: Any = torch.cuda.cudart()
    runtime.cudaProfilerStart()
    for probe in probes:
        buffers.launch(probe)
        torch.cuda.synchronize()
    runtime.cudaProfilerStop()
    return {}


def rates(sizes: Sizes) -> dict[str, Any]:
    """Return bytes and FLOP per second of each ceiling.

    The drift of equal programs is returned too.
    """
    environment = gpu_environment(open_gpu(load_nvml()).limits)
    return {**_memory_rates(sizes), **_matmul_rates(), "drift": drift(sizes), "environment": environment}


def _memory_rates(sizes: Sizes) -> dict[str, float]:
    """Time each kind of access on 2 GiB a tensor of random numbers.

    The L2 is timed three times: every program reads a slice of its own; all read the same block, whose requests are merged
    before they reach the L2; matmul programs sweep the same memory. A program of the first two reads two blocks in turns:
    loads of a single one would be moved out of its loop.
    """
    block, blocks = BLOCK_BYTES // FLOAT_BYTES, RATE_BYTES // BLOCK_BYTES
    x, y, z = (torch.rand(RATE_BYTES // FLOAT_BYTES, device="cuda") for _ in range(3))
    programs = L2_PROGRAMS_PER_SM * sizes.sms
    sums, out = torch.zeros(blocks, device="cuda"), torch.zeros(programs * block, device="cuda")
    swept = L2_PASSES * programs * L2_BLOCKS * BLOCK_BYTES

    def sweep(kernel: Any) -> float:
        return _seconds(lambda: kernel[(programs,)](x, out, L2_BLOCKS, PASSES=L2_PASSES, BLOCK=block))

    return {
        "hbm_read_bytes_per_s": RATE_BYTES / _seconds(lambda: kernels.read[(blocks,)](x, sums, BLOCK=block)),
        "hbm_write_bytes_per_s": RATE_BYTES / _seconds(lambda: kernels.fill[(blocks,)](x, BLOCK=block)),
        "hbm_copy_bytes_per_s": 2 * RATE_BYTES / _seconds(lambda: kernels.copy[(blocks,)](x, y, BLOCK=block)),
        "hbm_triad_bytes_per_s": 3 * RATE_BYTES / _seconds(lambda: kernels.add[(blocks,)](x, y, z, BLOCK=block)),
        "l2_read_bytes_per_s": swept / sweep(kernels.l2_private),
        "l2_shared_read_bytes_per_s": swept / sweep(kernels.l2_shared),
        "l2_matmul_read_bytes_per_s": _products_rate(sizes),
    }


def _products_rate(sizes: Sizes) -> float:
    """Time matmul programs that read the same memory, which half of the L2 holds.

    It is zeros: products of random numbers draw so much power that the clock falls.
    """
    side, width = PRODUCT_TILE
    programs, tile = PRODUCT_PROGRAMS_PER_SM * sizes.sms, side * width
    steps = max(1, sizes.l2_bytes * 2 // 5 // (HALF_BYTES * tile))
    a, x = (torch.zeros(count, device="cuda", dtype=torch.float16) for count in (programs * side * side, steps * tile))
    out = torch.zeros(programs * tile, device="cuda")
    seconds = _seconds(
        lambda: kernels.l2_products[(programs,)](a, x, out, steps, ROWS=side, COLS=side, WIDTH=width, num_warps=4, num_stages=3)
    )
    return programs * steps * tile * HALF_BYTES / seconds


def _matmul_rates() -> dict[str, float]:
    """Time the library's matmul of random 8192 x 8192 matrices."""
    found: dict[str, float] = {}
    for dtype in (torch.float16, torch.bfloat16):
        a, b = (torch.randn(MATMUL_RATE_SIDE, MATMUL_RATE_SIDE, device="cuda", dtype=dtype) for _ in range(2))
        seconds = _seconds(partial(torch.mm, a, b, out=torch.empty_like(a)))
        found[f"matmul_{str(dtype).removeprefix('torch.')}_flops_per_s"] = 2 * MATMUL_RATE_SIDE**3 / seconds
    return found


def _seconds(run: Callable[[], object]) -> float:
    """Return the median time of a launch, by CUDA events, after warm-up."""
    for _ in range(5):
        run()
    events = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(REPETITIONS)]
    for start, end in events:
        start.record()
        run()
        end.record()
    torch.cuda.synchronize()
    return statistics.median(start.elapsed_time(end) for start, end in events) / 1e3


def drift(sizes: Sizes) -> float:
    """Return how far the ends of equal programs of one wave lie apart.

    It is given as a share of their length.
    """
    block, programs = BLOCK_BYTES // FLOAT_BYTES, DRIFT_WAVES * sizes.sms
    x = torch.zeros(DRIFT_BYTES // FLOAT_BYTES, device="cuda")
    out = torch.zeros(programs * block, device="cuda")
    begun, ended = (torch.zeros(programs, dtype=torch.int64, device="cuda") for _ in range(2))
    for _ in range(3):
        kernels.timed[(programs,)](x, out, begun, ended, DRIFT_BYTES // BLOCK_BYTES, BLOCK=block)
    torch.cuda.synchronize()
    first = ended[: sizes.sms]
    return float((first.max() - first.min()) / (ended - begun).double().median())


MODES: dict[str, Callable[[Sizes], dict[str, Any]]] = {"counters": counters, "rates": rates}


def main(arguments: Sequence[str]) -> int:
    """Run a mode while holding the GPU's lock, and write its answer."""
    mode, out = arguments
    watch_parent(Path(out).parent / PARENT_LOCK)
    machine = detect_machine()
    sizes = Sizes(machine.sms, machine.level("l2").capacity_bytes, machine.level("l1").capacity_bytes)
    with gpu_lease(open_gpu(load_nvml()).limits.uuid, timeout_s=LEASE_S):
        answer = MODES[mode](sizes)
    Path(out).write_text(json.dumps({"sizes": [sizes.sms, sizes.l2_bytes, sizes.l1_bytes], **answer}), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
