"""Invented results with the form of real ones, for the report's tests only."""

from __future__ import annotations

import math
from typing import Any

from ioaware.analysis.theory.claims.claim import Claim
from ioaware.report.figures.roofline import Roofs
from ioaware.result import Check, Result, Timing, Traffic

ROOFS = Roofs("an invented GPU", 4.8e12, 989e12, "invented for a test")


def requested_elements(algorithm: str, n: int, d: int, block: int) -> tuple[int, int]:
    """Return elements read and written per head, close to those of the papers."""
    passes = math.ceil(n / block)
    if algorithm == "standard":
        return 2 * n * n + 2 * n * d * passes + n * d, 3 * n * n + n * d
    if algorithm == "flash1":
        return 2 * n * d + passes * (2 * n * d + 4 * n), (n * d + 4 * n) * (passes + 1)
    return n * d + 2 * n * d * passes, n * d + 2 * n


def make(
    algorithm: str,
    n: int,
    d: int = 64,
    *,
    source: Any = "predict",
    causal: bool = False,
    block: int = 64,
    heads: int = 1,
    **changes: Any,
) -> Result:
    """Return one invented result. `changes` replace fields."""
    outer = {"block_n": block, "block_m": 64} if algorithm == "flash1" else {"block_m": block, "block_n": 64}
    params = {
        "batch": 1,
        "heads": heads,
        "seq_len": n,
        "kv_len": None,
        "head_dim": d,
        "dtype": "float16",
        "causal": causal,
        **outer,
        "sram_elements": None,
    }
    reads, writes = (
        2 * count * heads // (2 if causal and algorithm != "standard" else 1)
        for count in requested_elements(algorithm, n, d, block)
    )
    flops = 4 * n * n * d * heads // (2 if causal else 1)
    floor = Traffic(3 * n * d * 2 * heads, n * d * 2 * heads)
    extra = {"standard": 6 * n * n, "flash1": 8 * n, "flash2": 4 * n}[algorithm] * heads
    memory = 4 * d * block
    fields: dict[str, Any] = {"requested": Traffic(reads, writes), "extra_memory_bytes": extra}
    if source == "predict":
        fields |= {
            "compulsory": floor,
            "flops": flops,
            "lower_bound_bytes": max(floor.total_bytes or 0, 2 * heads * (n * n * d * d // (memory + 4 * d * d) - memory)),
        }
    if source == "trace":
        fields |= {"flops": flops, "compulsory": floor}
    if source == "measure":
        fields |= measured_fields(algorithm, n, heads, reads, writes, floor, flops)
    return Result(source, algorithm, **({"params": params} | fields | changes))


def measured_fields(algorithm: str, n: int, heads: int, reads: int, writes: int, floor: Traffic, flops: int) -> dict[str, Any]:
    """Return the fields of an invented measurement.

    It has L1 hits for small FA1, L2 misses for long sequences, and a plausible time.
    """
    hit = 0.93 if algorithm == "flash1" and n <= 1024 else 1.00001
    leak = 1.0 if algorithm == "standard" else min(1.0, (n / 40_000) ** 2) * 0.02
    base = floor.total_bytes or 0
    hbm = max(base, int(base + leak * max(0, reads + writes - base)))
    time_ns = max(flops / 300e12, (reads + writes) / 9e12, hbm / 4e12) * 1e9 + 4000
    return {
        "requested": Traffic(int(reads * hit), writes),
        "hbm": Traffic(hbm * 2 // 3, hbm - hbm * 2 // 3),
        "time_ns": time_ns,
        "timing": Timing(time_ns, time_ns * 0.99, time_ns * 1.01, time_ns * 0.98, 30),
        "check": Check(4e-4, 2e-3),
        "telemetry": {"sm_clock_mhz": 1980, "power_w": 600 + heads, "throttle": {"thermal": False}},
        "environment": {"gpu": {"name": "NVIDIA Invented", "driver": "0.0"}, "torch": "2.11.0", "commit": "0" * 12},
    }


def everything() -> list[Result]:
    """Return the results of a whole report.

    They are predictions, traces and measurements over N and block size.
    """
    lengths = [2**power for power in range(9, 17)]
    dense = sorted({round(2 ** (7 + step / 4)) for step in range(37)} | {2**power for power in range(7, 17)})
    results: list[Result] = []
    for algorithm in ("standard", "flash1", "flash2"):
        for d in (64, 128):
            for causal in (False, True):
                results += [make(algorithm, n, d, causal=causal) for n in dense]
                results += [make(algorithm, n, d, causal=causal, source="trace") for n in (128, 256, 512)]
                results += [
                    make(algorithm, n, d, causal=causal, source="measure", heads=max(1, min(64, 2**18 // n))) for n in lengths
                ]
            if algorithm != "standard":
                results += [make(algorithm, 4096, d, block=block) for block in range(16, 257, 16) if block != 64]
                results += [make(algorithm, 4096, d, block=block, source="measure", heads=64) for block in (16, 32, 128, 256)]
    results.append(
        make(
            "flash2",
            8192,
            256,
            source="measure",
            status="failed",
            notes=("out of memory",),
            requested=None,
            hbm=None,
            check=None,
        )
    )
    results.append(make("flash2", 3000, 64, source="measure", status="unstable", notes=("SM clock fell during the point",)))
    return results


def claim(name: str = "theorem2", verdict: Any = "holds", **evidence: Any) -> Claim:
    """Return an invented claim."""
    powers = (("flash1", "N", 2), ("flash1", "d", 2), ("flash1", "M", -1), ("flash2", "N", 2), ("standard", "N", 2))
    exponents = [
        {
            "quantity": f"{target}: traced elements",
            "variable": variable,
            "exponent": power + 0.01,
            "low": power - 0.02,
            "high": power + 0.03,
            "expected": power,
            "points": 4,
            "verdict": "holds",
        }
        for target, variable, power in powers
    ]
    exponents.append({**exponents[0], "quantity": "flash1: whole elements", "exponent": 1.7, "verdict": "not judged"})
    parts = [
        {
            "part": "a",
            "says": "outputs equal the reference",
            "expected": "within tolerance",
            "observed": "all equal",
            "points": 9,
            "verdict": "holds",
        }
    ]
    points = [{"part": "a", "where": f"trace flash1 N={n}", "expected": n, "observed": n, "deviation": 0.0} for n in range(60)]
    body = {"parts": parts, "exponents": exponents, "points": points, "notes": ["An invented note."], **evidence}
    return Claim(name, "An invented statement.", "An invented paper", verdict, body)
