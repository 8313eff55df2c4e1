"""Count the launches of a probe script under ncu.

A script makes a list of `Probe` on the GPU. `main` starts the script again under ncu, where it launches them in order, and
writes one JSON object: every kernel with the probe's description, its counters and its notes.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ioaware.environment import gpu_environment, software_environment
from ioaware.measurement.counters.ncu import command, find_ncu, run_failed
from ioaware.measurement.counters.ncu_csv import Metric, read_table
from ioaware.measurement.nvml import load_nvml, open_gpu
from ioaware.measurement.subprocesses import run_process

Notes = dict[str, Any]
Counters = Mapping[str, Metric]
"""Metrics by the names that they have in the file."""
PLAN, NOTED = "plan.json", "noted.json"


@dataclass(frozen=True, slots=True)
class Probe:
    """One call to count, and what it is.

    `notes` is called after all launches, and gives what the call wrote about itself.
    """

    what: Notes
    run: Callable[[], object]
    notes: Callable[[], Notes] = dict


def main(script: str, doc: str | None, counters: Counters, plan: Callable[[bool], Sequence[Probe]],
         beside: Callable[[], Notes] = dict, arguments: Sequence[str] | None = None) -> int:  # fmt: skip
    """Run a probe script with the command line `FILE [--small]`.

    `plan` makes the probes, few of them where its argument is true. `beside` gives more of the file, from the GPU.
    """
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--small", action="store_true", help="the first of each kind, to try the script")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.work:
        launch(plan(given.small), beside, given.file)
        return 0
    with tempfile.TemporaryDirectory(prefix="ioaware-") as name:
        folder = Path(name)
        program = [sys.executable, script, str(folder), "--work", *(["--small"] if given.small else [])]
        launches = counted(program, folder, counters)
        more = json.loads((folder / NOTED).read_text())["beside"]
    environment = {**gpu_environment(open_gpu(load_nvml()).limits), **software_environment()}
    given.file.write_text(json.dumps({"schema": 1, "launches": launches, **more, "environment": environment}) + "\n")
    print(f"{len(launches)} launches counted")
    return 0


def launch(probes: Sequence[Probe], beside: Callable[[], Notes], folder: Path) -> None:
    """Launch the probes between the profiler's start and stop.

    Each is in its NVTX range. Kernels are compiled before.
    """
    import torch

    for probe in probes:
        probe.run()
    torch.cuda.synchronize()
    runtime: Any = torch.cuda.cudart()
    (folder / PLAN).write_text(json.dumps([probe.what for probe in probes]))
    runtime.cudaProfilerStart()
    for number, probe in enumerate(probes):
        torch.cuda.nvtx.range_push(f"ioaware:{number}")
        probe.run()
        torch.cuda.synchronize()
        torch.cuda.nvtx.range_pop()
    runtime.cudaProfilerStop()
    (folder / NOTED).write_text(json.dumps({"notes": [probe.notes() for probe in probes], "beside": beside()}))


def counted(program: Sequence[str], folder: Path, counters: Counters, timeout_s: float = 300.0) -> list[Notes]:
    """Return every kernel of a program that calls `launch`, run under ncu.

    Raises `MachineError` where ncu profiled nothing, `DataError` for counters that cannot be trusted.
    """
    log = folder / "ncu.csv"
    done = run_process(command(find_ncu(), [one.name for one in counters.values()], log, program), timeout_s=timeout_s)
    text = log.read_text() if log.exists() else ""
    problem = run_failed(done, text)
    if problem:
        sys.stderr.write(done.stderr[-4000:])
        raise problem
    notes = json.loads((folder / NOTED).read_text())["notes"]
    return described(text, json.loads((folder / PLAN).read_text()), notes, counters)


def described(text: str, plan: Sequence[Notes], notes: Sequence[Notes], counters: Counters) -> list[Notes]:
    """Return every kernel of ncu's table with its probe's description and notes.

    A probe of several kernels has its notes at each.
    """
    return [
        {
            **({} if row.launch_index is None else plan[row.launch_index]),
            "kernel": row.kernel,
            "grid": str(row.grid),
            **{name: row.values[metric.name] for name, metric in counters.items()},
            **({} if row.launch_index is None else notes[row.launch_index]),
        }
        for row in read_table(text, list(counters.values())).rows
    ]
