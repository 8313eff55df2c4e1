"""Give predicted and measured bytes of recorded points.

Each is given at the place where its prediction is made.

- Cases with a closed form: requested of the L2. What an L1 serves is below the prediction.
- Third-party kernels: requested of the L1 and by TMA, before any cache.
- HBM: by the replay of each launch through the model of the L2; in steady state, of all launches of a call.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from ioaware.cases import CASES
from ioaware.display.text import params_text
from ioaware.machine.model import SECTOR_BYTES
from ioaware.measurement.counters import l1_counters as l1
from ioaware.prediction import predict
from ioaware.report.kernel_points import pairs
from ioaware.report.pages.known_hbm import bounds_alone
from ioaware.result import BYTES_HOLD, Launch, Result
from ioaware.simulation.accuracy import Accuracy, Prediction, point_key
from ioaware.simulation.accuracy_record.counter_comparison import compare
from ioaware.simulation.accuracy_record.l1_reuse import L1Answer, read_l1_answers
from ioaware.simulation.accuracy_record.steady_state import call_as_launch, is_steady

Kind = Literal["requested", "requested, third-party", "HBM", "HBM, third-party", "HBM, steady state"]


@dataclass(frozen=True, slots=True)
class Records:
    """Records that ship with the package.

    `own` has derivations of points without a closed form, too. `steady` are calls in steady state, `steady_predictions` theirs.
    `others` are points of the papers' tables, of orders, fused kernels and shared memory. `l1` says by point whose loads hit in
    the L1.
    """

    own: Sequence[Result]
    systems: Sequence[Result]
    third_party: Sequence[Result]
    derived: Sequence[Result]
    predictions: Sequence[Prediction]
    steady: Sequence[Result] = ()
    steady_predictions: Sequence[Prediction] = ()
    others: Sequence[Result] = ()
    held_out: Collection[str] = frozenset()
    l1: Mapping[str, L1Answer] = field(default_factory=dict[str, L1Answer])

    @property
    def measured(self) -> list[Result]:
        """Every measured point whose bytes hold."""
        every = (*self.own, *self.systems, *self.others, *self.third_party, *self.steady)
        return [one for one in every if one.source == "measure" and one.status in BYTES_HOLD]

    def accuracy(self) -> Accuracy:
        """Return the errors of every recorded prediction.

        They are those that `ioaware accuracy` prints.
        """
        return compare(self.measured, self.predictions, self.held_out, self.steady_predictions, self.l1)


@dataclass(frozen=True, slots=True)
class Compared:
    """Bytes of one point of one kind, over its launches: reads and writes together."""

    kind: Kind
    name: str
    predicted: int
    measured: int
    point: str = ""
    """The point's name: one point may have a comparison of each kind."""


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
    from ioaware.simulation import predictions as files
    from ioaware.sweep.claim_evidence import recorded, recorded_systems

    paths = sorted(files.RECORDED.glob("foreign/*.jsonl"), key=lambda path: path.stem)  # NAME before NAME-later
    foreign = [one for path in paths for one in read_jsonl(path)]
    return Records(
        recorded(),
        recorded_systems(),
        third_party=[one for one in foreign if one.source == "measure"],
        derived=[one for one in foreign if one.source == "derive"],
        predictions=[*files.read_predictions(), *files.committed_before()],
        steady=files.measured_points(patterns=files.STEADY_POINTS),
        steady_predictions=files.read_predictions(files.STEADY),
        others=files.measured_points(patterns=files.OTHERS),
        held_out=files.held_out_points(),
        l1=read_l1_answers(),
    )


def compared(records: Records) -> list[Compared]:
    """Return each comparison of each recorded point whose bytes hold."""
    single = [one for one in records.measured if not is_steady(one)]
    return [*_closed_forms(single), *_derived(records.own), *_third_party(records), *_hbm(records, single), *_steady(records)]


def unpredicted(records: Records, points: Sequence[Compared]) -> int:
    """Return the number of recorded points without any comparison."""
    return len({_point(one) for one in records.measured} - {one.point for one in points})


def _point(result: Result) -> str:
    return point_key(result.target, result.params) + (" steady" if is_steady(result) else "")


def _closed_forms(measured: Sequence[Result]) -> Iterator[Compared]:
    for result in measured:
        if result.target in CASES and result.requested is not None:
            closed = predict(result.target, **dict(result.params)).requested  # pyright: ignore[reportArgumentType]
            assert closed is not None  # noqa: S101 - a closed form has bytes
            expected, counted = closed.total_bytes, result.requested.total_bytes
            if expected is not None and counted is not None:
                yield Compared("requested", _name(result), expected, counted, _point(result))


def _derived(own: Sequence[Result]) -> Iterator[Compared]:
    """Yield the points of this package's kernels that have a derivation.

    They have it instead of a closed form.
    """
    for pair in pairs(own):
        reads, writes, counted = pair.derived_read_bytes, pair.derived_write_bytes, pair.measured_requested
        if reads is not None and writes is not None and counted is not None and counted.total_bytes is not None:
            yield Compared("requested", _name(pair.measured), reads + writes, counted.total_bytes, _point(pair.measured))


def _third_party(records: Records) -> Iterator[Compared]:
    sums: dict[str, tuple[str, int, int]] = {}
    for result, total in _totals(records):
        name, derived, counted = sums.get(_point(result), (_name(result), 0, 0))
        sums[_point(result)] = (name, derived + total.derived, counted + total.counted)
    for point, (name, derived, counted) in sums.items():
        yield Compared("requested, third-party", name, derived, counted, point)


