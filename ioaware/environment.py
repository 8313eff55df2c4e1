"""Describe the environment of a measurement.

That is GPU, driver, versions, clocks, commit.

Never host names, users, paths or serial numbers; a sweep on a cluster alone adds its workers' host names.
"""

from __future__ import annotations

import importlib.metadata
import platform
import socket
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ioaware import __version__

if TYPE_CHECKING:
    from ioaware.measurement.nvml import Limits


def gpu_environment(limits: Limits) -> dict[str, Any]:
    """Return what NVML adds to a record: the GPU's model, driver and limits."""
    known = {
        "gpu": limits.name,
        "driver": limits.driver,
        "max_sm_clock_mhz": limits.max_sm_clock_mhz,
        "max_memory_clock_mhz": limits.max_memory_clock_mhz,
        "application_sm_clock_mhz": limits.application_sm_clock_mhz,
        "memory_bus_bits": limits.memory_bus_bits,
        "peak_hbm_bytes_per_s": limits.peak_hbm_bytes_per_s,
        "power_limit_mw": limits.power_limit_mw,
        "ecc": limits.ecc,
        "mig": limits.mig,
    }
    return {name: value for name, value in known.items() if value is not None}


def software_environment() -> dict[str, str]:
    """Return the versions that decide a kernel's code, and the commit of a checkout."""
    versions = {"ioaware": __version__, "python": platform.python_version()}
    versions |= {name: version for name in ("torch", "triton", "numpy") if (version := installed_version(name))}
    commit = checkout_commit(Path(__file__).parents[1])
    return versions | ({"commit": commit} if commit else {})


@cache
def installed_version(distribution: str) -> str | None:
    """Return the version of an installed distribution, without importing it."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


@cache
def checkout_commit(root: Path) -> str | None:
    """Return `abc123def456` or `abc123def456-dirty` for a git checkout, else None.

    `root` must be the top of the checkout.

    Why the top only: an installed ioaware must not report the commit of a project around it.
    """
    if not (root / ".git").exists():
        return None
    try:
        found = subprocess.run(  # noqa: S603 - the checkout's own directory
            ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=12", "--match=", "--exclude=*"],  # noqa: S607
            capture_output=True,
            text=True,
            timeout=5,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return found.stdout.strip() or None if found.returncode == 0 else None


def scrub(text: str) -> str:
    """Replace paths and the host name in a program's output.

    Records must not contain them.
    """
    places = {str(Path.cwd()): ".", str(Path.home()): "~", tempfile.gettempdir(): "TMP", socket.gethostname(): "HOST"}
    for place, name in places.items():
        if len(place) > 3:  # "/" or a one-letter host would shred the text
            text = text.replace(place, name)
    return text
