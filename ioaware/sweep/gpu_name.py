"""Name the GPU that points are measured on, from NVML.

The sweep itself never starts CUDA.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

NO_GPU = "no GPU"


def gpu_name() -> str:
    """Return the first visible device's name as NVML spells it ("NVIDIA H200").

    "no GPU" without one.
    """
    return first_gpu()[0]


def first_gpu() -> tuple[str, int | None]:
    """Return the first visible device's name and NVML's index of it on this host."""
    first = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0].strip()
    with _nvml() as nvml:
        if nvml is None:
            return NO_GPU, None
        try:
            handle = (
                nvml.nvmlDeviceGetHandleByIndex(int(first))
                if first.isdigit()
                else nvml.nvmlDeviceGetHandleByUUID(first.encode())
            )
            name: str | bytes = nvml.nvmlDeviceGetName(handle)
            return name.decode() if isinstance(name, bytes) else name, int(nvml.nvmlDeviceGetIndex(handle))
        except nvml.NVMLError:
            return NO_GPU, None


def visible_gpus() -> tuple[str, ...]:
    """Return one value of CUDA_VISIBLE_DEVICES for each GPU that this process may use."""
    if (listed := os.environ.get("CUDA_VISIBLE_DEVICES")) is not None:
        return tuple(entry.strip() for entry in listed.split(",") if entry.strip()) if gpu_name() != NO_GPU else ()
    with _nvml() as nvml:
        try:
            return tuple(str(index) for index in range(nvml.nvmlDeviceGetCount())) if nvml else ()
        except nvml.NVMLError:
            return ()


@contextmanager
def _nvml() -> Generator[Any]:
    """Give the started library, or None without a library or a driver.

    Measuring says what is missing, with the remedy.
    """
    try:
        nvml: Any = importlib.import_module("pynvml")
        nvml.nvmlInit()
    except Exception:
        yield None
        return
    try:
        yield nvml
    finally:
        nvml.nvmlShutdown()
