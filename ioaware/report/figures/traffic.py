"""Draw traffic against N: requested and HBM bytes.

Requested bytes are by the closed form, HBM bytes by simulation, and both are also measured.
"""

from __future__ import annotations

from collections.abc import Sequence

from ioaware.display.units import bytes_text
from ioaware.kernels.attention.launching.on_chip_limits import ROW_ON_CHIP
from ioaware.report.chart import Axis, Cell, Figure, Mark, Panel, Series, cell_of, series_of
from ioaware.report.comparable_points import Config, Point, Points, Slice
from ioaware.report.figures.labels import (
    BELOW_COMPULSORY,
    Simulated,
    Value,
    beside,
    curve,
    marks,
    over_compulsory,
    replayed,
    seq_len,
    simulated_per_head,
)
from ioaware.report.style import ALGORITHMS

SEQ_LEN = Axis("sequence length N (tokens)", "size")
REQUESTED = Axis("requested per head (bytes)", "bytes")
HBM = Axis("HBM traffic per head (bytes)", "bytes")
REQUESTED_RATIO = Axis("÷ predicted (ratio)", "ratio", log=False)
HBM_RATIO = Axis("measured ÷ simulated (×)", "factor")


def traffic(points: Points, simulated: Simulated, *, causal: bool) -> Figure | None:
    """Return one row per head_dim: requested bytes left, HBM bytes right.

    None without points.
    """
    slices = [part for part in points.slices if part.causal == causal]
    if not slices:
        return None
    on_hbm = any(point.hbm_bytes is not None for part in slices for config in part.configs for point in _seen(points, config))
    return Figure(
        "traffic_causal" if causal else "traffic",
        f"Bytes against sequence length, {'causal' if causal else 'full'} attention",
        _caption(points, slices, on_hbm=on_hbm),
        tuple(
            cell
            for part in slices
            for cell in ((_requested(points, part), _hbm(points, part, simulated)) if on_hbm else (_requested(points, part),))
        ),
    )


def _caption(points: Points, slices: Sequence[Slice], *, on_hbm: bool) -> str:
    sentences = [f"Per head, {slices[0].dtype}, blocks {_blocks(slices)}."]
    if on_hbm:
        sentences.append("Requested is what Theorem 2 counts. HBM is behind an L2, as simulated and as counted.")
    else:
        sentences.append("Requested bytes, what Theorem 2 counts.")
    standard = [config for part in slices for config in part.configs if config.algorithm == "standard"]
    if any(point.seq_len > ROW_ON_CHIP for config in standard for point in points.along(config, "predict")):
        sentences.append(f"Standard attention bends at N = {ROW_ON_CHIP:,}: longer rows of S are read twice.")
    seen = [point for part in slices for config in part.configs for point in _seen(points, config)]
    if any((over_compulsory(points, point) or 1.0) < 1.0 for point in seen):
        sentences.append(BELOW_COMPULSORY)
    return " ".join(sentences)


def _blocks(slices: Sequence[Slice]) -> str:
    """Return the blocks of each curve, once where all are the same."""
    found = {config.blocks for part in slices for config in part.configs}
    return " and ".join(sorted(found))


def _seen(points: Points, config: Config) -> list[Point]:
    return points.along(config, "trace", "measure", standing=("shown", "unstable"))


def _requested(points: Points, part: Slice) -> Cell:
    upper: list[Series] = []
    lower: list[Series] = []
    for index, config in enumerate(part.configs):
        seen = _seen(points, config)
        upper += curve(points, config, lambda point: point.requested_bytes, label=ALGORITHMS[config.algorithm])
        upper += marks(points, seen, seq_len, lambda point: point.requested_bytes)
        lower += marks(points, seen, beside(index, len(part.configs)), points.requested_ratio)
    upper += _longest(points, part.configs, "compulsory", points.compulsory)
    flash = [config for config in part.configs if config.algorithm != "standard"]
    upper += _longest(points, flash, "bound", lambda point: point.per_head(point.result.lower_bound_bytes))
    return cell_of(
        f"Requested: {part.title}",
        SEQ_LEN,
        Panel(REQUESTED, tuple(upper)),
        Panel(REQUESTED_RATIO, tuple(lower), 0.5, guide=1.0),
    )


def _hbm(points: Points, part: Slice, simulated: Simulated) -> Cell:
    upper: list[Series] = []
    lower: list[Series] = []

    def ratio(point: Point) -> float | None:
        expected = simulated_per_head(point, simulated)
        return point.hbm_bytes / expected if expected and point.hbm_bytes is not None else None

    for index, config in enumerate(part.configs):
        seen = _seen(points, config)
        upper += replayed(seen, seq_len, simulated, config.algorithm)
        upper += marks(points, seen, seq_len, lambda point: point.hbm_bytes, label=ALGORITHMS[config.algorithm])
        lower += marks(points, seen, beside(index, len(part.configs)), ratio)
    upper += _longest(points, part.configs, "compulsory", points.compulsory)
    return cell_of(f"HBM: {part.title}", SEQ_LEN, Panel(HBM, tuple(upper)), Panel(HBM_RATIO, tuple(lower), 0.5, guide=1.0))


def _longest(points: Points, configs: Sequence[Config], mark: Mark, value: Value) -> tuple[Series, ...]:
    """Return a lower bound that is independent of the algorithm.

    It comes from the curve with most values of N.
    """
    name = "compulsory floor" if mark == "compulsory" else "lower bound"
    candidates: list[list[tuple[float | None, float | None, str]]] = [
        [
            (seq_len(point), value(point), f"{name} at N = {point.seq_len:,}\n{bytes_text(value(point))} per head")
            for point in points.along(config, "predict")
        ]
        for config in configs
    ]
    if not candidates:
        return ()
    return series_of(name, "neutral", mark, max(candidates, key=lambda rows: sum(y is not None for _, y, _ in rows)))
