"""Collect the data of attention's report.

They are fresh predictions, traces and derivations, and live or recorded measurements.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from ioaware.cli.progress import Step
from ioaware.result import ParamValue, Result, Source
from ioaware.result_file import write_jsonl
from ioaware.sweep.runner import Outcome, run_study
from ioaware.sweep.store import Store
from ioaware.sweep.study import Study, find_study

if TYPE_CHECKING:
    from ioaware.analysis.theory.claims.claim import Claim
    from ioaware.report.attention.attention_page import Contents
    from ioaware.report.figures.roofline import Roofs
    from ioaware.report.fragment import Fragment
    from ioaware.result import Status
    from ioaware.sweep.points import Point

THEORY = "forward"
WALKED = "ioaware.cli.reports.report_data:walks_as_json"
WALKS = ("flash2", "flash1", "standard", "split_kv")
TOY: dict[str, ParamValue] = {"seq_len": 6, "head_dim": 2, "block_m": 2, "block_n": 2}
"""Sizes of the walks, those of the notes' toy example."""
MEASURED = "live"
FLASH_4 = "optional/h200-flash-attn-4.jsonl"
DTYPE = "float16"
"""Dtype of the measured studies, for the peak in the roofline."""


@dataclass(frozen=True, slots=True)
class Measurements:
    """Measured results; `live`: this run took them, `missing`: why not."""

    results: list[Result]
    live: bool
    missing: tuple[str, ...] = ()


def gathered(out_dir: Path) -> tuple[Contents, Callable[[], list[Claim]]]:
    """Return what the report shows, and the function that judges its claims.

    Each source is behind a progress bar. No figure shows a claim, so figures are drawn beside the judging.
    """
    from ioaware.cli.output import progress
    from ioaware.cli.progress import progress_bar
    from ioaware.environment import software_environment
    from ioaware.sweep.claim_evidence import (
        recorded_fusion,
        recorded_headline,
        recorded_race,
        recorded_systems,
        recorded_training,
    )
    from ioaware.sweep.verify import runs, verify

    progress("tracing and deriving: the study, every system, the theorems")
    traced, systems = theory_points(), system_points()
    walked: list[Fragment] = []
    with running([*systems, *traced, *runs()], {WALKED: lambda text: walked.extend(_fragments(text))}) as collect:
        from ioaware.report.assemble import complete
        from ioaware.report.attention.attention_page import Contents
        from ioaware.report.attention.recorded_bytes import shipped

        records = shipped()
        with progress_bar() as step:
            found = collect(step)
    progress("measuring, or reading recorded measurements")
    with progress_bar() as step:
        measured = measurements(out_dir, step)
    progress("predicting every curve")
    with progress_bar() as step:
        results = complete([*(found[point.key] for point in traced), *measured.results], step)
    contents = Contents(
        results, [], records, recorded_race(), recorded_race(FLASH_4), recorded_headline(), recorded_training(),
        recorded_fusion(), walked, system_checks(systems, found), roofs(measured.results),
        live=measured.live, missing=measured.missing, environment=software_environment(),
    )  # fmt: skip

    def judge() -> list[Claim]:
        progress("judging the theorems")
        return verify(measurements=[*measured.results, *recorded_systems()], known=found)

    return contents, judge


@contextmanager
def running(
    points: Sequence[Point], calls: Mapping[str, Callable[[str | None], None]] = MappingProxyType({})
) -> Generator[Callable[[Step], dict[str, Result]]]:
    """Start the points and `calls`, and give the function that returns results by key.

    They are those of this very code: kept ones of another code or another library are not found.
    """
    from ioaware.result_file import decode
    from ioaware.sweep import kept_runs
    from ioaware.sweep.batches import started

    distinct = {point.key: point for point in points}
    kept = [answer for point in distinct.values() if (answer := kept_runs.find(point)) is not None]
    known = {answer.point.key for answer in kept}
    with started([point for key, point in distinct.items() if key not in known], calls=calls) as answers:

        def collect(step: Step) -> dict[str, Result]:
            found: dict[str, Result] = {}
            for answer in chain(kept, answers):
                if answer.point.key not in known:
                    kept_runs.keep(answer)
                found[answer.point.key] = decode(answer.record, answer.point.label)
                step(len(found), len(distinct), answer.point.label)
            return found

        yield collect