def totals(records: Records) -> list[Total]:
    """Return what L1s and TMA are asked for by third-party kernel launches.

    Each launch of the kernels is counted, with reads and writes apart.
    """
    return [total for _, total in _totals(records)]


def _totals(records: Records) -> Iterator[tuple[Result, Total]]:
    for result, expected, counted in third_party_launches(records):
        if expected.exact and expected.counters and counted.counters:
            for sectors, by_tma in ((l1.READ_SECTORS, l1.TMA_READS), (l1.WRITE_SECTORS, l1.TMA_WRITES)):
                asked = [_asked(counters, sectors, by_tma) for counters in (expected.counters, counted.counters)]
                yield result, Total(result.target, counted.kernel, *asked)


def third_party_launches(records: Records) -> Iterator[tuple[Result, Launch, Launch]]:
    """Yield the point, the derived and the measured launch.

    They are of points whose derived kernels, grids and configurations are those that ran, and whose bytes are derived.
    """
    known: dict[str, list[Result]] = {}
    for one in records.derived:
        known.setdefault(_point(one), []).append(one)
    for result in records.third_party:
        said = [_kernels(one) for one in known.get(_point(result), ()) if same_launches(result, one)]
        known_bytes = said and all(one.requested is not None and one.requested.total_bytes is not None for one in said[-1])
        if known_bytes and result.status in BYTES_HOLD:
            yield from ((result, *both) for both in zip(said[-1], _kernels(result), strict=True))


def same_launches(measured: Result, derived: Result) -> bool:
    """Return whether derived launches ran: kernels, grids and configurations."""
    return [identity(one) for one in _kernels(measured)] == [identity(one) for one in _kernels(derived)]


def identity(launch: Launch) -> tuple[object, ...]:
    """Return what two launches must share to be compared."""
    return launch.kernel, launch.grid, dict(launch.configuration or {})


def _kernels(result: Result) -> list[Launch]:
    return [launch for launch in result.launches if launch.origin == "triton"]


def _asked(counters: Mapping[str, int], sectors: str, by_tma: str) -> int:
    return SECTOR_BYTES * counters[sectors] + counters[by_tma]


def _hbm(records: Records, single: Sequence[Result]) -> Iterator[Compared]:
    """Yield the HBM bytes of points that were measured launch by launch.

    The L2 was emptied before each launch.
    """
    simulated = {point_key(one.target, one.params): one for one in records.predictions}
    for result in single:
        prediction, kernels = simulated.get(point_key(result.target, result.params)), _kernels(result)
        expected, counted = prediction and simulated_bytes(prediction), _counted_hbm(kernels)
        if prediction is None or expected is None or counted is None:
            continue
        same = [one.kernel for one in prediction.launches] == [one.kernel for one in kernels]
        if same and not _bounds_alone(prediction):
            kind: Kind = "HBM, third-party" if result.target.partition(":")[0].endswith(".py") else "HBM"
            yield Compared(kind, _name(result), expected, counted, _point(result))


def _steady(records: Records) -> Iterator[Compared]:
    """Yield requested and HBM bytes of calls in steady state."""
    known = {point_key(one.target, one.params): one for one in records.steady_predictions}
    for result in (one for one in records.steady if one.status in BYTES_HOLD):
        prediction = known.get(point_key(result.target, result.params))
        expected, counted = prediction and simulated_bytes(prediction), _counted_hbm([call_as_launch(result)])
        if prediction is None or expected is None or counted is None:
            continue
        name, point = f"{_name(result)}mean of calls in steady state", _point(result)
        yield Compared("HBM, steady state", name, expected, counted, point)
        (call,) = prediction.launches
        reads, writes = call.requested_read_bytes, call.requested_write_bytes
        asked = result.requested and result.requested.total_bytes
        if reads is not None and writes is not None and asked is not None:
            yield Compared("requested", name, reads + writes, asked, point)


def _bounds_alone(prediction: Prediction) -> bool:
    """Return whether data decide the bytes: the ends of the range are far apart."""
    ranges = [ends for one in prediction.launches for ends in (one.read_range, one.write_range)]
    low, high = (sum(ends[side] or 0 for ends in ranges) for side in (0, 1))
    return bounds_alone(low, None if any(most is None for _, most in ranges) else high)


def simulated_bytes(prediction: Prediction) -> int | None:
    """Return the HBM bytes of a recorded simulation; None where it failed."""
    if prediction.failed or not prediction.launches:
        return None
    return sum(one.hbm_read_bytes + one.hbm_write_bytes for one in prediction.launches)


def _counted_hbm(launches: Sequence[Launch]) -> int | None:
    moved = [launch.hbm.total_bytes for launch in launches if launch.hbm is not None]
    known = [one for one in moved if one is not None]
    return sum(known) if known and len(known) == len(launches) else None


def _name(result: Result) -> str:
    """Return `liger.py:rms_norm: rows=8192 cols=4096`, with the kernels below.

    The kernels of the point come below that line.
    """
    kernels = dict.fromkeys(launch.kernel for launch in result.launches if launch.origin == "triton")
    target = result.target.rpartition("/")[2]
    target = target.rpartition(":")[2] if target.startswith("ioaware.") else target
    known = {name: value for name, value in result.params.items() if value is not None and value is not False}
    return f"{target}: {params_text(known)}\n{', '.join(kernels)}"
