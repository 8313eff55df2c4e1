"""Draw points under the ceilings of HBM, tensor cores and exponentials.

The unit is FLOP per clock and SM.

The unit is taken at each point's clock, because execution units have rates per clock. Of compute capability 9.0:
- tensor cores, fp16 or bf16 into fp32: 4096 FLOP a clock and SM (989.4 TFLOP/s = 132 SMs x 4096 x 1.83 GHz; H100 whitepaper);
- exponentials: 16 EX2 a clock and SM (CUDA C++ Programming Guide, throughput of native arithmetic instructions).

Attention takes one exponential a score. Its forward matmuls take 4 d FLOP a score, so the exponentials allow 16 x 4 d FLOP a
clock. That is as much as the tensor cores at d = 64, twice and four times as much at 128 and 256.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import median

from ioaware.display.units import bytes_text, significant, size_text, time_text
from ioaware.machine import PRESETS
from ioaware.measurement.time_bounds import with_bounds, with_flops
from ioaware.report.chart import Axis, Cell, Figure, Mark, Panel, Series, series_of
from ioaware.report.figures.labels import named
from ioaware.report.figures.roofline import HBM_INTENSITY
from ioaware.report.kernel_points import Pair

TENSOR_FLOPS, EXPONENTIALS = 4096, 16
"""Rates per clock and SM of compute capability 9.0."""
MACHINE = PRESETS["H200"]
FLOPS_PER_SCORE: Mapping[str, int] = {"hopper": 4}
"""FLOPs of a score over head_dim, of the targets for which this ratio is known."""
RATE = Axis("rate (FLOP per clock and SM)", "rate", limits=(120, 24_000))
INTENSITY = Axis(HBM_INTENSITY.label, HBM_INTENSITY.quantity, limits=(25, 25_000))
"""Intensity range, the same in every cell, so that cells compare."""


def units(pairs: Sequence[Pair]) -> Figure | None:
    """Return one cell per head_dim and mask of the forward kernel's points on an H200.

    None without any.
    """
    groups: dict[tuple[int, bool], list[Pair]] = defaultdict(list)
    for pair in pairs:
        on = (pair.measured.environment or {}).get("gpu")
        if on == MACHINE.device and pair.name in FLOPS_PER_SCORE and pair.flops_per_clock_and_sm and pair.intensity:
            groups[int(pair.params["head_dim"] or 0), bool(pair.params["causal"])].append(pair)
    if not groups:
        return None
    cells = [_cell(head_dim, causal, groups[head_dim, causal]) for head_dim, causal in sorted(groups)]
    return Figure(
        "units",
        "What binds the Hopper kernel: FLOP per clock and SM against FLOP per HBM byte, measured",
        "Dashed: matmuls and exponentials one after the other. At d = 64 a score takes as long in the exponential units as in "
        "the tensor cores, so both must be busy at once; from d = 128 on the tensor cores bind. "
        f"Ceilings of an SM: {TENSOR_FLOPS:,} FLOP and {EXPONENTIALS} exponentials a clock. FLOPs are those issued, by the IR.",
        tuple(cells),
        columns=3,
    )


def _cell(head_dim: int, causal: bool, seen: Sequence[Pair]) -> Cell:
    steady = [pair for pair in seen if pair.measured.status == "ok"]
    moved = [pair for pair in seen if pair.measured.status != "ok"]
    series = [*_roofs(head_dim, seen), *_marks("path", seen)]
    series += [*_marks("measure", steady), *_marks("unstable", moved)]
    return Cell(f"d = {head_dim}, {'causal' if causal else 'full'}", INTENSITY, (Panel(RATE, tuple(series), 1.35),))


def _marks(mark: Mark, seen: Sequence[Pair]) -> tuple[Series, ...]:
    """Return the points, and a path labelled with the smallest and the largest N."""
    rows = [(pair.intensity, pair.flops_per_clock_and_sm, _describe(pair)) for pair in seen]
    drawn = series_of(named("hopper", mark), "hopper", mark, rows)
    if mark != "path" or not drawn:
        return drawn
    lengths = [int(pair.params["seq_len"] or 0) for pair in seen]
    tags = ("N=" + size_text(lengths[0]), *("" for _ in lengths[1:]))
    label = "N=" + size_text(lengths[-1]) if len(lengths) > 1 else ""
    return (replace(drawn[0], tags=tags, label=label),)


def _roofs(head_dim: int, seen: Sequence[Pair]) -> tuple[Series, ...]:
    """Return the slope of HBM, both units' ceilings, and one after the other's rate.

    The last is the rate of one unit after the other.
    """
    clock = median([pair.clock_mhz for pair in seen if pair.clock_mhz]) * 1e6
    bandwidth = MACHINE.bandwidth_bytes_per_s("hbm")
    per_clock = bandwidth / clock / MACHINE.sms
    ridge, exponentials = TENSOR_FLOPS / per_clock, float(EXPONENTIALS * 4 * head_dim)
    low, high = INTENSITY.limits or (1.0, 1.0)
    places, middle = (low, (low * ridge**5) ** (1 / 6), ridge, (ridge * high) ** 0.5, high), (ridge * high) ** 0.5
    slope = tuple(min(float(TENSOR_FLOPS), per_clock * x) for x in places)
    flat = f"tensor cores {TENSOR_FLOPS:,}" + (" and exponentials" if exponentials == TENSOR_FLOPS else "")
    hbm = f"HBM {significant(bandwidth / 1e12)} TB/s"
    found = [Series("HBM and tensor cores", "neutral", "ceiling", places, slope, tags=("", hbm, "", flat, ""))]
    if exponentials > TENSOR_FLOPS:
        tags = ("", f"exponentials {exponentials:,.0f}", "")
        found.append(Series("exponential units", "ink", "ceiling", (ridge, middle, high), (exponentials,) * 3, tags=tags))
    in_turn = 1 / (1 / TENSOR_FLOPS + 1 / exponentials)
    return (
        *found,
        Series("matmuls and exponentials one after the other", "neutral", "in turn", (ridge, high), (in_turn, in_turn)),
    )


def _describe(pair: Pair) -> str:
    """Return the hover text of a point, one fact a line."""
    params, result = pair.params, pair.measured
    lines = [
        f"{pair.name}, N = {params['seq_len']:,}, d = {params['head_dim']}, {'causal' if params['causal'] else 'full'}, "
        f"{params['heads']} heads",
        f"{significant(pair.flops_per_clock_and_sm or 0)} FLOP per clock and SM at {pair.clock_mhz} MHz",
    ]
    if pair.flops and pair.time_ns:
        lines.append(f"{significant(pair.flops / pair.time_ns / 1e3)} TFLOP/s issued, time {time_text(pair.time_ns)}")
    bound = with_bounds(with_flops(result, pair.derived)).time_bound
    if bound:
        lines.append(f"at least {time_text(float(bound['time_ns']))}, bound by {bound['binds']}")
    reads, writes = pair.read_ratio, pair.write_ratio
    if reads and writes:
        lines.append(f"requested: reads {reads:.5f}, writes {writes:.5f} of the derived")
    lines.append(f"HBM {bytes_text(pair.hbm_bytes)}")
    return "\n".join(lines + [f"status: {result.status}"] * (result.status != "ok"))
