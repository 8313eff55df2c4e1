"""Read how many bytes a GPU has sent and received over NVLink, from NVML.

NVML counts KiB over all links since the driver was loaded: payload, and raw bytes, which include the protocol's.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass

from ioaware.errors import MachineError
from ioaware.measurement.nvml import Gpu

ALL_LINKS = 0xFFFFFFFF
KIB = 1024
FIELDS = {"payload_sent": 138, "payload_received": 139, "raw_sent": 140, "raw_received": 141}
"""NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX, DATA_RX, RAW_TX and RAW_RX."""


@dataclass(frozen=True, slots=True)
class LinkBytes:
    """Bytes of one GPU over all its links, in steps of 1,024.

    Raw bytes include headers, and acknowledgements of what goes the other way.
    """

    payload_sent: int
    payload_received: int
    raw_sent: int
    raw_received: int

    def __sub__(self, before: LinkBytes) -> LinkBytes:
        """Return what was moved since `before`."""
        return LinkBytes(*(now - then for now, then in zip(astuple(self), astuple(before), strict=True)))


def link_bytes(gpu: Gpu) -> LinkBytes:
    """Return the counters of a GPU. Raises `MachineError` where NVML has none for it."""
    try:
        values = gpu.library.nvmlDeviceGetFieldValues(gpu.handle, [(field, ALL_LINKS) for field in FIELDS.values()])
    except (gpu.library.NVMLError, AttributeError) as error:
        raise _no_counters(gpu, str(error)) from error
    if refused := [value.nvmlReturn for value in values if value.nvmlReturn]:
        raise _no_counters(gpu, f"NVML error {refused[0]}")
    return LinkBytes(*(KIB * int(value.value.ullVal) for value in values))


def _no_counters(gpu: Gpu, why: str) -> MachineError:
    return MachineError(
        f"NVML has no counters of NVLink bytes for this {gpu.limits.name} ({why})",
        "They need a GPU with NVLink and a driver that counts its throughput.",
    )
