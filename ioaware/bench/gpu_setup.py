"""The machine of a race: what it is, and the GPU made ready on it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ioaware.bench.gpu_timing import Device
from ioaware.bench.run import Track
from ioaware.environment import gpu_environment, installed_version, software_environment
from ioaware.measurement.nvml import Gpu, no_gpu

LIBRARIES = ("flash-attn", "flash-attn-4", "flashinfer-python")


def here(gpu: Gpu) -> dict[str, Any]:
    """GPU, driver, versions and commit: points that differ in one of them are not of one run. Raises `MachineError` where
    torch has no GPU."""
    import torch

    if not torch.cuda.is_available():
        raise no_gpu("torch was built without CUDA" if torch.version.cuda is None else "torch finds none")
    libraries = {name: version for name in LIBRARIES if (version := installed_version(name))}
    cudnn = torch.backends.cudnn.version()
    return gpu_environment(gpu.limits) | {"cuda": torch.version.cuda, "cudnn": cudnn} | software_environment() | libraries


def open_track(gpu: Gpu, environment: Mapping[str, Any]) -> Track:
    """Starts CUDA here and prepares the ceilings."""
    before = set(gpu.processes())
    device = Device()
    device.inputs([(1,)], "float32", 0)
    return Track(device, gpu, device.ceilings(), frozenset(set(gpu.processes()) - before), environment)
