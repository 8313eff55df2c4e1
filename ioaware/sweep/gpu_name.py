"""Name the GPU that points are measured on, from NVML.

The sweep itself never starts CUDA.
"""

from __future__ import annotations

import importlib
import os
from typing import Any


def gpu_name() -> str:
    """Return the first visible device's name as NVML spells it ("NVIDIA H200").

    "no GPU" without one.
    """
    try:
        nvml: Any = importlib.import_module("pynvml")
        nvml.nvmlInit()
    except Exception:  # no library or no driver: measuring says what is missing, with the remedy
        return "no GPU"
    try:
        first = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0].strip()
        handle = (
            nvml.nvmlDeviceGetHandleByIndex(int(first)) if first.isdigit() else nvml.nvmlDeviceGetHandleByUUID(first.encode())
        )
        name: str | bytes = nvml.nvmlDeviceGetName(handle)
        return name.decode() if isinstance(name, bytes) else name
    except nvml.NVMLError:
        return "no GPU"
    finally:
        nvml.nvmlShutdown()
