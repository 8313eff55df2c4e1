"""Nsight Compute's command line: find it, build its argv, diagnose its failures."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ioaware.errors import MachineError
from ioaware.measurement.subprocesses import Finished, run_process

MINIMUM_VERSION = (2022, 3)
"""The first version that profiles Hopper (CUDA 11.8)."""

STILL_WORKS = "Without a GPU's counters these still work: ioaware predict, derive, explain, trace, verify, report."

INSTALL = (
    "Install Nsight Compute (it comes with the CUDA toolkit) and put ncu on PATH, or set CUDA_HOME to the toolkit. "
    "Without it, time and NVML are still measured: --no-counters."
)

PERMISSION = (
    "Three ways, each for the administrator to decide, since counters let users observe each other's work "
    "(CVE-2018-6260):\n"
    "  1. an administrator opens the counters: put 'options nvidia NVreg_RestrictProfilingToAdminUsers=0' into "
    "/etc/modprobe.d/nvidia-profiling.conf and reload the driver or reboot;\n"
    "  2. in a container, start it with --cap-add=SYS_ADMIN;\n"
    "  3. run as a user who holds CAP_SYS_ADMIN. ioaware never raises its own privileges.\n"
    "  Without counters, time and NVML are still measured: --no-counters."
)

_METRIC_NAME = re.compile(r"[A-Za-z0-9_.:]+")
_VERSION = re.compile(r"Version (\d+)\.(\d+)\.(\d+)")


@dataclass(frozen=True, slots=True)
class Ncu:
    """An installed ncu: its resolved path and version."""

    path: Path
    version: tuple[int, int, int]

    @property
    def version_text(self) -> str:
        return ".".join(map(str, self.version))


def candidates(environ: Mapping[str, str], root: Path = Path("/")) -> list[Path]:
    """Yield possible paths of ncu in order.

    They are PATH, CUDA_HOME, CUDA toolkits, and Nsight Compute's own, newest first.
    """
    found = shutil.which("ncu", path=environ.get("PATH", ""))
    places = [Path(found)] if found else []
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if environ.get(variable):
            places.append(Path(environ[variable]) / "bin" / "ncu")
    places += sorted(root.glob("usr/local/cuda*/bin/ncu"), reverse=True)
    places += sorted(root.glob("opt/nvidia/nsight-compute/*/ncu"), reverse=True)
    return [path.resolve() for path in places if path.is_file() and os.access(path, os.X_OK)]


def find_ncu(environ: Mapping[str, str] | None = None, *, root: Path = Path("/"), timeout_s: float = 20.0) -> Ncu:
    """Return the first ncu that runs.

    Raises `MachineError` where there is none, or none new enough.
    """
    tried = list(dict.fromkeys(candidates(os.environ if environ is None else environ, root)))
    if not tried:
        raise MachineError("ncu (Nsight Compute) was not found on PATH, in CUDA_HOME, /usr/local/cuda* or /opt/nvidia", INSTALL)
    problems: list[str] = []
    for path in tried:
        version = _version(path, timeout_s)
        if version is None:
            problems.append(f"{path} prints no version")
        elif version[:2] < MINIMUM_VERSION:
            problems.append(f"{path} is version {version[0]}.{version[1]}, older than {'.'.join(map(str, MINIMUM_VERSION))}")
        else:
            return Ncu(path, version)
    raise MachineError(f"no usable ncu: {'; '.join(problems)}", INSTALL)


def _version(path: Path, timeout_s: float) -> tuple[int, int, int] | None:
    try:
        finished = run_process([str(path), "--version"], timeout_s=timeout_s)
    except OSError:
        return None
    match = _VERSION.search(finished.stdout)
    return (int(match[1]), int(match[2]), int(match[3])) if match and not finished.timed_out else None


def command(ncu: Ncu, metrics: Sequence[str], log: Path, program: Sequence[str], *, launches_only: bool = False) -> list[str]:
    """Return the argv that profiles `program`, flushing caches before each kernel.

    The profile is between cudaProfilerStart and -Stop.

    `launches_only` excludes kernels outside the ranges around Triton's launches: torch's own.
    """
    bad = [name for name in metrics if not _METRIC_NAME.fullmatch(name)]
    if bad:
        raise ValueError(f"not the name of a metric: {bad[0]!r}")
    return [
        str(ncu.path),
        "--csv",
        *("--page", "raw"),
        *("--print-units", "base"),
        *("--metrics", ",".join(metrics)),
        *("--clock-control", "none"),
        *("--cache-control", "all"),
        *("--profile-from-start", "off"),
        *("--target-processes", "all"),
        "--nvtx",
        *(("--nvtx-include", "regex:ioaware.*/") if launches_only else ()),
        *("--log-file", str(log)),
        *program,
    ]


# Pattern of ncu's output, its meaning, its remedy. The first match wins, so the most specific come first.
DIAGNOSES: Sequence[tuple[str, str, str]] = (
    (r"ERR_NVGPUCTRPERM", "this user may not read the GPU's performance counters (ERR_NVGPUCTRPERM)", PERMISSION),
    (
        r"driver resource was unavailable|resource.*in use",
        "another profiler holds the GPU's counters (DCGM, nsys or a second ncu)",
        "Pause it (dcgmi profiling --pause) or end it, then measure again.",
    ),
    (
        r"nsight-compute-lock",
        "ncu's lock file in the temporary directory belongs to another user",
        "Set TMPDIR to a directory of your own, then measure again.",
    ),
    (
        r"LibraryNotLoaded|Failed to initialize the profiler|Profiling is not supported",
        "ncu cannot profile on this machine: its driver or virtualisation gives no access to the counters",
        "Use bare metal, a passed-through GPU or a container runtime with the profiling libraries. "
        "Without counters, time and NVML are still measured: --no-counters.",
    ),
    (
        r"Failed to find metric|No metrics to collect",
        "this GPU or this ncu does not know one of the counters",
        "A newer ncu may: `ioaware doctor` shows which one is used.",
    ),
)


def counters_refused(finished: Finished, log: str) -> MachineError | None:
    """Return why counters cannot be read on this machine.

    None where ncu reports no such problem.
    """
    output = f"{log}\n{finished.stdout}\n{finished.stderr}"
    for pattern, what, remedy in DIAGNOSES:
        if re.search(pattern, output, re.IGNORECASE):
            return MachineError(what, remedy)
    return None


def run_failed(finished: Finished, log: str) -> MachineError | None:
    """Return what else went wrong in a run whose program reported success, or None."""
    if finished.timed_out:
        return MachineError(f"ncu {finished.how}", "Try a smaller size or a longer timeout.")
    if "No kernels were profiled" in log + finished.stdout:
        return MachineError(
            "ncu profiled no kernel: the work launched nothing on the GPU between the profiler's start and stop",
            "Check that the target launches its kernels when called, in the calling process.",
        )
    if finished.returncode != 0:
        errors = re.findall(r"==ERROR== (.*)", f"{log}\n{finished.stdout}\n{finished.stderr}")
        why = f": {errors[0].strip()[:200]}" if errors else ""
        return MachineError(f"ncu {finished.how}{why}", "`ioaware doctor` checks ncu and the counters.")
    return None


def counters_restricted(
    params: Path = Path("/proc/driver/nvidia/params"), read: Callable[[Path], str] = Path.read_text
) -> bool | None:
    """Return whether only administrators may read counters (`RmProfilingAdminOnly`).

    None if unknown.
    """
    try:
        match = re.search(r"RmProfilingAdminOnly:\s*(\d+)", read(params))
    except OSError:
        return None
    return match[1] != "0" if match else None
