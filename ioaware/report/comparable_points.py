"""Convert results to points per head, matched with their prediction.

The module also decides whether figures may show them.

Traffic is per head, because a sweep may use fewer heads where N is large. Every quantity is proportional to batch * heads
except HBM traffic. Labels of those points show their number of heads.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

from ioaware.cases import CASES
from ioaware.errors import UsageError
from ioaware.params import resolve
from ioaware.result import BYTES_HOLD, Result, Source, Traffic


class Config(NamedTuple):
    """Parameters that are constant along a curve over N."""

    algorithm: str
    dtype: str
    head_dim: int
    causal: bool
    block_m: int
    block_n: int

    @property
    def blocks(self) -> str:
        """Rows of Q × rows of K and V in a tile."""
        return f"{self.block_m}×{self.block_n}"

    @property
    def outer_block(self) -> int:
        """Rows of the block that stays on chip: K, V in `flash1`, Q elsewhere.

        It sets the traffic.
        """
        return self.block_n if self.algorithm == "flash1" else self.block_m

    @property
    def inner_block(self) -> int:
        """Rows of the block that the inner loop streams."""
        return self.block_m if self.algorithm == "flash1" else self.block_n

    @property
    def sram_elements(self) -> int:
        """M = 4 d B, the on-chip memory of this outer block by the paper's rule.

        For this M the rule gives this outer block (Algorithm 1, line 1).
        """
        return 4 * self.head_dim * self.outer_block


class Key(NamedTuple):
    """Parameters of the requested bytes of one head.

    Equal keys have equal predictions.
    """

    config: Config
    seq_len: int
    kv_len: int


@dataclass(frozen=True)
class Point:
    """One result of a case of attention."""

    result: Result
    key: Key
    num_heads: int
    """batch * heads, which the result's totals cover."""

    @property
    def config(self) -> Config:
        return self.key.config

    @property
    def seq_len(self) -> int:
        return self.key.seq_len

    @property
    def source(self) -> Source:
        return self.result.source

    def per_head(self, total: int | None) -> float | None:
        """Divide a total of the result by its heads."""
        return None if total is None else total / self.num_heads

    @property
    def sram_elements(self) -> int | None:
        """M, where it was given and set the blocks."""
        memory = self.result.params.get("sram_elements")
        return memory if isinstance(memory, int) else None

    @property
    def requested_bytes(self) -> float | None:
        """Requested bytes per head, reads and writes."""
        return self.per_head(_total(self.result.requested))

    @property
    def hbm_bytes(self) -> float | None:
        """HBM bytes per head, reads and writes."""
        return self.per_head(_total(self.result.hbm))

    @property
    def compulsory_bytes(self) -> float | None:
        """Every distinct byte of Q, K, V and O once, per head."""
        return self.per_head(_total(self.result.compulsory))

    @property
    def extra_bytes(self) -> float | None:
        """Memory beyond inputs and output per head."""
        return self.per_head(self.result.extra_memory_bytes)

    @property
    def time_ns(self) -> float | None:
        """Time of the whole call: the work's own time, or the median of its repetitions."""
        if self.result.time_ns is not None:
            return self.result.time_ns
        return None if self.result.timing is None else self.result.timing.median_ns

    @property
    def standing(self) -> Literal["shown", "unstable", "listed"]:
        """Status of the point in figures.

        Bytes of an unstable point are shown apart, its time never.

        A measured point without a verified output is not shown.
        """
        if self.result.status not in {*BYTES_HOLD, "unstable"}:
            return "listed"
        if self.result.check is None and self.source == "measure":
            return "listed"
        if self.result.check is not None and not self.result.check.passed:
            return "listed"
        return "shown" if self.result.status in BYTES_HOLD else "unstable"


def _total(traffic: Traffic | None) -> int | None:
    return None if traffic is None else traffic.total_bytes


def point_of(result: Result) -> Point | None:
    """Return the point of an attention result.

    None for another target or unusable parameters.
    """
    case = CASES.get(result.target)
    if case is None or case.family != "theorem 2" or result.params.get("order") not in (None, "plain"):
        return None
    try:
        params = resolve(case.params, result.params, case.name)
        values = case.values(params)
    except (UsageError, KeyError, AssertionError):
        return None
    config = Config(case.name, str(params["dtype"]), values["d"], bool(params["causal"]), values["B_r"], values["B_c"])
    return Point(result, Key(config, values["N"], values["N_k"]), values["B"] * values["H"])


@dataclass(frozen=True)
class Slice:
    """One column of a figure over N.

    It has a dtype, head_dim and mask, and per algorithm one pair of blocks.
    """

    dtype: str
    head_dim: int
    causal: bool
    configs: tuple[Config, ...]

    @property
    def title(self) -> str:
        """`d = 64, causal`."""
        return f"d = {self.head_dim}, {'causal' if self.causal else 'full'}"


