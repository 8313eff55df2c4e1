"""Fakes of NVML, the GPU, ncu and the worker's Python.

They have the failures of the real ones.
"""

from __future__ import annotations

import json
import stat
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

FIXTURES = Path(__file__).parent / "ncu_fixtures"
UUID = "GPU-01234567-89ab-cdef-0123-456789abcdef"


def constantly(value: Any) -> Iterator[Any]:
    while True:
        yield value


@dataclass
class FakeNvml:
    """An idle H200.

    Every value can be changed, and `clocks` or `uuids` may step between queries.
    """

    count: int = 1
    uuids: Iterator[str] = field(default_factory=lambda: constantly(UUID))
    clocks: Iterator[int] = field(default_factory=lambda: constantly(1980))
    reasons: int = 0
    temperature: int = 40
    processes: Callable[[], tuple[int, ...]] = lambda: ()
    mig: int = 0
    gpm: tuple[float, float] | None = (88.7, 78.4)
    energy: Iterator[int] = field(default_factory=lambda: iter(range(0, 10**9, 500)))
    missing: tuple[str, ...] = ()

    class NVMLError(Exception):
        pass

    NVML_GPM_METRICS_GET_VERSION = 1

    def __getattribute__(self, name: str) -> Any:
        if name in object.__getattribute__(self, "missing"):
            raise AttributeError(name)
        return object.__getattribute__(self, name)

    def nvmlDeviceGetCount(self) -> int:
        return self.count

    def nvmlDeviceGetHandleByIndex(self, index: int) -> str:
        return f"handle {index}"

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> str:
        if uuid != UUID:
            raise self.NVMLError("not found")
        return uuid

    def nvmlDeviceGetName(self, handle: Any) -> bytes:
        return b"NVIDIA H200"

    def nvmlSystemGetDriverVersion(self) -> str:
        return "580.159.04"

    def nvmlDeviceGetUUID(self, handle: Any) -> str:
        return next(self.uuids)

    def nvmlDeviceGetMaxClockInfo(self, handle: Any, kind: int) -> int:
        return {1: 1980, 2: 3201}[kind]

    def nvmlDeviceGetApplicationsClock(self, handle: Any, kind: int) -> int:
        return {1: 1755, 2: 3201}[kind]

    def nvmlDeviceGetClockInfo(self, handle: Any, kind: int) -> int:
        return next(self.clocks) if kind == 1 else 3201

    def nvmlDeviceGetMemoryBusWidth(self, handle: Any) -> int:
        return 6016

    def nvmlDeviceGetEnforcedPowerLimit(self, handle: Any) -> int:
        return 700_000

    def nvmlDeviceGetPowerUsage(self, handle: Any) -> int:
        return 310_000

    def nvmlDeviceGetTemperature(self, handle: Any, sensor: int) -> int:
        return self.temperature

    def nvmlDeviceGetTemperatureThreshold(self, handle: Any, kind: int) -> int:
        return 89

    def nvmlDeviceGetEccMode(self, handle: Any) -> list[int]:
        return [1, 1]

    def nvmlDeviceGetMigMode(self, handle: Any) -> list[int]:
        return [self.mig, self.mig]

    def nvmlDeviceGetCurrentClocksEventReasons(self, handle: Any) -> int:
        return self.reasons

    def nvmlDeviceGetComputeRunningProcesses(self, handle: Any) -> list[Any]:
        return [SimpleNamespace(pid=pid) for pid in self.processes()]

    def nvmlDeviceGetTotalEnergyConsumption(self, handle: Any) -> int:
        return next(self.energy)

    def nvmlGpmQueryDeviceSupport(self, handle: Any) -> Any:
        return SimpleNamespace(isSupportedDevice=int(self.gpm is not None))

    def nvmlGpmSampleAlloc(self) -> Any:
        return SimpleNamespace(freed=False)

    def nvmlGpmSampleGet(self, handle: Any, sample: Any) -> None:
        sample.taken = True

    def nvmlGpmSampleFree(self, sample: Any) -> None:
        sample.freed = True

    def c_nvmlGpmMetricsGet_t(self) -> Any:
        return SimpleNamespace(metrics=[SimpleNamespace(metricId=0, nvmlReturn=0, value=0.0) for _ in range(333)])

    def nvmlGpmMetricsGet(self, request: Any) -> None:
        assert request.sample1.taken
        assert request.sample2.taken
        assert self.gpm is not None
        answers = {2: self.gpm[0], 10: self.gpm[1]}
        for slot in range(request.numMetrics):
            request.metrics[slot].value = answers[request.metrics[slot].metricId]


