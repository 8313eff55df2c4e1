"""Collect the evidence for a claim: the runs it needs, and their results.

Each run's result stands beside the prediction.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ioaware.analysis.theory.counts.gpu_transfers import Method, Pass, Problem
from ioaware.result import BYTES_HOLD, ParamValue, Result, Source


@dataclass(frozen=True, slots=True)
class Need:
    """One run that a claim needs: a source, a case, and the non-default parameters."""

    source: Source
    target: str
    params: tuple[tuple[str, ParamValue], ...]

    def __str__(self) -> str:
        return f"{self.source} {self.target} {_words(dict(self.params))}"


def need(source: Source, target: str, **params: ParamValue) -> Need:
    """Return a `Need`; equal content is equal, whatever the order of the parameters."""
    return Need(source, target, tuple(sorted(params.items())))


def derived(*targets: str, **params: ParamValue) -> tuple[Need, ...]:
    """Return derivations of cases at one size, which may be larger than a trace's."""
    return tuple(need("derive", target, **params) for target in targets)


@dataclass(frozen=True, slots=True)
class Observation:
    """A source's result at a point, theory's prediction, and symbol values.

    The prediction is for that point, and the values are those of the formulas' symbols.
    """

    observed: Result
    predicted: Result
    values: Mapping[str, int]

    @property
    def target(self) -> str:
        return self.observed.target

    @property
    def causal(self) -> bool:
        return bool(self.observed.params.get("causal", False))

    @property
    def requested_bytes(self) -> int | None:
        """Return the reads and writes observed, over all heads."""
        return self.observed.requested.total_bytes if self.observed.requested else None

    @property
    def heads(self) -> int:
        """Return batch times heads: totals are per launch, formulas per head."""
        return self.values["B"] * self.values["H"]

    @property
    def where(self) -> str:
        return f"{self.observed.source} {self.target} {_words(self.observed.params)}"


@dataclass(frozen=True, slots=True)
class MeasuredError:
    """Relative errors of O and of dQ of an attention on a GPU, against float64.

    All keys share an offset; `centred`: the mean key is subtracted before.
    """

    attention: str
    seq_len: int
    block_n: int
    key_offset: float
    centred: bool
    o_error: float
    dq_error: float


@dataclass(frozen=True, slots=True)
class CountedExchange:
    """NVLink payload of one method over several calls, by the counters of every GPU.

    `payload` has what each GPU received and sent, in bytes. `where` names the GPUs, and whether the counters are recorded.
    """

    method: Method
    direction: Pass
    problem: Problem
    element_bytes: int
    calls: int
    payload: tuple[tuple[int, int], ...]
    where: str


@dataclass(frozen=True, slots=True)
class Evidence:
    """The results of all needs, and the available measurements.

    `rounding` are errors on a GPU, `shared` records with counters of shared memory, `exchanges` counters of NVLink.
    """

    answers: Mapping[Need, Observation] = field(default_factory=dict[Need, Observation])
    measurements: Sequence[Observation] = ()
    rounding: Sequence[MeasuredError] = ()
    shared: Sequence[Result] = ()
    exchanges: Sequence[CountedExchange] = ()

    def at(self, wanted: Need) -> Observation | None:
        """Return the result of a need, or None where it was not run or failed."""
        seen = self.answers.get(wanted)
        return seen if seen is not None and seen.observed.status in BYTES_HOLD else None

    def measured(self, *targets: str) -> Iterator[Observation]:
        """Return trusted measurements of these cases.

        There are no throttled, failed or impossible records among them.
        """
        for seen in self.measurements:
            if seen.target in targets and seen.observed.status in BYTES_HOLD:
                yield seen

    def checked(self, target: str) -> Iterator[Observation]:
        """Return measurements of a case with a checked output, trusted or not."""
        return (seen for seen in self.measurements if seen.target == target and seen.observed.check is not None)

    def failures(self, needs: Sequence[Need]) -> Iterator[str]:
        """Return a sentence for each failed run and each untrusted measurement.

        The runs are those among the needs, and the measurements are of their targets.
        """
        targets = {wanted.target for wanted in needs}
        untrusted = ((seen.where, seen) for seen in self.measurements if seen.target in targets)
        runs = ((str(wanted), self.answers[wanted]) for wanted in dict.fromkeys(needs) if wanted in self.answers)
        for where, seen in (*runs, *untrusted):
            if seen.observed.status not in BYTES_HOLD:
                yield f"Not used, {where}: {seen.observed.status}. {'; '.join(seen.observed.notes)}"


def _words(params: Mapping[str, ParamValue]) -> str:
    """Return the parameters in short, as N=128 d=16.

    Those that are one, off or unset are left out.
    """
    short = {"seq_len": "N", "kv_len": "N_k", "head_dim": "d", "block_m": "B_r", "block_n": "B_c", "sram_elements": "M"}
    shown = {short.get(name, name): value for name, value in params.items() if value not in (None, False, 1)}
    return " ".join(name if value is True else f"{name}={value}" for name, value in shown.items())
