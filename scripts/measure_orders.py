"""Time and energy of `flash2` in its three orders, taken in turns in one process.

    PYTHONPATH=. python scripts/measure_orders.py FILE [--rounds 3] [--window 0.5] [--small]

Each round runs every order back to back for a window; the GPU's energy counter is read before and after. The outputs of the
orders are compared with the plain order's. FILE gets one JSON line per size and order.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from ioaware.environment import gpu_environment, software_environment
from ioaware.kernels.attention.flash2 import flash2
from ioaware.kernels.attention.launching.on_chip_limits import ORDERS
from ioaware.measurement.gpu_lock import gpu_lease
from ioaware.measurement.nvml import Gpu, load_nvml, open_gpu

SIZES = ((128, 65536, 4), (64, 131072, 2), (128, 131072, 2), (128, 262144, 1))
"""head_dim, seq_len and heads: those of the study `h200-order`."""
SMALL = ((64, 2048, 4),)
BLOCK = 64


def compared(plain: torch.Tensor, other: torch.Tensor) -> float:
    """Return the norm of the difference of two outputs over the norm of the first."""
    difference = (other.float() - plain.float()).norm() / plain.float().norm()
    return float(difference)


def window(run: Any, seconds: float, gpu: Gpu) -> tuple[int, float, float]:
    """Run for so many seconds; return calls, seconds and joules."""
    torch.cuda.synchronize()
    joules, start, calls = gpu.energy_mj() or 0, time.monotonic(), 0
    while time.monotonic() - start < seconds:
        run()
        torch.cuda.synchronize()
        calls += 1
    return calls, time.monotonic() - start, ((gpu.energy_mj() or 0) - joules) / 1e3


def measured(size: tuple[int, int, int], rounds: int, seconds: float, gpu: Gpu) -> list[dict[str, Any]]:
    """Return the rows of one size, an order each."""
    head_dim, seq_len, heads = size
    q, k, v = (torch.randn(1, heads, seq_len, head_dim, device="cuda", dtype=torch.float16) for _ in range(3))
    runs = {order: lambda order=order: flash2(q, k, v, block_m=BLOCK, block_n=BLOCK, order=order) for order in ORDERS}
    outputs = {order: run()[0] for order, run in runs.items()}
    differences = {order: compared(outputs["plain"], output) for order, output in outputs.items()}
    del outputs
    found: dict[str, list[tuple[int, float, float]]] = {order: [] for order in ORDERS}
    for number in range(rounds + 1):  # the first round warms up
        for order, run in runs.items():
            taken = window(run, seconds if number else seconds / 5, gpu)
            found[order] += [taken] if number else []
    return [
        {
            "head_dim": head_dim, "seq_len": seq_len, "heads": heads, "block_m": BLOCK, "block_n": BLOCK, "order": order,
            "time_ns": statistics.median(seconds / calls for calls, seconds, _ in windows) * 1e9,
            "energy_mj": statistics.median(joules / calls for calls, _, joules in windows) * 1e3,
            "difference_from_plain": differences[order],
            "windows": [{"calls": calls, "seconds": seconds, "joules": joules} for calls, seconds, joules in windows],
        }
        for order, windows in found.items()
    ]  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the file and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--window", type=float, default=0.5, help="seconds that one order runs in one round")
    parser.add_argument("--small", action="store_true", help="one small size, to try the script")
    given = parser.parse_args(arguments)
    gpu = open_gpu(load_nvml())
    torch.manual_seed(0)
    environment = {**gpu_environment(gpu.limits), **software_environment()}
    with gpu_lease(gpu.limits.uuid, timeout_s=600.0), given.file.open("w") as file:
        for size in SMALL if given.small else SIZES:
            for row in measured(size, given.rounds, given.window, gpu):
                file.write(json.dumps({"schema": 1, **row, "environment": environment}) + "\n")
                file.flush()
                cost = f"{row['time_ns'] / 1e6:.2f} ms, {row['energy_mj'] / 1e3:.2f} J"
                off = f"off plain {row['difference_from_plain']:.1e}"
                print(f"d {row['head_dim']} seq_len {row['seq_len']} {row['order']}: {cost}, {off}", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