class Points:
    """All points of a report, by source and key."""

    def __init__(self, results: Iterable[Result]) -> None:
        pairs = [(result, point_of(result)) for result in results]
        self.all: Sequence[Point] = sorted((point for _, point in pairs if point is not None), key=_order)
        self.others: Sequence[Result] = [result for result, point in pairs if point is None]
        """Results of targets that are not attention cases: listed in tables, not drawn."""

    def of(self, *sources: Source, standing: Sequence[str] = ("shown",)) -> list[Point]:
        """Return the points of these sources that figures may show."""
        return [point for point in self.all if point.source in sources and point.standing in standing]

    @cached_property
    def predictions(self) -> Mapping[Key, Point]:
        """Return the prediction of each key.

        Of several, it is the one for given blocks and the fewest heads. Why: lower bounds depend on heads and M, so that along
        a curve they are for one machine.
        """
        preferred = sorted(self.of("predict"), key=lambda point: (point.sram_elements is not None, point.num_heads))
        return {point.key: point for point in reversed(preferred)}

    def prediction(self, point: Point) -> Point | None:
        """Return the closed form's result for the same parameters."""
        return self.predictions.get(point.key)

    def requested_ratio(self, point: Point) -> float | None:
        """Return a point's requested bytes over its prediction."""
        return _ratio(point.requested_bytes, self.prediction(point), "requested_bytes")

    def extra_ratio(self, point: Point) -> float | None:
        """Return a point's extra memory over its prediction."""
        return _ratio(point.extra_bytes, self.prediction(point), "extra_bytes")

    def compulsory(self, point: Point) -> float | None:
        """Return a point's compulsory bytes per head: its own, or its prediction's."""
        own, predicted = point.compulsory_bytes, self.prediction(point)
        return own if own is not None or predicted is None else predicted.compulsory_bytes

    def along(self, config: Config, *sources: Source, standing: Sequence[str] = ("shown",)) -> list[Point]:
        """Return the points of one configuration with N_k = N, in order of N.

        One prediction for each N.
        """
        seen = self.predictions.values() if sources == ("predict",) else self.of(*sources, standing=standing)
        points = [point for point in seen if point.config == config]
        return sorted((point for point in points if point.key.kv_len == point.seq_len), key=lambda point: point.seq_len)

    @cached_property
    def slices(self) -> tuple[Slice, ...]:
        """Return the columns to draw: full before causal, small head_dim first.

        The columns are of the most frequent dtype.

        An algorithm may have run with several blocks. Its curve takes those with most values of N, measured before traced
        before predicted.
        """
        lengths: dict[Config, tuple[set[int], set[int], set[int]]] = defaultdict(lambda: (set(), set(), set()))
        for point in self.of("measure", "trace", "predict", standing=("shown", "unstable")):
            lengths[point.config][("measure", "trace", "predict").index(point.source)].add(point.seq_len)
        best: dict[tuple[str, int, bool, str], Config] = {}
        for config in sorted(lengths, key=lambda c: (tuple(-len(seen) for seen in lengths[c]), c)):
            best.setdefault((config.dtype, config.head_dim, config.causal, config.algorithm), config)
        if not best:
            return ()
        weight: dict[str, int] = defaultdict(int)
        for config, seen in lengths.items():
            weight[config.dtype] += 10**6 * len(seen[0]) + 10**3 * len(seen[1]) + len(seen[2])
        dtype = max(sorted(weight), key=lambda name: weight[name])
        columns = sorted({(c.causal, c.head_dim) for c in best.values() if c.dtype == dtype})
        return tuple(
            Slice(
                dtype,
                head_dim,
                causal,
                tuple(best[key] for key in sorted(best, key=_case_order) if key[:3] == (dtype, head_dim, causal)),
            )
            for causal, head_dim in columns
        )


def _ratio(value: float | None, predicted: Point | None, name: str) -> float | None:
    expected = None if predicted is None else getattr(predicted, name)
    return None if value is None or not expected else value / expected


def _case_order(key: tuple[str, int, bool, str]) -> int:
    return list(CASES).index(key[3])


def _order(point: Point) -> tuple[object, ...]:
    config = point.config
    sources = ("predict", "derive", "trace", "simulate", "measure")
    return (
        config.causal, config.head_dim, list(CASES).index(config.algorithm), point.seq_len, point.key.kv_len, config.block_m,
        config.block_n, config.dtype, sources.index(point.source), point.num_heads, str(point.result.environment),
    )  # fmt: skip
