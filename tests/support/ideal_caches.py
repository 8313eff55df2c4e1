"""Counters of ideal caches for the probes of a calibration."""

from __future__ import annotations

from ioaware.calibration.fit import Counted
from ioaware.calibration.probes import PASSES, Probe, Sizes

SIZES = Sizes(sms=132, l2_bytes=60 << 20, l1_bytes=256 << 10)


def counted(
    probe: Probe, *, l2_bytes: float = 30 << 20, private_bytes: float = 46 << 20, l1_bytes: float = 200 << 10
) -> Counted:
    """Return the counters of ideal caches of these capacities.

    `fill` leaves 29 MB dirty.
    """
    known = probe.known_bytes
    limit = {"l2_shared": l2_bytes, "l2_private": private_bytes}.get(probe.kernel, l1_bytes)
    passes = PASSES if probe.size_bytes > limit else 1
    requested = passes * probe.size_bytes * (SIZES.sms if probe.kernel.startswith("l1_") else 1)
    reads = requested if known[0] is None else known[0]
    left_dirty = min(probe.size_bytes, 29_000_000)
    return Counted(probe, reads, known[1] or 0, reads, max(0, probe.size_bytes - left_dirty))
