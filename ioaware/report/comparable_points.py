"""Results as comparable points: per head, matched with their prediction, sorted into what is shown and what is listed.

Traffic is compared per head, because a sweep may use fewer heads where N is large; every quantity here is proportional
to batch * heads except HBM traffic, whose points keep their number of heads in their labels.
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
    """What stays fixed along a curve over N."""

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
        """Rows of the block that stays on chip in the outer loop: K, V in `flash1`, Q elsewhere. It sets the traffic."""
        return self.block_n if self.algorithm == "flash1" else self.block_m

    @property
    def inner_block(self) -> int:
        """Rows of the other block, streamed in the inner loop."""
        return self.block_m if self.algorithm == "flash1" else self.block_n

    @property
    def sram_elements(self) -> int:
        """M = 4 d B, the on-chip memory for which the paper's rule gives this outer block (Algorithm 1, line 1)."""
        return 4 * self.head_dim * self.outer_block


class Key(NamedTuple):
    """What decides the requested bytes of one head: equal keys must give equal predictions."""

    config: Config
    seq_len: int
    kv_len: int


@dataclass(frozen=True)
class Point:
    """One result of a case of attention."""

    result: Result
    key: Key
    num_heads: int
    """batch * heads: how many heads the result's totals cover."""

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
        """A total of the result divided over its heads."""
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
        """Whether figures may show it. Bytes of an unstable point are shown apart, its time never; of a measured point
        whose output was not found equal to the reference, nothing is."""
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
    """The point of a result of one of the attention cases, or None for any other target or for unusable parameters."""
    case = CASES.get(result.target)
    if case is None:
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
    """What one column of a figure over N shows: one dtype, head_dim and mask, and per algorithm one pair of blocks."""

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
        """Results of targets that are no attention case: tabulated, not drawn."""

    def of(self, *sources: Source, standing: Sequence[str] = ("shown",)) -> list[Point]:
        """The points of these sources that figures may show."""
        return [point for point in self.all if point.source in sources and point.standing in standing]

    @cached_property
    def predictions(self) -> Mapping[Key, Point]:
        """The prediction for each key: where several agree on the blocks, that for given blocks and the fewest heads,
        so that lower bounds along a curve, which do depend on the heads and on M, are for the same machine."""
        preferred = sorted(self.of("predict"), key=lambda point: (point.sram_elements is not None, point.num_heads))
        return {point.key: point for point in reversed(preferred)}

    def prediction(self, point: Point) -> Point | None:
        """What the closed form says about the same parameters."""
        return self.predictions.get(point.key)

    def requested_ratio(self, point: Point) -> float | None:
        """Requested bytes of a point over its prediction."""
        return _ratio(point.requested_bytes, self.prediction(point), "requested_bytes")

    def extra_ratio(self, point: Point) -> float | None:
        """Extra memory of a point over its prediction."""
        return _ratio(point.extra_bytes, self.prediction(point), "extra_bytes")

    def compulsory(self, point: Point) -> float | None:
        """The floor for a point per head: its own, or its prediction's."""
        own, predicted = point.compulsory_bytes, self.prediction(point)
        return own if own is not None or predicted is None else predicted.compulsory_bytes

    def along(self, config: Config, *sources: Source, standing: Sequence[str] = ("shown",)) -> list[Point]:
        """Points of one configuration with as many keys as queries, in order of N; of predictions one for each N."""
        seen = self.predictions.values() if sources == ("predict",) else self.of(*sources, standing=standing)
        points = [point for point in seen if point.config == config]
        return sorted((point for point in points if point.key.kv_len == point.seq_len), key=lambda point: point.seq_len)

    @cached_property
    def slices(self) -> tuple[Slice, ...]:
        """The columns worth drawing, full before causal and small head_dim first, of the dtype seen most often.

        An algorithm was often run with several blocks: its curve over N takes those seen at most values of N,
        measured ones before traced ones before predicted ones.
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
