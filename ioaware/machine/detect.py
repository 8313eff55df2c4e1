"""Detect the GPU of this machine with torch and NVML.

A preset of the same GPU fills gaps.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from ioaware.errors import MachineError
from ioaware.machine.model import Level, LevelName, Machine
from ioaware.machine.presets import BANKS, NOT_PUBLISHED, PRESETS

TORCH, NVML = "torch.cuda.get_device_properties", "NVML"


@dataclass(frozen=True, slots=True)
class Reported:
    """Values that the driver reports about one GPU; None where it reports nothing."""

    device: str
    compute_capability: int
    sms: int
    hbm_bytes: int
    l2_bytes: int | None = None
    shared_bytes: int | None = None
    register_bytes: int | None = None
    sm_clock_hz: float | None = None
    memory_clock_hz: float | None = None
    memory_bus_bits: int | None = None


def detect_machine(index: int = 0) -> Machine:
    """Return the CUDA GPU of that index. Raises `MachineError` where there is none.

    NVML is optional; without it fewer numbers are known.
    """
    return describe(report(index))


def describe(reported: Reported) -> Machine:
    """Build a `Machine` from the reported numbers.

    Notes name what comes from a preset.
    """
    preset = preset_for(reported.device, reported.sms)
    notes: list[str] = []
    levels = [_level(name, reported, preset, notes) for name in ("registers", "shared", "l1", "l2", "hbm")]
    if preset is None:
        notes.append(f"no preset is known for {reported.device}: peak FLOP/s unknown")
    else:
        notes.append(f"peak FLOP/s are those of the preset {preset.name}")
    return Machine(
        name=preset.name if preset else reported.device,
        device=reported.device,
        compute_capability=reported.compute_capability,
        sms=reported.sms,
        sms_source=TORCH,
        levels=tuple(level for level in levels if level is not None),
        peaks=preset.peaks if preset else {},
        link=preset.link if preset else None,
        notes=tuple(notes),
    )


def preset_for(device: str, sms: int) -> Machine | None:
    """Return the preset of the same GPU.

    Its name must be in the driver's name, and its SM count the same.

    A partition (MIG) or another form factor of the same name has other peaks, so the SM counts must agree.
    """
    words = "".join(letter if letter.isalnum() else " " for letter in device.upper()).split()
    joined = "".join(words)
    for preset in PRESETS.values():
        if (preset.name in words or (preset.name == "RTX4090" and joined.endswith("RTX4090"))) and preset.sms == sms:
            return preset
    return None


def _level(name: LevelName, reported: Reported, preset: Machine | None, notes: list[str]) -> Level | None:
    """Return one level: reported numbers first, then the preset's, else None."""
    fallback = next((level for level in preset.levels if level.name == name), None) if preset else None
    capacity, capacity_source = {
        "registers": (reported.register_bytes, TORCH),
        "shared": (reported.shared_bytes, TORCH),
        "l1": (None, ""),
        "l2": (reported.l2_bytes, TORCH),
        "hbm": (reported.hbm_bytes, TORCH),
    }[name]
    bandwidth, bandwidth_source = _bandwidth(name, reported)
    if fallback is None:
        if capacity is None:
            notes.append(f"{name}: unknown")
            return None
        scope = "gpu" if name in ("l2", "hbm") else "sm"
        return Level(name, scope, capacity, capacity_source, bandwidth, bandwidth_source or NOT_PUBLISHED)
    level = fallback
    if capacity is not None:
        level = replace(level, capacity_bytes=capacity, capacity_source=capacity_source)
    else:
        notes.append(f"{name}: capacity from the preset ({fallback.capacity_source})")
    if bandwidth is not None:
        level = replace(level, bandwidth_bytes_per_s=bandwidth, bandwidth_source=bandwidth_source)
    elif fallback.bandwidth_bytes_per_s is not None:
        notes.append(f"{name}: bandwidth from the preset ({fallback.bandwidth_source})")
    return level


def _bandwidth(name: LevelName, reported: Reported) -> tuple[float | None, str]:
    if name in ("shared", "l1") and reported.sm_clock_hz is not None:
        return 128 * reported.sm_clock_hz, f"{BANKS}; {NVML}: {reported.sm_clock_hz / 1e6:.0f} MHz"
    if name == "hbm" and reported.memory_clock_hz is not None and reported.memory_bus_bits is not None:
        source = f"{NVML}: {reported.memory_clock_hz / 1e6:.0f} MHz x 2 x {reported.memory_bus_bits} bit / 8"
        return 2 * reported.memory_clock_hz * reported.memory_bus_bits / 8, source
    return None, ""


def report(index: int = 0) -> Reported:
    """Query torch, and NVML where it is installed.

    Raises `MachineError` without a CUDA GPU of that index.
    """
    import torch

    cuda: Any = torch.cuda
    if not cuda.is_available() or index >= cuda.device_count():
        raise MachineError(
            f"no CUDA GPU {index} on this machine",
            f"Name a machine instead: {', '.join(PRESETS)}. `ioaware doctor` lists what is missing.",
        )
    properties = cuda.get_device_properties(index)
    registers: int | None = getattr(properties, "regs_per_multiprocessor", None)
    reported = Reported(
        device=str(properties.name),
        compute_capability=10 * int(properties.major) + int(properties.minor),
        sms=int(properties.multi_processor_count),
        hbm_bytes=int(properties.total_memory),
        l2_bytes=getattr(properties, "L2_cache_size", None) or None,
        shared_bytes=getattr(properties, "shared_memory_per_multiprocessor", None) or None,
        register_bytes=4 * registers if registers else None,
    )
    return _with_nvml(reported, str(getattr(properties, "uuid", "")))


def _with_nvml(reported: Reported, uuid: str) -> Reported:
    """Add clocks and bus width.

    The GPU is matched by UUID, because CUDA_VISIBLE_DEVICES renumbers.
    """
    try:
        import pynvml
    except ImportError:
        return reported
    nvml: Any = pynvml
    try:
        nvml.nvmlInit()
    except nvml.NVMLError:
        return reported
    try:
        handle = nvml.nvmlDeviceGetHandleByUUID(uuid if uuid.startswith("GPU-") else f"GPU-{uuid}")
        return replace(
            reported,
            sm_clock_hz=1e6 * float(nvml.nvmlDeviceGetMaxClockInfo(handle, nvml.NVML_CLOCK_SM)),
            memory_clock_hz=1e6 * float(nvml.nvmlDeviceGetMaxClockInfo(handle, nvml.NVML_CLOCK_MEM)),
            memory_bus_bits=int(nvml.nvmlDeviceGetMemoryBusWidth(handle)),
        )
    except nvml.NVMLError:
        return reported
    finally:
        nvml.nvmlShutdown()
