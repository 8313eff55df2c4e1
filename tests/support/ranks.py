"""Run a function on several processes that form a group, of gloo or of NCCL.

This is for tests of what happens between ranks. With NCCL, rank r has GPU r.

`on_ranks` starts one clean process, which imports torch once and forks the ranks: cheaper than a fresh process each, and safe
whatever threads the test process has. A rank's return value comes back as JSON.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
import traceback
from datetime import timedelta
from pathlib import Path
from typing import Any

from tests.support import ROOT

HUNG_S = 240
"""No test here takes this long on a loaded machine: a run that does, hangs."""
GROUP_S = 200
"""Time limit of a group's transfers, unless a test gives its own."""


NO_MULTICAST = {"NCCL_NVLS_ENABLE": "0", "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1", "NVSHMEM_DISABLE_NVLS": "1"}


def on_ranks(function: str, ranks: int, folder: Path, *, backend: str = "gloo", **arguments: Any) -> list[Any]:
    """Return what `module:function` returns on each rank.

    It is called as f(rank, ranks, **arguments). The value is None for a rank that died.
    """
    folder.mkdir(parents=True, exist_ok=True)
    order = json.dumps(
        {"function": function, "ranks": ranks, "folder": str(folder), "backend": backend, "arguments": arguments}
    )
    environment = {
        **os.environ,
        **NO_MULTICAST,
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH")))),
        "GLOO_SOCKET_IFNAME": "lo",
        "NCCL_SOCKET_IFNAME": "lo",
    }
    with subprocess.Popen(
        [sys.executable, "-m", "tests.support.ranks"],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
        cwd=ROOT,
        text=True,
        start_new_session=True,
    ) as started:
        try:
            errors = started.communicate(order, timeout=HUNG_S)[1]
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(started.pid, signal.SIGKILL)  # no rank outlives the test
    assert started.returncode == 0, errors
    files = [folder / f"{rank}.json" for rank in range(ranks)]
    answers = [json.loads(file.read_text()) if file.exists() else None for file in files]
    failed = [answer["traceback"] for answer in answers if answer and "traceback" in answer]
    assert not failed, "\n".join(failed)
    return [answer and answer["value"] for answer in answers]


def run_rank(order: dict[str, Any], rank: int) -> None:
    """Join the group, call the function and write its value, or the traceback."""
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    folder, ranks = Path(order["folder"]), order["ranks"]
    module, name = order["function"].split(":")
    try:
        on_gpus = order["backend"] == "nccl"
        if on_gpus:
            torch.cuda.set_device(rank)
        dist.init_process_group(
            order["backend"],
            init_method=f"file://{folder / 'rendezvous'}",
            rank=rank,
            world_size=ranks,
            timeout=timedelta(seconds=GROUP_S),
        )
        dist.barrier(device_ids=[rank] if on_gpus else None)  # no rank may leave while another still connects
        answer = {"value": getattr(importlib.import_module(module), name)(rank, ranks, **order["arguments"])}
    except BaseException:
        answer = {"traceback": f"rank {rank}:\n{traceback.format_exc()}"}
    unfinished = folder / f"{rank}.unfinished"
    unfinished.write_text(json.dumps(answer))
    unfinished.rename(folder / f"{rank}.json")
    time.sleep(HUNG_S)  # its connections stay open until all ranks have answered


def main() -> None:
    """Fork the ranks of the order on stdin, and wait until each has answered or died."""
    order = json.load(sys.stdin)
    folder = Path(order["folder"])
    for module in (order["function"].split(":")[0], "sympy"):  # torch imports sympy when first used: once here, not a rank
        importlib.import_module(module)
    forking = multiprocessing.get_context("fork")
    processes = [forking.Process(target=run_rank, args=(order, rank), daemon=True) for rank in range(order["ranks"])]
    for process in processes:
        process.start()
    while any(process.is_alive() and not (folder / f"{rank}.json").exists() for rank, process in enumerate(processes)):
        time.sleep(0.02)
    for process in processes:
        process.kill()


if __name__ == "__main__":
    main()
