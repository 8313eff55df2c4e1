"""Give predicted and measured bytes of recorded points.

Each is given at the place where its prediction is made.

- Cases with a closed form: requested of the L2. What an L1 serves is below the prediction.
- Third-party kernels: requested of the L1 and by TMA, before any cache.
- HBM: by the replay of each launch through the model of the L2.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ioaware.cases import CASES
from ioaware.display.text import params_text
from ioaware.machine.model import SECTOR_BYTES
from ioaware.measurement.counters import l1_counters as l1
from ioaware.prediction import predict
from ioaware.report.kernel_points import pairs
from ioaware.result import BYTES_HOLD, Launch, Result
from ioaware.simulation.accuracy import Prediction, point_key

Kind = Literal["requested", "requested, third-party", "HBM", "HBM, third-party"]


@dataclass(frozen=True, slots=True)
class Records:
    """Records that ship with the package.

    `own` has derivations of points without a closed form, too.
    """

    own: Sequence[Result]
    systems: Sequence[Result]
    third_party: Sequence[Result]
    derived: Sequence[Result]
    predictions: Sequence[Prediction]


@dataclass(frozen=True, slots=True)
class Compared:
    """Bytes of one point of one kind, over its launches: reads and writes together."""

    kind: Kind
    name: str
    predicted: int
    measured: int


@dataclass(frozen=True, slots=True)
class Total:
    """Reads or writes of one launch of a third-party kernel.

    They are those that its L1 and TMA are asked for.
    """

    target: str
    kernel: str
    derived: int
    counted: int


NONE = Records((), (), (), (), ())


def shipped() -> Records:
    """Read every record that ships with the package."""
    from ioaware.result_file import read_jsonl
    from ioaware.simulation.predictions import RECORDED, read_predictions
    from ioaware.sweep.claim_evidence import recorded, recorded_systems

    third_party, derived = (list(read_jsonl(RECORDED / "foreign" / name)) for name in ("measured.jsonl", "derived.jsonl"))
    return Records(recorded(), recorded_systems(), third_party, derived, read_predictions())


def compared(records: Records) -> list[Compared]:
    """Return each comparison of each recorded point whose bytes hold."""
    own = [one for one in records.own if one.source == "measure" and one.status in BYTES_HOLD]
    systems = [one for one in records.systems if one.source == "measure" and one.status in BYTES_HOLD]
    return [*_closed_forms([*own, *systems]), *_derived(records.own), *_third_party(records), *_hbm(records, own)]


def _closed_forms(measured: Sequence[Result]) -> Iterator[Compared]:
    for result in measured:
        if result.target in CASES and result.requested is not None:
            closed = predict(result.target, **dict(result.params)).requested  # pyright: ignore[reportArgumentType]
            assert closed is not None  # noqa: S101 - a closed form has bytes
            expected, counted = closed.total_bytes, result.requested.total_bytes
            if expected is not None and counted is not None:
                yield Compared("requested", _name(result), expected, counted)


def _derived(own: Sequence[Result]) -> Iterator[Compared]:
    """Yield the points of this package's kernels that have a derivation.

    They have it instead of a closed form.
    """
    for pair in pairs(own):
        reads, writes, counted = pair.derived_read_bytes, pair.derived_write_bytes, pair.measured_requested
        if reads is not None and writes is not None and counted is not None and counted.total_bytes is not None:
            yield Compared("requested", _name(pair.measured), reads + writes, counted.total_bytes)


def _third_party(records: Records) -> Iterator[Compared]:
    sums: dict[tuple[str, str], tuple[str, int, int]] = {}
    for result, total in _totals(records):
        name, derived, counted = sums.get((result.target, _key(result)), (_name(result), 0, 0))
        sums[result.target, _key(result)] = (name, derived + total.derived, counted + total.counted)
    for name, derived, counted in sums.values():
        yield Compared("requested, third-party", name, derived, counted)


def totals(records: Records) -> list[Total]:
    """Return what L1s and TMA are asked for by third-party kernel launches.

    Each launch of the kernels is counted, with reads and writes apart.
    """
    return [total for _, total in _totals(records)]


def _totals(records: Records) -> Iterator[tuple[Result, Total]]:
    known = {(one.target, _key(one)): one for one in records.derived}
    for result in records.third_party:
        derived = known.get((result.target, _key(result)))
        if derived is None or result.status not in BYTES_HOLD:
            continue
        launches = [launch for launch in derived.launches if launch.origin == "triton"]
        for seen, said in zip(result.launches, launches, strict=True):
            for sectors, by_tma in ((l1.READ_SECTORS, l1.TMA_READS), (l1.WRITE_SECTORS, l1.TMA_WRITES)):
                asked = [_asked(launch, sectors, by_tma) for launch in (said, seen)]
                yield result, Total(result.target, seen.kernel, *asked)


def _asked(launch: Launch, sectors: str, by_tma: str) -> int:
    counters: Mapping[str, int] = launch.counters or {}
    return SECTOR_BYTES * counters[sectors] + counters[by_tma]


def _hbm(records: Records, own: Sequence[Result]) -> Iterator[Compared]:
    simulated = {point_key(one.target, one.params): one for one in records.predictions}
    for result in (*own, *records.third_party):
        prediction = simulated.get(point_key(result.target, result.params))
        expected, counted = prediction and simulated_bytes(prediction), _counted_hbm(result)
        if expected is not None and counted is not None and result.status in BYTES_HOLD:
            kind: Kind = "HBM, third-party" if result.target.partition(":")[0].endswith(".py") else "HBM"
            yield Compared(kind, _name(result), expected, counted)


def simulated_bytes(prediction: Prediction) -> int | None:
    """Return the HBM bytes of a recorded simulation; None where it failed."""
    if prediction.failed or not prediction.launches:
        return None
    return sum(one.hbm_read_bytes + one.hbm_write_bytes for one in prediction.launches)


def _counted_hbm(result: Result) -> int | None:
    moved = [launch.hbm.total_bytes for launch in result.launches if launch.origin == "triton" and launch.hbm is not None]
    known = [one for one in moved if one is not None]
    return sum(known) if known and len(known) == len(moved) else None


def _name(result: Result) -> str:
    """Return `liger.py:rms_norm: rows=8192 cols=4096`, with the kernels below.

    The kernels of the point come below that line.
    """
    kernels = dict.fromkeys(launch.kernel for launch in result.launches if launch.origin == "triton")
    target = result.target.rpartition("/")[2].removeprefix("ioaware.kernels.attention.targets:")
    known = {name: value for name, value in result.params.items() if value is not None and value is not False}
    return f"{target}: {params_text(known)}\n{', '.join(kernels)}"


def _key(result: Result) -> str:
    known: dict[str, Any] = {name: value for name, value in result.params.items() if value is not None}
    return json.dumps(known, sort_keys=True)
