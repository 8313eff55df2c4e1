"""Draw traffic and time against block size and M.

This is the FlashAttention paper, Figure 2, middle.
"""

from __future__ import annotations

from collections import defaultdict

from ioaware.display.units import bytes_text, size_text
from ioaware.report.chart import Axis, Cell, Figure, Panel, Series, series_of
from ioaware.report.comparable_points import Point, Points
from ioaware.report.figures.labels import Simulated, Value, describe, marks, named, replayed
from ioaware.report.style import ALGORITHMS

FLASH = ("flash1", "flash2")
MIN_BLOCKS = 3  # fewer block sizes are no curve
REQUESTED = Axis("requested per head (bytes)", "bytes")
HBM = Axis("HBM traffic per head (bytes)", "bytes")
TIME = Axis("time per head (s)", "time")


def blocks(points: Points, simulated: Simulated) -> Figure | None:
    """Return one cell per head_dim at the N with most block sizes, or None."""
    chosen = _groups(points)
    if not chosen:
        return None
    measured = any(point.source == "measure" for group in chosen.values() for point in group)
    caption = (
        "Outer block: of K and V in FlashAttention-1, of Q in FlashAttention-2; the paper's rule gives it for M = 4·d·B "
        "elements on chip. Requested bytes fall as 1/M until one block holds all rows."
    )
    if measured:
        caption += " HBM bytes and time follow where the L2 is too small, and where bytes bind. (FlashAttention, Figure 2.)"
    return Figure(
        "blocks",
        f"{'Traffic and time' if measured else 'Requested traffic'} against block size and on-chip memory M",
        caption,
        tuple(_cell(points, head_dim, seq_len, group, simulated) for (head_dim, seq_len), group in sorted(chosen.items())),
    )


def _groups(points: Points) -> dict[tuple[int, int], list[Point]]:
    """Map (head_dim, N) to full-attention flash points.

    For each head_dim the N with most measured outer blocks.
    """
    dtype = points.slices[0].dtype if points.slices else ""
    groups: dict[tuple[int, int], list[Point]] = defaultdict(list)
    for point in points.of("predict", "trace", "measure", standing=("shown", "unstable")):
        square = point.key.kv_len == point.seq_len and not point.config.causal
        if square and point.config.algorithm in FLASH and point.config.dtype == dtype:
            groups[point.config.head_dim, point.seq_len].append(point)

    def worth(key: tuple[int, int]) -> tuple[int, int, int]:
        def count(*sources: str) -> int:
            return len({(p.config.algorithm, p.config.outer_block) for p in groups[key] if p.source in sources})

        return count("measure"), count("trace"), key[1]

    best: dict[int, tuple[int, int]] = {}
    for key in groups:
        outer = {point.config.outer_block for point in groups[key] if point.source != "predict"}
        if len(outer) >= MIN_BLOCKS and (key[0] not in best or worth(key) > worth(best[key[0]])):
            best[key[0]] = key
    return {key: _of_one_inner_block(groups[key]) for key in best.values()}


def _of_one_inner_block(group: list[Point]) -> list[Point]:
    """Return per algorithm one inner block's points, and all predictions.

    The inner block is the one with most outer ones.

    Why: two inner blocks would give two times at one outer block.
    """
    kept: list[Point] = []
    for name in FLASH:
        own = [point for point in group if point.config.algorithm == name]
        outer: dict[int, set[tuple[str, int]]] = defaultdict(set)
        for point in own:
            if point.source != "predict":
                outer[point.config.inner_block].add((point.source, point.config.outer_block))
        best = max(outer, key=lambda inner: (len(outer[inner]), inner), default=None)
        kept += [point for point in own if point.source == "predict" or point.config.inner_block == best]
    return kept


def _outer(point: Point) -> float:
    return float(point.config.outer_block)


def _cell(points: Points, head_dim: int, seq_len: int, group: list[Point], simulated: Simulated) -> Cell:
    sizes = sorted({point.config.outer_block for point in group if point.source != "predict"})
    powers = [2**power for power in range(4, 11) if sizes[0] <= 2**power <= sizes[-1]] or sizes
    tick_labels = tuple((float(size), f"{size}") for size in powers)
    requested: list[Series] = []
    hbm: list[Series] = []
    time: list[Series] = []
    for name in FLASH:
        own = [point for point in group if point.config.algorithm == name]
        requested += _line(points, own, name) + marks(points, own, _outer, lambda point: point.requested_bytes)
        hbm += replayed(own, _outer, simulated, name)
        hbm += marks(points, own, _outer, lambda point: point.hbm_bytes, label=ALGORITHMS[name])
        time += marks(
            points,
            [point for point in own if point.standing == "shown"],
            _outer,
            time_per_head,
            label=ALGORITHMS[name],
            timed=True,
        )
    requested += _floor(points, group, "bound") + _floor(points, group, "compulsory")
    hbm += _floor(points, group, "compulsory")
    panels = [Panel(REQUESTED, tuple(requested)), Panel(HBM, tuple(hbm), 0.8), Panel(TIME, tuple(time), 0.8)]
    smallest, largest = (size_text(4 * head_dim * size) for size in (powers[0], powers[-1]))
    x = Axis(f"M = 4·d·B: {smallest} to {largest}; outer block B (rows)", "size", ticks=tick_labels)
    return Cell(
        f"d = {head_dim}, N = {seq_len:,}",
        x,
        tuple(panel for panel in panels if any(s.mark != "compulsory" for s in panel.series)),
    )


def time_per_head(point: Point) -> float | None:
    """Return measured time over heads.

    Points with different numbers of heads then compare.
    """
    return None if point.time_ns is None or point.source != "measure" else point.time_ns / point.num_heads


def _line(points: Points, own: list[Point], name: str) -> list[Series]:
    """Return the closed form over the outer block.

    It does not depend on the inner one.
    """
    by_block = {point.config.outer_block: point for point in own if point.source == "predict"}
    rows = [(float(size), by_block[size].requested_bytes, describe(points, by_block[size])) for size in sorted(by_block)]
    return list(series_of(named(name, "predict"), name, "predict", rows, ALGORITHMS[name]))


def _own_bound(point: Point) -> float | None:
    """Return the lower bound for the M on the axis.

    Only predictions made from an M have it.
    """
    return None if point.sram_elements is None else point.per_head(point.result.lower_bound_bytes)


def _floor(points: Points, group: list[Point], mark: str) -> list[Series]:
    """Return the lower bound, or the compulsory bytes, over the outer block."""
    bound = mark == "bound"
    value: Value = _own_bound if bound else points.compulsory
    name = "lower bound" if bound else "compulsory floor"
    found = [(point.config.outer_block, value(point)) for point in group if point.source == "predict"]
    by_block = {size: y for size, y in found if y is not None}
    rows = [(float(size), y, f"{name}\n{bytes_text(y)} per head") for size, y in sorted(by_block.items())]
    return list(series_of(name, "neutral", "bound" if bound else "compulsory", rows))
