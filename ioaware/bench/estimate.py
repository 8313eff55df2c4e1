"""Estimate how long a race takes."""

from __future__ import annotations

from collections.abc import Sequence

from ioaware.bench.attention_points import Point
from ioaware.bench.backend import BackEnd
from ioaware.bench.interleaving import SAMPLE_NS

START_S = 10.0
COMPILE_S = 2.0
"""Seconds for a point of a back end that compiles, with all cores at work."""
PREPARE_S = 0.15
"""Seconds for preparing a back end at a point.

They are for checking, capturing and measuring the host cost.
"""
SLOW_FLOPS_PER_S = 2e14
"""Rate of the slower back ends."""


def seconds(points: Sequence[Point], ends: Sequence[BackEnd], rounds: int, processes: int) -> float:
    """Return the estimated seconds, within a factor of two on an H200."""
    present = [end for end in ends if end.present]
    compiling = sum(end.compiles for end in present) * len(points) * COMPILE_S / processes
    samples = sum(max(SAMPLE_NS * 1e-9, point.flops / SLOW_FLOPS_PER_S) for point in points) * (rounds + 3)
    return START_S + compiling + len(present) * (len(points) * PREPARE_S + samples)


def estimate(points: Sequence[Point], ends: Sequence[BackEnd], rounds: int, processes: int = 8) -> str:
    """Return the estimate as one line."""
    names = ", ".join(end.name for end in ends if end.present)
    about = seconds(points, ends, rounds, processes)
    return f"{len(points)} points, {rounds} rounds of {names}: about {about:.0f} s"
