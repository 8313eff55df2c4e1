"""The script that measures third-party kernels attributes counters to points.

Each point is that of a launch.
"""

from __future__ import annotations

import ast
import csv
import io
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import triton
import triton.language as tl
from triton.compiler.errors import CompileTimeAssertionFailure
from triton.runtime.errors import OutOfResources
from triton.runtime.jit import JITFunction

from ioaware.measurement.counters.kernel_attribution import METRICS, REQUESTED_READS
from ioaware.measurement.counters.l1_counters import HITS, L1_COUNTERS, READ_SECTORS
from ioaware.measurement.counters.launch_log import TritonLaunch, watch_launches
from ioaware.measurement.counters.ncu import Ncu, command
from ioaware.measurement.worker_protocol import Report
from ioaware.sweep.points import Point
from ioaware.targets.loading import load_file

SCRIPT = Path(__file__).parents[2] / "scripts" / "foreign" / "measure.py"
UNITS = {"byte": "byte", "time": "ns", "count": ""}


@pytest.fixture(scope="module")
def script() -> ModuleType:
    return load_file(SCRIPT)


def log(kernels: Sequence[str]) -> str:
    """Return ncu's table, where counter c of kernel k is 100 k + c."""
    metrics = (*METRICS, *L1_COUNTERS)
    ranges = "thread Domain:Push/Pop_Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg"
    rows = [["ID", "Kernel Name", "Grid Size", ranges, *(metric.name for metric in metrics)]]
    rows.append(["", "", "", "", *(UNITS[metric.dimension] for metric in metrics)])
    for number, kernel in enumerate(kernels):
        place = f'1 "<default domain>:ioaware:{number}:none:none"'
        rows.append([str(number), kernel, "(4, 1, 1)", place, *(str(100 * number + at) for at in range(len(metrics)))])
    text = io.StringIO()
    csv.writer(text, quoting=csv.QUOTE_ALL).writerows(rows)
    return text.getvalue()


def launches(*kernels: str) -> tuple[TritonLaunch, ...]:
    return tuple(TritonLaunch(kernel, kernel, (4, 1, 1)) for kernel in kernels)


POINTS = [Point("measure", "a.py:f", {"n": number}) for number in range(3)]


def test_each_point_gets_its_own_launches(script: ModuleType) -> None:
    reports = [
        Report("a.py:f", {}, launches("first", "second"), environment={"gpu": "one"}),
        Report(error={"kind": "ValueError", "what": "no such size", "remedy": ""}),
        Report("a.py:f", {}, launches("third"), unstable=("others compute here",)),
    ]
    one, failed, other = script.records(POINTS, reports, log(["first", "second", "third"]), {"triton": "3"})
    assert [launch.kernel for launch in one.launches] == ["first", "second"]
    assert [launch.kernel for launch in other.launches] == ["third"]
    names = [metric.name for metric in (*METRICS, *L1_COUNTERS)]
    reads, sectors, hits = (names.index(name) for name in (REQUESTED_READS, READ_SECTORS, HITS))
    assert one.requested.read_bytes == reads + (100 + reads)
    assert other.requested.read_bytes == 200 + reads
    assert other.launches[0].counters[READ_SECTORS] == 200 + sectors
    assert one.launches[1].counters[HITS] == 100 + hits
    assert (one.status, failed.status, other.status) == ("ok", "failed", "unstable")
    assert failed.notes == ("ValueError: no such size",)
    assert one.environment == {"gpu": "one", "triton": "3"}


def test_a_missing_launch_is_one_failed_record(script: ModuleType) -> None:
    reports = [Report("a.py:f", {}, launches("first", "second")), Report("a.py:f", {}, launches("third"))]
    failed, other = script.records(POINTS[:2], reports, log(["first", "", "third"]).replace("ioaware:1", "elsewhere"), {})
    assert (failed.status, other.status) == ("failed", "ok")
    assert "0 kernels in ncu's output instead of one" in failed.notes[0]
    assert [launch.kernel for launch in other.launches] == ["third"]
    with pytest.raises(ValueError, match="zip"):
        script.records(POINTS[:2], reports[:1], log(["first"]), {})


def test_points_of_a_library_are_dealt_to_few_processes(script: ModuleType) -> None:
    """Each in the order of the study; functions of torch.compile go to all in turn."""
    named = ["b.py:f", "a.py:f", "torch_compiled.py:f", "b.py:g", "a.py:g", "torch_compiled.py:g"]
    points = [Point("measure", target, {}) for target in named]
    dealt = [[point.target for point in share] for share in script.shares(points, 2)]
    assert dealt == [["a.py:f", "torch_compiled.py:f", "a.py:g"], ["b.py:f", "b.py:g", "torch_compiled.py:g"]]
    assert script.shares(points[:1], 3) == [points[:1]]


def test_kernels_of_torch_can_be_left_out() -> None:
    plain = command(Ncu(Path("ncu"), (2025, 3, 1)), ["a.sum"], Path("log"), ["program"])
    chosen = command(Ncu(Path("ncu"), (2025, 3, 1)), ["a.sum"], Path("log"), ["program"], launches_only=True)
    assert [word for word in chosen if word not in plain] == ["--nvtx-include", "regex:ioaware.*/"]


@triton.autotune([triton.Config({"BLOCK": block}) for block in (256, 128, 64)], key=["n"])
@triton.jit
def tuned(x, n, BLOCK: tl.constexpr):
    tl.store(x, 1)


@pytest.mark.parametrize(
    "refusal",
    [OutOfResources(300_000, 232_448, "shared memory"), CompileTimeAssertionFailure(None, ast.Pass(lineno=1, col_offset=0))],
)
def test_an_autotuned_kernel_runs_its_first_configuration_that_launches(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch, refusal: Exception
) -> None:
    """Nothing is timed, and the record names the configuration."""
    ran: list[int] = []

    def run(_kernel: Any, *_: Any, grid: Any, warmup: bool, **values: Any) -> Any:
        del grid, warmup
        ran.append(values["BLOCK"])
        if values["BLOCK"] == 256:
            raise refusal
        return SimpleNamespace(metadata=SimpleNamespace(name="tuned", shared=0), n_regs=32)

    monkeypatch.setattr(JITFunction, "run", run)
    kernel: Any = tuned
    with script.first_configurations(), watch_launches() as found:
        kernel[(4,)](None, 256)
    assert ran == [256, 128]
    assert [(one.configuration or {})["BLOCK"] for one in found] == [128]
