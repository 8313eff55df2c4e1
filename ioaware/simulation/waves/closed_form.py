"""Compute in closed form what waves of programs read of a tensor.

What a wave reads competes with what the next wave reads for the usable L2. Where it fits, every tensor is read once. Where it
does not, the next wave reads some again. How much depends on the direction of the sweeps and on replacement. LRU finds nothing
of a sweep in the same direction. Sawtooth, in alternating direction, finds what fits. Random replacement lies between. The
forms need distinct bytes only, no order of accesses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ioaware.simulation.regimes import TOLERANCE, miss_share
from ioaware.simulation.simulation_result import LaunchSimulation, TensorTraffic

Form = Literal["fits", "lru", "random", "sawtooth"]
WHY: dict[Form, str] = {
    "fits": "what a wave reads fits the usable L2, so that it is read once",
    "lru": "every wave reads all again, as under LRU with sweeps in one direction",
    "random": "a wave finds part of what the one before read, as under random replacement",
    "sawtooth": "a wave finds what fits of the one before, as with sweeps in alternating direction",
}


@dataclass(frozen=True, slots=True)
class ClosedForm:
    """HBM reads of a tensor in bytes by each form.

    `wave_bytes` is what a wave reads of all tensors, `usable_bytes` the part of the L2 that can hold it.
    """

    tensor: str
    wave_bytes: int
    usable_bytes: int
    read_bytes: dict[Form, int]
    nearest: Form
    """The form nearest to the simulated reads."""

    @property
    def sentence(self) -> str:
        """What the nearest form says."""
        return WHY[self.nearest]

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {
            "wave_bytes": self.wave_bytes,
            "usable_l2_bytes": self.usable_bytes,
            "read_bytes": dict(self.read_bytes),
            "nearest": self.nearest,
        }


def closed_forms(launch: LaunchSimulation) -> list[ClosedForm]:
    """Return the closed forms of the tensors that several waves read.

    There are none for a single wave, as in a persistent kernel.
    """
    shared = [one for one in launch.tensors if one.by_wave_bytes > (1 + TOLERANCE) * one.distinct_bytes > 0]
    if launch.waves < 2 or not launch.usable_l2_bytes:
        return []
    wave_bytes = sum(one.by_wave_bytes for one in launch.tensors) / launch.waves
    return [_closed_form(one, wave_bytes, launch.usable_l2_bytes) for one in shared]


def _closed_form(one: TensorTraffic, wave_bytes: float, usable_bytes: int) -> ClosedForm:
    load = wave_bytes / usable_bytes
    again = one.by_wave_bytes - one.distinct_bytes
    shares: dict[Form, float] = {"fits": 0.0}
    if load > 1:
        shares = {"lru": 1.0, "random": miss_share(load), "sawtooth": 1 - 1 / load}
    reads: dict[Form, int] = {form: round(one.distinct_bytes + share * again) for form, share in shares.items()}
    nearest = min(reads, key=lambda form: abs(reads[form] - one.read_bytes))
    return ClosedForm(one.tensor, round(wave_bytes), usable_bytes, reads, nearest)


def closed_form_lines(launches: Sequence[tuple[str, LaunchSimulation]]) -> list[str]:
    """Return one sentence for each tensor of each named launch that has a closed form."""
    from ioaware.display.units import bytes_text

    return [
        f"{kernel}, {form.tensor}: a wave reads {bytes_text(form.wave_bytes)}, the usable L2 holds "
        f"{bytes_text(form.usable_bytes)}; closed form: "
        + ", ".join(f"{bytes_text(value)} ({name})" for name, value in form.read_bytes.items())
        + f"; nearest to the simulated reads: {form.sentence}"
        for kernel, launch in launches
        for form in closed_forms(launch)
    ]
