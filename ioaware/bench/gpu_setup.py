"""Describe the machine of a race, and prepare its GPU."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ioaware.bench.gpu_timing import Device
from ioaware.bench.run import Session
from ioaware.environment import gpu_environment, installed_version, software_environment
from ioaware.measurement.nvml import Gpu, no_gpu

LIBRARIES = ("flash-attn", "flash-attn-4", "flashinfer-python")


def here(gpu: Gpu) -> dict[str, Any]:
    """Return GPU, driver, versions and commit; points of one run agree in all of them.

    Raises `MachineError` where torch has no GPU.
    """
    import torch

    if not torch.cuda.is_available():
        raise no_gpu("torch was built without CUDA" if torch.version.cuda is None else "torch finds none")
    libraries = {name: version for name in LIBRARIES if (version := installed_version(name))}
    cudnn = torch.backends.cudnn.version()
    return gpu_environment(gpu.limits) | {"cuda": torch.version.cuda, "cudnn": cudnn} | software_environment() | libraries


def open_session(gpu: Gpu, environment: Mapping[str, Any]) -> Session:
    """Start CUDA and prepare the ceilings."""
    before = set(gpu.processes())
    device = Device()
    device.inputs([(1,)], "float32", 0)
    return Session(device, gpu, device.ceilings(), frozenset(set(gpu.processes()) - before), environment)
