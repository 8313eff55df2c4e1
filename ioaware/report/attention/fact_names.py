"""Name the facts of a record in words, with their values in units.

A record has `power_limit_mw: 700000`; a page says that the power limit is 700 W.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from ioaware.display.units import bytes_text, count_text, significant, time_text
from ioaware.measurement.stability import THROTTLE_REASONS

DIGITS = 4
Text = Callable[[float], str]


class Fact(NamedTuple):
    """The words for a fact, and how its number is written."""

    words: str
    text: Text


def _in(unit: str, per: float = 1) -> Text:
    """Return how a number is written in a unit, of which it has `per` times as many."""
    return lambda value: f"{significant(value / per, DIGITS)} {unit}"


def _rate(value: float) -> str:
    return f"{bytes_text(value, DIGITS)}/s"


def _throttled(value: float) -> str:
    return ", ".join(name for bit, name in THROTTLE_REASONS.items() if int(value) & bit) or "none"


def _seconds(value: float) -> str:
    return time_text(1e9 * value)


def _percent(value: float) -> str:
    return f"{significant(100 * value, 3)} %"


def _cudnn(value: float) -> str:
    """Return 9.19.0 of 91900."""
    major, rest = divmod(int(value), 10_000)
    return f"{major}.{rest // 100}.{rest % 100}"


CLOCK, POWER, HEAT = _in("MHz"), _in("W", 1000), _in("°C")
FACTS: Mapping[str, Fact] = {
    "max_sm_clock_mhz": Fact("largest clock of the SMs", CLOCK),
    "max_memory_clock_mhz": Fact("largest clock of the memory", CLOCK),
    "application_sm_clock_mhz": Fact("clock of the SMs set by applications", CLOCK),
    "memory_bus_bits": Fact("width of the memory bus", _in("bits")),
    "peak_hbm_bytes_per_s": Fact("peak rate of HBM", _rate),
    "power_limit_mw": Fact("power limit", POWER),
    "sm_count": Fact("SMs", count_text),
    "l2_bytes": Fact("L2", bytes_text),
    "gpu_memory_bytes": Fact("memory", bytes_text),
    "window.seconds": Fact("measured window", _seconds),
    "window.calls": Fact("calls in the window", count_text),
    "window.ns_per_call": Fact("time of a call in the window", time_text),
    "energy_per_call_mj": Fact("energy of a call", _in("J", 1000)),
    "gpm.sm_activity": Fact("share of the SMs that is busy (GPM)", _percent),
    "gpm.hbm_bytes_per_s": Fact("HBM rate (GPM)", _rate),
    "gpm.hbm_bytes_per_s_corrected_by_sm_activity": Fact("HBM rate over the busy share (GPM)", _rate),
    "cudnn": Fact("cuDNN", _cudnn),
    "l2_read_sector_bytes": Fact("bytes read from the L2, in sectors", bytes_text),
    **{
        f"{when}.{name}": Fact(f"{words}, {when} the window", text)
        for when in ("before", "after")
        for name, words, text in (
            ("sm_clock_mhz", "clock of the SMs", CLOCK),
            ("memory_clock_mhz", "clock of the memory", CLOCK),
            ("power_mw", "power", POWER),
            ("temperature_c", "temperature", HEAT),
            ("throttle_bits", "why clocks are lower", _throttled),
        )
    },
}
"""Facts whose names or units a reader would have to guess."""
WORDS: Mapping[str, str] = {
    "gpu": "GPU",
    "ecc": "ECC",
    "mig": "MIG",
    "compiled_for": "compiled for",
    "compute_capability": "compute capability",
    "cuda": "CUDA",
    "python": "Python",
    "torch": "PyTorch",
    "triton": "Triton",
    "numpy": "NumPy",
    "ncu": "Nsight Compute",
    "commit": "commit of ioaware",
}
SWITCHES: Mapping[object, str] = {True: "on", False: "off"}


def fact_words(name: str) -> str:
    """Return the words for a fact; an unknown one keeps its name."""
    return FACTS[name].words if name in FACTS else WORDS.get(name, name)


def fact_text(name: str, value: object) -> str:
    """Return a value with its unit; one of an unknown fact as it is."""
    if isinstance(value, bool):
        return SWITCHES[value]
    if name in FACTS and isinstance(value, (int, float)):
        return FACTS[name].text(value)
    return str(value)
