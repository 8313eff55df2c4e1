"""Count what L1 requests of copies and of backward kernels fetch, under ncu.

    PYTHONPATH=. python3 scripts/probe_requests.py FILE [--small]     (a CUDA GPU, Triton, ncu with counter permission)

FILE gets one JSON object.

- `copies`: one warp copies rows to shared memory past the L1, 16 bytes a lane, eight lanes a row. Rows begin anywhere in a
  sector, and some lanes are masked.
- `repeated`: recorded kernels of other libraries, several times, with the counters of their records. ncu runs a kernel again
  for each few of them: `passes` says how often. Checkouts are named by `FOREIGN_<NAME>`; without one a library is left out.
- `alone`: the same kernels, each counter in a process of its own.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.ampere import async_copy

from ioaware.environment import gpu_environment, software_environment
from ioaware.measurement.counters.kernel_attribution import METRICS, REQUESTED_READS, REQUESTED_WRITES
from ioaware.measurement.counters.l1_counters import COPY_DATA, HITS, L1_COUNTERS, READ_SECTORS, SPILL_HITS, WRITE_SECTORS
from ioaware.measurement.counters.ncu import command, find_ncu
from ioaware.measurement.nvml import load_nvml, open_gpu
from ioaware.measurement.subprocesses import run_process
from ioaware.targets.target import load_target

sys.path.insert(0, str(Path(__file__).parent / "foreign"))
from measure import first_configurations

RANGE = re.compile(r":ioaware:(\d+):")
PASSES = "profiler__replayer_passes"
"""How often ncu ran the kernel to count it, of itself in each table."""
COUNTERS: Mapping[str, Sequence[Sequence[str]]] = {
    "copies": [(READ_SECTORS, HITS, COPY_DATA, REQUESTED_READS)],
    "repeated": [tuple(metric.name for metric in (*METRICS, *L1_COUNTERS))],
    "alone": [(HITS,), (REQUESTED_READS,), (SPILL_HITS,), (WRITE_SECTORS,), (REQUESTED_WRITES,)],
}
"""Of each probe the counters of one process after the other."""
PROGRAMS = 64
REGION_BYTES = 1 << 16
"""Bytes from what one program copies to what the next one does."""
LANE_BYTES, ROW_BYTES, ROWS, ROW_STRIDE = 16, 128, 4, 2000
TIMES = 10
REPEATED: Sequence[tuple[str, dict[str, Any]]] = (
    ("flag_attention.py:flash", {"seq_len": 3000, "heads": 12}),
    ("flag_attention.py:flash", {"seq_len": 8192, "heads": 16}),
    ("mamba.py:chunk_cumsum", {"batch": 16, "chunks": 64, "heads": 32}),
    ("gems_tensors.py:embedding", {"rows": 6000, "cols": 5001}),
    ("gems_reductions.py:nll_loss", {"rows": 4096, "classes": 32000}),
    ("gems_reductions.py:nll_loss", {"rows": 2000, "classes": 50257}),
)
"""Recorded points whose counters do not add up."""


@gluon.jit
def copy_rows(x, out, start, stride, first, end, rows, REGION: gl.constexpr):
    """Copy bytes `first` to `end` of the first `rows` of four rows to shared memory."""
    layout: gl.constexpr = gl.BlockedLayout([1, 16], [4, 8], [1, 1], [1, 0])
    flat: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [1, 0])
    row = gl.arange(0, 4, layout=gl.SliceLayout(1, layout))[:, None]
    column = gl.arange(0, 128, layout=gl.SliceLayout(0, layout))[None, :]
    memory = gl.allocate_shared_memory(gl.int8, [4, 128], flat)
    wanted = (row < rows) & (column >= first) & (column < end)
    async_copy.async_copy_global_to_shared(memory, x + gl.program_id(0) * REGION + start + row * stride + column, mask=wanted)
    async_copy.commit_group()
    async_copy.wait_group(0)
    gl.store(out + gl.program_id(0) * 512 + row * 128 + column, memory.load(layout))


def copies() -> Iterator[dict[str, int]]:
    """Yield the copies: one row from anywhere in a line, and four rows.

    Rows of 2000 bytes begin at four places of a sector and a line, as those of a matrix do. With a stride of 0 masked rows
    hold the addresses of the one that is copied.
    """
    for start in range(0, ROW_BYTES, LANE_BYTES):
        for stride in (0, ROW_STRIDE):
            for end in range(LANE_BYTES, ROW_BYTES + 1, LANE_BYTES):
                yield {"start": start, "stride": stride, "first": 0, "end": end, "rows": 1}
        yield {"start": start, "stride": ROW_STRIDE, "first": LANE_BYTES, "end": 80, "rows": 1}
        yield {"start": start, "stride": ROW_STRIDE, "first": LANE_BYTES, "end": ROW_BYTES, "rows": 1}
    for start in (0, 4 * ROW_STRIDE):
        for end in range(LANE_BYTES, ROW_BYTES + 1, LANE_BYTES):
            yield {"start": start, "stride": ROW_STRIDE, "first": 0, "end": end, "rows": ROWS}


def launch_copy(x: torch.Tensor, out: torch.Tensor, one: dict[str, int]) -> None:
    """Launch one copy on `x`, of `PROGRAMS` regions."""
    given = [one[name] for name in ("start", "stride", "first", "end", "rows")]
    copy_rows[(PROGRAMS,)](x, out, *given, REGION=REGION_BYTES, num_warps=1)


def plan(probe: str, small: bool) -> list[tuple[dict[str, Any], Callable[[], object]]]:
    """Return every launch of a probe with its description."""
    found: list[tuple[dict[str, Any], Callable[[], object]]] = []
    if probe == "copies":
        x = torch.zeros(PROGRAMS * REGION_BYTES, dtype=torch.int8, device="cuda")
        out = torch.zeros(PROGRAMS * ROWS * ROW_BYTES, dtype=torch.int8, device="cuda")
        for one in list(copies())[: 4 if small else None]:
            found.append(({"probe": probe, "programs": PROGRAMS, **one}, partial(launch_copy, x, out, one)))
        return found
    for name, params in REPEATED[: 1 if small else None]:
        with suppress(FileNotFoundError):
            target = load_target(str(Path(__file__).parent / "foreign" / name))
            work = target.build(device="cuda", **target.resolve(params))
            found += [({"probe": probe, "target": name, "params": params, "time": time}, work.run) for time in range(TIMES)]
    return found


def work(folder: Path, probe: str, small: bool) -> None:
    """Make the launches, to be run under ncu; write what each is."""
    with first_configurations():
        launches = plan(probe, small)
        for _, run in launches:
            run()
        torch.cuda.synchronize()
        runtime: Any = torch.cuda.cudart()
        (folder / "plan.json").write_text(json.dumps([what for what, _ in launches]))
        runtime.cudaProfilerStart()
        for number, (_, run) in enumerate(launches):
            torch.cuda.nvtx.range_push(f"ioaware:{number}")
            run()
            torch.cuda.synchronize()
            torch.cuda.nvtx.range_pop()
        runtime.cudaProfilerStop()


def counted(probe: str, metrics: Sequence[str], small: bool) -> list[dict[str, Any]]:
    """Run a probe under ncu; return every kernel with its counters."""
    with tempfile.TemporaryDirectory(prefix="ioaware-") as name:
        folder = Path(name)
        log = folder / "ncu.csv"
        program = [sys.executable, __file__, str(folder), "--work", probe, *(["--small"] if small else [])]
        done = run_process(command(find_ncu(), metrics, log, program), timeout_s=300.0)
        text = log.read_text() if log.exists() else ""
        start = text.find('"ID"')
        if start < 0:
            raise RuntimeError(f"ncu {done.how}\n{text[-2000:]}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")
        what = json.loads((folder / "plan.json").read_text())
    found: list[dict[str, Any]] = []
    described: dict[str, Any] = {}
    for row in csv.DictReader(io.StringIO(text[start:])):
        if not (row.get("ID") or "").isdigit():
            continue
        ranges = [cell for key, cell in row.items() if key and "Push/Pop_Range" in key and cell and "ioaware:" in cell]
        if ranges:  # autograd launches in a thread of its own, in no range: after the forward kernels of its call
            described = what[int(RANGE.findall(ranges[0])[-1])]
        values = {metric: int(float(row[metric].replace(",", ""))) for metric in metrics if row.get(metric)}
        kernel = {"kernel": row["Kernel Name"], "grid": row["Grid Size"], "passes": int(row.get(PASSES) or 0)}
        found.append({**described, **kernel, "counters": values})
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--small", action="store_true", help="the first of each kind, to try the script")
    parser.add_argument("--probe", action="append", choices=COUNTERS, help="only this one (repeatable)")
    parser.add_argument("--work", choices=COUNTERS, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.work:
        work(given.file, given.work, given.small)
        return 0
    os.environ.setdefault("PYTHONPATH", str(Path(__file__).resolve().parents[1]))
    environment = {**gpu_environment(open_gpu(load_nvml()).limits), **software_environment()}
    probes = [(probe, metrics) for probe in given.probe or COUNTERS for metrics in COUNTERS[probe]]
    launches = [one for probe, metrics in probes for one in counted(probe, metrics, given.small)]
    given.file.write_text(json.dumps({"schema": 1, "launches": launches, "environment": environment}) + "\n")
    print(f"{len(launches)} launches counted")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
