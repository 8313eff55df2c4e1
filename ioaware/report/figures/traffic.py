"""Draw traffic against N: predicted, requested and measured.

Requested and HBM apart.
"""

from __future__ import annotations

from collections.abc import Sequence

from ioaware.display.text import clean
from ioaware.display.units import bytes_text
from ioaware.kernels.attention.launching.on_chip_limits import ROW_ON_CHIP
from ioaware.report.chart import Axis, Cell, Figure, Mark, Panel, Series, cell_of, series_of
from ioaware.report.comparable_points import Config, Point, Points, Slice
from ioaware.report.figures.labels import Value, beside, curve, marks, over_compulsory, seq_len
from ioaware.report.style import ALGORITHMS

SEQ_LEN = Axis("sequence length N (tokens)", "size")
REQUESTED = Axis("requested per head (bytes)", "bytes")
HBM = Axis("HBM traffic per head (bytes)", "bytes")
REQUESTED_RATIO = Axis("÷ predicted (ratio)", "ratio", log=False)
HBM_FACTOR = Axis("÷ compulsory (×)", "factor")


def traffic(points: Points, *, causal: bool) -> Figure | None:
    """Return one row per head_dim: requested bytes left, measured HBM bytes right.

    None without points.
    """
    slices = [part for part in points.slices if part.causal == causal]
    if not slices:
        return None
    on_hbm = any(point.hbm_bytes is not None for point in _all_seen(points, slices))
    return Figure(
        "traffic_causal" if causal else "traffic",
        f"Memory traffic against sequence length: {'causal' if causal else 'full'} attention, {slices[0].dtype}",
        _caption(points, slices, on_hbm=on_hbm),
        tuple(
            cell
            for part in slices
            for cell in ((_requested(points, part), _hbm(points, part)) if on_hbm else (_requested(points, part),))
        ),
    )


def _caption(points: Points, slices: Sequence[Slice], *, on_hbm: bool) -> str:
    measured = any(point.source == "measure" for point in _all_seen(points, slices))
    forms = "squares (traced) and dots (measured)" if measured else "squares (traced)"
    agreeing = "theory, kernel and hardware" if measured else "theory and kernel"
    sentences = [
        f"{'Left: b' if on_hbm else 'B'}ytes the SMs request, which Theorem 2 counts.",
        f"The {forms} lie on the predicted curves where {agreeing} agree; the strip below shows how far they do not, the "
        "algorithms side by side at each N.",
    ]
    if measured:
        sentences.append(
            "Hardware is below theory where an L1 answers for reads made before: O, l and m in FlashAttention-1 while the "
            "visited rows fit, tiles of Q and K shared by programs of one SM in standard attention. Theorem 2's verdict holds "
            "the difference against all that the L1 can hold."
        )
    if on_hbm:
        sentences.append(
            "Right: bytes that reached HBM. They lie between the compulsory floor (Q, K, V and O once) and the requested bytes "
            "(thin curves), because the L2 catches the rest; writes still in the L2 when a kernel ends are not counted, so a "
            "small point may lie below the floor."
        )
    sentences.append(f"Blocks (rows of Q × rows of K, V): {_blocks(slices)}. All values are per head.")
    standard = [config for part in slices for config in part.configs if config.algorithm == "standard"]
    if any(point.seq_len > ROW_ON_CHIP for config in standard for point in points.along(config, "predict")):
        sentences.append(
            f"Standard attention's curve bends at N = {ROW_ON_CHIP:,}: rows of S up to there stay on chip in softmax, "
            "longer ones are read twice."
        )
    return " ".join(sentences) + _bound_note(points, slices)


def _all_seen(points: Points, slices: Sequence[Slice]) -> list[Point]:
    return [point for part in slices for config in part.configs for point in _seen(points, config)]


def _blocks(slices: Sequence[Slice]) -> str:
    """Return the blocks of each algorithm's curve, all columns together."""
    found: dict[str, dict[str, None]] = {}
    for config in (config for part in slices for config in part.configs):
        found.setdefault(ALGORITHMS[config.algorithm], {})[config.blocks] = None
    return "; ".join(f"{name} {' and '.join(blocks)}" for name, blocks in found.items())


def _seen(points: Points, config: Config) -> list[Point]:
    return points.along(config, "trace", "measure", standing=("shown", "unstable"))


def _bound_note(points: Points, slices: Sequence[Slice]) -> str:
    """Return which M the dotted bound is for, by the prediction's own note."""
    for config in (config for part in slices for config in part.configs):
        for point in points.along(config, "predict"):
            if point.result.lower_bound_bytes is not None:
                return "".join(f" Dotted: {clean(note)}." for note in point.result.notes if note.startswith("lower bound"))
    return ""


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


def _hbm(points: Points, part: Slice) -> Cell:
    upper: list[Series] = []
    lower: list[Series] = []
    for index, config in enumerate(part.configs):
        seen = _seen(points, config)
        upper += curve(points, config, lambda point: point.requested_bytes, mark="ghost")
        upper += marks(points, seen, seq_len, lambda point: point.hbm_bytes, label=ALGORITHMS[config.algorithm])
        lower += marks(points, seen, beside(index, len(part.configs)), lambda point: over_compulsory(points, point))
    upper += _longest(points, part.configs, "compulsory", points.compulsory)
    return cell_of(f"HBM: {part.title}", SEQ_LEN, Panel(HBM, tuple(upper)), Panel(HBM_FACTOR, tuple(lower), 0.5, guide=1.0))


def _longest(points: Points, configs: Sequence[Config], mark: Mark, value: Value) -> tuple[Series, ...]:
    """Return a lower bound that is independent of the algorithm, from the curve with most values of N."""
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