def system_points() -> list[Point]:
    """Return the derivation and the trace of every case at small sizes."""
    from ioaware.cases import CASES
    from ioaware.report.attention.system_rows import small_params
    from ioaware.sweep.points import make_point

    sources: tuple[Source, ...] = ("derive", "trace")
    return [make_point(source, case.name, dict(small_params(case))) for case in CASES.values() for source in sources]


def system_checks(points: Sequence[Point], found: Mapping[str, Result]) -> dict[str, dict[str, Result]]:
    """Return the results of the systems by case and source."""
    checks: dict[str, dict[str, Result]] = {}
    for point in points:
        checks.setdefault(point.target, {})[point.source] = found[point.key]
    return checks


def theory_points() -> list[Point]:
    """Return the traces of the study.

    The predictions beside them are added with those of the curves.
    """
    return [point for point in find_study(THEORY).points if point.source == "trace"]


def walks() -> list[Fragment]:
    """Return the walks of the algorithms at toy sizes, as pictures."""
    from ioaware.report.walk_figure import walk_fragment
    from ioaware.targets.target import load_target
    from ioaware.walkthrough.walk import walk

    found: list[Fragment] = []
    for name in WALKS:
        target = load_target(name)
        extra = {"splits": 2} if name == "split_kv" else {}
        walked = walk(target, target.resolve(TOY | extra), source="seed" if name != "split_kv" else None, keep_values=True)
        found.append(walk_fragment(walked, identifier=f"walk-{name}"))
    return found


def walks_as_json() -> str:
    """Return the walks as JSON. Why: the process that makes them has loaded torch."""
    return json.dumps([asdict(one) for one in walks()])


def _fragments(text: str | None) -> list[Fragment]:
    """Return walks made in another process, or make them here where it failed."""
    from ioaware.report.fragment import Fragment

    return walks() if text is None else [Fragment(**one) for one in json.loads(text)]


def measurements(out_dir: Path, step: Step) -> Measurements:
    """Measure on this machine's GPU, or return the recorded measurements.

    Points go to `measured.db` while measuring, so that an interrupted report continues. At the end the records are in
    `measured.jsonl`, and the next report measures again.
    """
    from ioaware.sweep.claim_evidence import recorded_measurements
    from ioaware.sweep.gpu_name import gpu_name

    if gpu_name() == "no GPU":
        return Measurements(recorded_measurements(), live=False, missing=("no GPU here",))
    path = out_dir / "measured.db"
    with Store(path) as store:
        outcome = _run(find_study(MEASURED), store, step)
        if outcome.unavailable:
            return Measurements(recorded_measurements(), live=False, missing=tuple(outcome.unavailable.values()))
        results = store.results()
    write_jsonl(out_dir / "measured.jsonl", results)
    path.unlink()
    return Measurements(results, live=True)


def _run(study: Study, store: Store, step: Step) -> Outcome:
    def done(count: int, total: int, point: Point, status: Status) -> None:
        step(count, total, point.label if status == "ok" else f"{point.label}: {status}")

    return run_study(study, store, progress=done)


def roofs(measured: Sequence[Result]) -> Roofs | None:
    """Return the roofs of the GPU of all these results.

    None for several GPUs, or one without a preset.
    """
    from ioaware.machine import PRESETS
    from ioaware.report.figures.roofline import Roofs

    devices = {str((result.environment or {}).get("gpu")) for result in measured}
    for machine in PRESETS.values():
        if devices == {machine.device}:
            peak, hbm = machine.peak(DTYPE), machine.level("hbm")
            source = f"HBM: {hbm.bandwidth_source}; peak: {peak.source}"
            return Roofs(machine.name, machine.bandwidth_bytes_per_s("hbm"), peak.flops_per_s, source)
    return None