@dataclass
class FakeDevice:
    """A device on the CPU that runs the work and records profiler ranges.

    It reports a microsecond for each run.
    """

    uuid: str = UUID.removeprefix("GPU-")
    extra_bytes: int = 0
    on_poison: Callable[[], object] = lambda: None
    ranges: list[str] = field(default_factory=list)
    name: str = "cpu"

    def describe(self) -> dict[str, Any]:
        return {"compute_capability": "9.0", "sm_count": 132}

    def seed(self, seed: int) -> None:
        import torch

        torch.manual_seed(seed)

    def synchronize(self) -> None:
        pass

    def empty_cache(self) -> None:
        pass

    def poison(self, size_bytes: int) -> None:
        self.on_poison()

    def peak_requested_bytes(self, run: Callable[[], object]) -> tuple[int, object]:
        from ioaware.targets.output_check import output_bytes

        output = run()
        return output_bytes(output) + self.extra_bytes, output

    def host_seconds(self, run: Callable[[], object]) -> float:
        return 1e-5

    def timer(self, run: Callable[[], object], hold_s: float, clock_mhz: int | None) -> Callable[[], float]:
        def once() -> float:
            run()
            return 1000.0

        return once

    def run_back_to_back(self, run: Callable[[], object], seconds: float, one_ns: float) -> tuple[int, float]:
        return 100, seconds

    def profile(self, run: Callable[[], object]) -> object:
        return run()

    def push_range(self, name: str) -> None:
        self.ranges.append(name)

    def pop_range(self) -> None:
        pass


def script(path: Path, body: str) -> Path:
    """Write an executable Python script that starts fast."""
    path.write_text(f"#!{sys.executable} -SE\n{body}")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def fake_ncu(
    directory: Path,
    *,
    log: Path | None = None,
    before: str = "",
    code: int | None = None,
    version: str = "2025.3.1.0",
    runs: bool = True,
) -> Path:
    """Write an ncu that runs its program, then writes `log`.

    `before` is Python code run first and `code` the exit code. With `runs` false it does not start the program.
    """
    return script(
        directory / "ncu",
        f"""
import subprocess, sys, time
if sys.argv[1:] == ["--version"]:
    print("NVIDIA (R) Nsight Compute Command Line Profiler\\nVersion {version} (build 1) (public-release)")
    sys.exit()
{before}
at = sys.argv.index("--log-file")
rc = subprocess.run(sys.argv[at + 2:]).returncode if {runs} else 0
open(sys.argv[at + 1], "w").write({log.read_text() if log else ""!r})
sys.exit({"rc" if code is None else code})
""",
    )


def fake_python(directory: Path, reports: Mapping[str, Mapping[str, Any]], *, before: str = "") -> Path:
    """Write a Python whose worker writes the report of its mode.

    `before` is code run first.
    """
    return script(
        directory / "python",
        f"""
import json, os, signal, sys, time
mode, spec, out = sys.argv[3:]
open(out.replace(".json", ".started"), "w").close()
spec = json.load(open(spec))
{before}
reports = json.loads({json.dumps(reports)!r})
json.dump(reports[mode], open(out, "w"))
sys.exit(1 if reports[mode]["error"] else 0)
""",
    )
