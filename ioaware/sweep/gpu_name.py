"""Name the GPU that points are measured on, from NVML.

The sweep itself never starts CUDA.
"""

from __future__ import annotations

import importlib
import os
from typing import Any

NO_GPU = "no GPU"


def gpu_name() -> str:
    """Return the first visible device's name as NVML spells it ("NVIDIA H200").

    "no GPU" without one.
    """
    return first_gpu()[0]


def first_gpu() -> tuple[str, int | None]:
    """Return the first visible device's name and NVML's index of it on this host."""
    try:
        nvml: Any = importlib.import_module("pynvml")
        nvml.nvmlInit()
    except Exception:  # no library or no driver: measuring says what is missing, with the remedy
        return NO_GPU, None
    try:
        first = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0].strip()
        handle = (
            nvml.nvmlDeviceGetHandleByIndex(int(first)) if first.isdigit() else nvml.nvmlDeviceGetHandleByUUID(first.encode())
        )
        name: str | bytes = nvml.nvmlDeviceGetName(handle)
        return name.decode() if isinstance(name, bytes) else name, int(nvml.nvmlDeviceGetIndex(handle))
    except nvml.NVMLError:
        return NO_GPU, None
    finally:
        nvml.nvmlShutdown()


def visible_gpus() -> tuple[str, ...]:
    """Return one value of CUDA_VISIBLE_DEVICES for each GPU that this process may use."""
    if (listed := os.environ.get("CUDA_VISIBLE_DEVICES")) is not None:
        return tuple(entry.strip() for entry in listed.split(",") if entry.strip()) if gpu_name() != NO_GPU else ()
    try:
        nvml: Any = importlib.import_module("pynvml")
        nvml.nvmlInit()
    except Exception:
        return ()
    try:
        return tuple(str(index) for index in range(nvml.nvmlDeviceGetCount()))
    except nvml.NVMLError:
        return ()
    finally:
        nvml.nvmlShutdown()
