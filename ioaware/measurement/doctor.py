"""Check what this machine can do.

There is one finding per requirement of a measurement, with its remedy.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from ioaware.environment import installed_version
from ioaware.errors import MachineError
from ioaware.measurement.counters.ncu import (
    PERMISSION,
    Ncu,
    command,
    counters_refused,
    counters_restricted,
    find_ncu,
    run_failed,
)
from ioaware.measurement.gpm import GpmWindow
from ioaware.measurement.nvml import Gpu, NvmlLibrary, load_nvml, open_gpu
from ioaware.measurement.subprocesses import run_process

OPTIONAL = {
    "resvg_py": "pictures of reports as PNG",
    "msgspec": "reading records and stores",
    "pyarrow": "export to Parquet",
}

PROBE = """
import torch
runtime = torch.cuda.cudart()
cell = torch.zeros(1, device="cuda")
runtime.cudaProfilerStart()
cell.add_(1)
runtime.cudaProfilerStop()
"""
PROBE_METRIC = "dram__bytes_read.sum"
PROBE_TIMEOUT_S = 120.0


@dataclass(frozen=True, slots=True)
class Finding:
    """One checked requirement. `ok` None: unknown, or optional and absent."""

    name: str
    ok: bool | None
    detail: str
    remedy: str = ""


def examine(
    *,
    nvml: Callable[[], NvmlLibrary] = load_nvml,
    ncu: Callable[[], Ncu] = find_ncu,
    environ: Mapping[str, str] | None = None,
    driver_params: Path = Path("/proc/driver/nvidia/params"),
) -> list[Finding]:
    """Check every requirement; never raises.

    Without a GPU this takes well under a second, with one it profiles one kernel.
    """
    findings = list(_software())
    gpu: Gpu | None = None
    try:
        gpu = open_gpu(nvml(), environ)
        findings += _hardware(gpu)
    except MachineError as error:
        findings.append(Finding("GPU", False, error.what, error.remedy))
    found: Ncu | None = None
    try:
        found = ncu()
        findings.append(Finding("ncu", True, f"{found.version_text} at {found.path}"))
    except MachineError as error:
        findings.append(Finding("ncu", False, error.what, error.remedy))
    findings.append(_counters(gpu, found, driver_params))
    findings += _optional()
    return findings


def _software() -> Iterator[Finding]:
    version = platform.python_version()
    yield Finding(
        "python", sys.version_info >= (3, 11), version, "" if sys.version_info >= (3, 11) else "ioaware needs Python 3.11."
    )
    torch = installed_version("torch")
    if torch is None:
        yield Finding("torch", False, "not installed", "pip install torch")
    else:
        cuda = torch_cuda_version()
        detail = f"{torch}, built for CUDA {cuda}" if cuda else f"{torch}, built without CUDA: it traces but cannot measure"
        yield Finding("torch", True, detail, "" if cuda else "To measure, install a build of torch with CUDA.")
    triton = installed_version("triton")
    known = triton is not None and _numbers(triton) >= (3, 6)
    yield Finding("triton", known, triton or "not installed", "" if known else "pip install 'triton>=3.6'")
    numpy = installed_version("numpy")
    if triton and numpy and _numbers(triton) < (3, 7) and _numbers(numpy) >= (2, 4):
        repaired = f"Triton {triton} fails with numpy {numpy} on loop bounds held in tensors; trace works around it"
        yield Finding("interpreter", True, repaired)


def torch_cuda_version(package: Path | None = None) -> str | None:
    """Return torch's CUDA version from its version file.

    Importing torch takes seconds.
    """
    if package is None:
        spec = importlib.util.find_spec("torch")
        if spec is None or spec.origin is None:
            return None
        package = Path(spec.origin).parent
    try:
        match = re.search(r"^cuda\b.*=\s*'([\d.]+)'", (package / "version.py").read_text(encoding="utf-8"), re.MULTILINE)
    except OSError:
        return None
    return match[1] if match else None


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:2])


def _hardware(gpu: Gpu) -> Iterator[Finding]:
    limits = gpu.limits
    yield Finding("GPU", True, limits.name)
    yield Finding("driver", limits.driver is not None, limits.driver or "not reported by NVML")
    peak = limits.peak_hbm_bytes_per_s
    yield Finding(
        "HBM peak", True if peak else None, f"{peak / 1e12:.2f} TB/s" if peak else "NVML does not give clock and bus width"
    )
    yield Finding(
        "MIG",
        not limits.mig,
        "on" if limits.mig else "off",
        "Points measured under MIG are marked unstable; use a whole GPU." if limits.mig else "",
    )
    gpm = GpmWindow.is_supported(gpu)
    yield Finding(
        "GPM", True if gpm else None, "supported" if gpm else "not supported: no bandwidth cross-check (needs Hopper or later)"
    )
    energy = gpu.energy_mj() is not None
    yield Finding("energy counter", True if energy else None, "readable" if energy else "not supported: no energy per call")
    others = len(gpu.processes())
    yield Finding(
        "other processes",
        others == 0,
        f"{others} computing on this GPU" if others else "none seen on this GPU",
        "Points measured beside others are marked unstable; end them or take another GPU." if others else "",
    )


def _counters(gpu: Gpu | None, ncu: Ncu | None, driver_params: Path) -> Finding:
    """Check whether counters are readable.

    The checks are the driver's setting, then one profiled kernel.
    """
    name = "counters"
    restricted = counters_restricted(driver_params)
    setting = {
        True: "the driver's setting allows administrators only",
        False: "the driver's setting allows all users",
        None: "the driver does not report it",
    }
    if gpu is None or ncu is None:
        return Finding(name, None, f"not tried without {'a GPU' if gpu is None else 'ncu'}; {setting[restricted]}")
    with TemporaryDirectory(prefix="ioaware-") as directory:
        log = Path(directory) / "ncu.csv"
        argv = command(ncu, [PROBE_METRIC], log, [sys.executable, "-c", PROBE])
        finished = run_process(argv, timeout_s=PROBE_TIMEOUT_S, env=os.environ)
        text = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
    problem = counters_refused(finished, text) or run_failed(finished, text)
    if problem is None:
        return Finding(name, True, f"readable: one kernel was profiled; {setting[restricted]}")
    return Finding(name, False, f"{problem.what}; {setting[restricted]}", problem.remedy or PERMISSION)


def _optional() -> Iterator[Finding]:
    for package, use in OPTIONAL.items():
        version = installed_version(package)
        yield Finding(
            package, True if version else None, version or f"not installed: {use}", "" if version else f"pip install {package}"
        )
