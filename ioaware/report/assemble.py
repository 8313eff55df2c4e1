"""Add predictions that the report's curves need to traced and measured results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise

from ioaware.prediction import predict
from ioaware.report.comparable_points import Config, Point, Points
from ioaware.report.figures.blocks import FLASH
from ioaware.result import ParamValue, Result

Progress = Callable[[int, int, str], None]
"""Arguments: predictions done, predictions in total, what was predicted."""

BLOCKS = (16, 24, 32, 48, 64, 96, 128, 192, 256)
BLOCKS_LONGEST = 8192  # block sizes are compared at moderate N only


def complete(results: Sequence[Result], progress: Progress = lambda _done, _total, _what: None) -> list[Result]:
    """Return `results` and the predictions that their figures still need.

    Each prediction is for one head.

    Predictions run along N at the blocks of each curve, along M at the N of each block study, and at every point without
    one.
    """
    points = Points(results)
    wanted = [*_along_length(points), *_along_blocks(points), *_beside(points)]
    distinct = list({(case, *sorted(params.items(), key=str)): (case, params) for case, params in wanted}.values())
    predictions: list[Result] = []
    for done, (case, params) in enumerate(distinct, start=1):
        predictions.append(predict(case, **params))  # pyright: ignore[reportArgumentType]  no parameter is a machine
        progress(done, len(distinct), f"predict {case}")
    return [*results, *predictions]


Wanted = tuple[str, dict[str, ParamValue]]


def _along_length(points: Points) -> Iterable[Wanted]:
    """Yield every configuration of a curve over the observed lengths.

    The lengths are powers of two, and half-way between.
    """
    lengths = [point.seq_len for point in points.all]
    if not lengths:
        return
    powers = [2**power for power in range(4, 25) if min(lengths) <= 2**power <= max(lengths)]
    grid = sorted({*powers, *((low + high) // 2 for low, high in pairwise(powers)), min(lengths), max(lengths)})
    for config in (config for part in points.slices for config in part.configs):
        for length in grid:
            yield config.algorithm, _params(config, length)


def _along_blocks(points: Points) -> Iterable[Wanted]:
    """Yield the flash algorithms with both blocks set by M.

    This is where several block sizes were traced or measured.
    """
    groups: dict[tuple[str, str, int, int], set[int]] = {}
    for point in points.of("trace", "measure", standing=("shown", "unstable")):
        config = point.config
        if config.algorithm in FLASH and not config.causal and point.seq_len <= BLOCKS_LONGEST:
            groups.setdefault((config.algorithm, config.dtype, config.head_dim, point.seq_len), set()).add(config.outer_block)
    for (algorithm, dtype, head_dim, length), seen in groups.items():
        if len(seen) > 1:
            sizes = [size for size in BLOCKS if min(seen) <= size <= max(seen)]
            for size in sorted({*sizes, *seen}):
                yield algorithm, {"seq_len": length, "head_dim": head_dim, "dtype": dtype, "sram_elements": 4 * head_dim * size}


def _beside(points: Points) -> Iterable[Wanted]:
    """Yield every traced or measured point that has no prediction."""
    for point in points.of("trace", "measure", standing=("shown", "unstable")):
        if points.prediction(point) is None:
            yield point.config.algorithm, _params(point.config, point.seq_len, _kv_len(point))


def _kv_len(point: Point) -> int | None:
    return None if point.key.kv_len == point.seq_len else point.key.kv_len


def _params(config: Config, seq_len: int, kv_len: int | None = None) -> dict[str, ParamValue]:
    return {
        "seq_len": seq_len,
        "kv_len": kv_len,
        "head_dim": config.head_dim,
        "dtype": config.dtype,
        "causal": config.causal,
        "block_m": config.block_m,
        "block_n": config.block_n,
    }
