"""Draw the roofline of a GPU in a ring: matmuls, HBM and NVLink, by N and P."""

from __future__ import annotations

from math import ceil

from ioaware.analysis.theory.counts.gpu_transfers import Problem
from ioaware.analysis.theory.gpu_plan import Plan, plans
from ioaware.display.units import bytes_text, significant, size_text, time_text
from ioaware.machine import PRESETS
from ioaware.report.chart import Axis, Cell, Figure, Mark, Panel, Series
from ioaware.report.figures.roofline import RATE

MACHINE = PRESETS["H200"]
DTYPE = "bfloat16"
GPUS = (2, 4, 8)
"""GPUs of one host, which NVLink joins."""
LENGTHS = tuple(2**power for power in range(11, 19))
HEADS, HEAD_DIM, BLOCK_M, BLOCK_N = 32, 128, 128, 128
INTENSITY = Axis("arithmetic intensity (FLOP per byte)", "intensity", limits=(20, 400_000))


def link_roofline() -> Figure | None:
    """Return a cell for each number of GPUs; None without a known link or peak."""
    if MACHINE.link is None or DTYPE not in MACHINE.peaks:
        return None
    return Figure(
        "link_roofline",
        "Roofline of a GPU in a ring: FLOP/s against FLOP per byte received, on paper",
        f"Not measured. One forward pass, full mask, {HEADS} heads, d = {HEAD_DIM}, {DTYPE}, on {MACHINE.name}s. A GPU's rate "
        "where transfers hide behind matmuls, against FLOP per byte received over NVLink, and per HBM byte. On NVLink's slope "
        "the bytes received bind. A ring needs an N that grows with P to leave it.",
        tuple(_cell(gpus) for gpus in GPUS),
        columns=3,
    )


def _cell(gpus: int) -> Cell:
    seen = [(length, _ring(length, gpus)) for length in sorted({*LENGTHS, ridge_length(gpus)})]
    return Cell(
        f"{gpus} GPUs: matmuls bind from N = {ridge_length(gpus):,} on",
        INTENSITY,
        (Panel(RATE, (*_roofs(), *_paths(seen)), 1.35),),
    )


def ridge_length(gpus: int) -> int:
    """Return the least N, of equal parts, at which matmuls take as long as transfers.

    FLOPs a byte received are proportional to N. Parts are equal where 2P divides N.
    """
    plan = _ring(LENGTHS[-1], gpus)
    if plan.link_ns is None or plan.matmul_ns is None:
        raise ValueError(f"{MACHINE.name}: NVLink or the peak is unknown")
    return 2 * gpus * ceil(LENGTHS[-1] * plan.link_ns / plan.matmul_ns / (2 * gpus))


def _ring(length: int, gpus: int) -> Plan:
    problem = Problem(1, HEADS, HEADS, length, length, HEAD_DIM, gpus, (gpus, 1))
    rows, _ = plans(problem, MACHINE, DTYPE, causal=False, block_m=BLOCK_M, block_n=BLOCK_N)
    return next(plan for plan in rows if (plan.method, plan.direction) == ("ring", "forward"))


def _paths(seen: list[tuple[int, Plan]]) -> list[Series]:
    """Return the rates by N, against the bytes received and against those of HBM.

    Every third power of two is written at its point.
    """
    tags = tuple(f"N={size_text(length)}" if length in LENGTHS[::3] else "" for length, _ in seen)
    rates = tuple(_rate_tflops(plan) for _, plan in seen)
    hover = tuple(_describe(length, plan) for length, plan in seen)
    received = tuple(plan.flops / plan.received_bytes for _, plan in seen)
    hbm = tuple(plan.flops / plan.hbm_bytes for _, plan in seen)
    return [
        Series("HBM bytes", "flash2", "predict", hbm, rates, hover),
        Series("NVLink bytes", "flash1", "over", received, rates, hover, tags=tags),
    ]


def _rate_tflops(plan: Plan) -> float:
    return plan.flops / max(time for time in (plan.matmul_ns, plan.link_ns, plan.hbm_ns) if time is not None) / 1e3


def _describe(length: int, plan: Plan) -> str:
    times = (("matmul", plan.matmul_ns), ("NVLink", plan.link_ns), ("HBM", plan.hbm_ns))
    each = ", ".join(f"{name} {time_text(time)}" for name, time in times if time is not None)
    return (
        f"ring, N = {length:,}: {plan.binds} binds\n{each}\n"
        f"receives {bytes_text(plan.received_bytes)}, HBM {bytes_text(plan.hbm_bytes)}"
    )


def _roofs() -> list[Series]:
    """Return the slopes of NVLink and HBM up to their ridges, and the ceiling."""
    link, peak = MACHINE.link, MACHINE.peaks[DTYPE].flops_per_s
    low, high = INTENSITY.limits or (1.0, 1.0)
    slopes: dict[str, tuple[float, Mark]] = {"HBM": (MACHINE.bandwidth_bytes_per_s("hbm"), "ceiling")}
    slopes |= {"NVLink": (link.ceiling_bytes_per_s, "bound")} if link else {}
    found: list[Series] = []
    for name, (bytes_per_s, mark) in slopes.items():
        ridge = peak / bytes_per_s
        places = (low, low**0.6 * ridge**0.4, ridge)
        rates = tuple(bytes_per_s * x / 1e12 for x in places)
        named = f"limit of {name}, {significant(bytes_per_s / 1e12)} TB/s"
        found.append(Series(named, "neutral", mark, places, rates, tags=("", name, "")))
    start, rate = peak / slopes["HBM"][0], peak / 1e12
    named, middle = f"tensor cores, {significant(rate)} TFLOP/s", (start * high) ** 0.5
    return [*found, Series(named, "ink", "ceiling", (start, middle, high), (rate,) * 3, tags=("", "tensor cores", ""))]
