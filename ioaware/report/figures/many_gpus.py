"""Draw what attention over up to 1,024 GPUs moves, takes and holds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ioaware.analysis.theory.counts.gpu_transfers import Method, Problem
from ioaware.analysis.theory.fewest_transfers import choices
from ioaware.analysis.theory.host_links import HostPlan, Hosts, host_plan
from ioaware.display.units import bytes_text, time_text
from ioaware.machine import PRESETS
from ioaware.params import ELEMENT_BYTES
from ioaware.report.chart import Axis, Figure, Panel, Series, cell_of, series_of

MACHINE = PRESETS["H200"]
DTYPE = "bfloat16"
GPUS = tuple(2**power for power in range(1, 11))
PROBLEM = Problem(1, 64, 8, 2**20, 2**20, 128, 2, (2, 1))
COLORS: dict[Method, str] = {"all_gather": "standard", "all_to_all": "hopper", "square": "flash2", "ring": "flash1"}
"""Colours in the order of drawing.

The ring, which others equal in places, is dashed and on top.
"""
X = Axis("GPUs (P)", "number", ticks=tuple((float(p), f"{p:,}") for p in GPUS[::3]))
RECEIVED = Axis("received (bytes)", "bytes")
TIME = Axis("time (s)", "time")
HELD = Axis("memory beyond Q, K, V, O (bytes)", "bytes")


def many_gpus() -> Figure | None:
    """Return bytes, time and memory of a GPU against P; None without a known link."""
    if (link := MACHINE.link) is None:
        return None
    hosts = Hosts(link.host_gpus, link.ceiling_bytes_per_s, link.network_bytes_per_s)
    found: dict[Method, list[tuple[int, HostPlan]]] = {method: _plans(method, hosts) for method in COLORS}
    received = _curves(found, lambda plan: plan.within_host + plan.between_hosts, bytes_text)
    times = _curves(found, lambda plan: plan.link_s * 1e9, time_text)
    held = _curves(found, lambda plan: plan.extra_bytes, bytes_text)
    matmul = [(float(p), _matmul_ns(p), f"matmuls on {p:,} GPUs: {time_text(_matmul_ns(p))}") for p in GPUS]
    times = (*series_of("matmuls", "neutral", "ceiling", matmul, "matmul"), *times)
    hbm = MACHINE.level("hbm").capacity_bytes
    held = (*series_of("capacity of HBM", "neutral", "bound", [(float(p), hbm, bytes_text(hbm)) for p in GPUS], "HBM"), *held)
    return Figure(
        "many_gpus",
        "Attention over up to 1,024 GPUs, on paper",
        f"Not measured. One forward pass, full mask, N = {PROBLEM.seq_len:,}, {PROBLEM.heads} heads on {PROBLEM.kv_heads}, "
        f"d = {PROBLEM.head_dim}, {DTYPE}; hosts of {hosts.gpus} {MACHINE.name}s. "
        f"A GPU receives {hosts.link_bytes_per_s / 1e9:g} GB/s in its host, {hosts.network_bytes_per_s / 1e9:g} from others. "
        "Below the matmuls' curve, transfers can hide. The all-to-all ends where P no longer divides the heads.",
        (
            cell_of("Received by the first GPU of a host", X, Panel(RECEIVED, received)),
            cell_of("Time of the slower link", X, Panel(TIME, times)),
            cell_of("Memory", X, Panel(HELD, held)),
        ),
        columns=3,
    )


def _plans(method: Method, hosts: Hosts) -> list[tuple[int, HostPlan]]:
    """Return the plan at each P at which the method can run.

    A square has the grid of fewest bytes.
    """
    element = ELEMENT_BYTES[DTYPE]
    found: list[tuple[int, HostPlan]] = []
    for ranks in GPUS:
        problem = replace(PROBLEM, ranks=ranks, grid=(ranks, 1))
        choice = next(one for one in choices(problem, element, backward=False) if one.method == method)
        if not choice.why_not:
            found.append((ranks, host_plan(method, replace(problem, grid=choice.grid or problem.grid), element, hosts)))
    return found


def _curves(
    found: dict[Method, list[tuple[int, HostPlan]]], value: Callable[[HostPlan], float], text: Callable[[float], str]
) -> tuple[Series, ...]:
    curves: list[Series] = []
    for method, plans in found.items():
        rows = [(float(p), float(value(plan)), _describe(method, p, plan, text(value(plan)))) for p, plan in plans]
        name = method.replace("_", "-")
        curves += series_of(name, COLORS[method], "over" if method == "ring" else "predict", rows, label=name)
    return tuple(curves)


def _describe(method: Method, gpus: int, plan: HostPlan, value: str) -> str:
    grid = f" {plan.grid[0]} x {plan.grid[1]}" if method == "square" else ""
    moved = f"{bytes_text(plan.within_host)} within the host, {bytes_text(plan.between_hosts)} from others"
    return f"{method}{grid}, {gpus:,} GPUs: {value}\n{moved}"


def _matmul_ns(gpus: int) -> float:
    flops = 4 * PROBLEM.heads * PROBLEM.seq_len * PROBLEM.kv_len * PROBLEM.head_dim / gpus
    return flops / MACHINE.peaks[DTYPE].flops_per_s * 1e9
