"""The report on attention: its data as the values of one page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from ioaware.display.text import clean
from ioaware.display.units import significant, times_text
from ioaware.report.attention import fused_rows, headline_rows, library_rows, race_answers, race_rows, system_rows, text_rows
from ioaware.report.attention.agreement_figure import agreement_figure
from ioaware.report.attention.recorded_bytes import Records, compared, simulated_bytes, unpredicted
from ioaware.report.attention.three_numbers import agreement, three_numbers
from ioaware.report.attention.verdict_rows import verdict_rows
from ioaware.report.chart import Figure, drawable
from ioaware.report.comparable_points import Points
from ioaware.report.figures.blocks import blocks
from ioaware.report.figures.link_roofline import link_roofline
from ioaware.report.figures.many_gpus import many_gpus
from ioaware.report.figures.memory import memory
from ioaware.report.figures.roofline import Roofs, roofline
from ioaware.report.figures.speed import speeds
from ioaware.report.figures.traffic import traffic
from ioaware.report.figures.what_binds import units
from ioaware.report.fragment import Fragment
from ioaware.report.kernel_points import pairs
from ioaware.report.pages.document import Document
from ioaware.report.pages.figure_set import Shown
from ioaware.report.table_cells import cell, columns, telling
from ioaware.result import Result
from ioaware.simulation.accuracy import point_key

if TYPE_CHECKING:
    from ioaware.analysis.theory.claims.claim import Claim
    from ioaware.bench.race_record import Record
    from ioaware.bench.training.training_record import TrainingRecord

TITLE = "The memory traffic of attention"
COMMANDS: Mapping[str, str] = {
    "agreement": "ioaware accuracy",
    "traffic": "ioaware report --study h200-length",
    "traffic_causal": "ioaware report --study h200-length",
    "blocks": "ioaware report --study h200-blocks",
    "memory": "ioaware report --study h200-length",
    "roofline": "ioaware report --study h200-length",
    "units": "ioaware report --study h200-hopper",
    "many_gpus": "ioaware report",
    "link_roofline": "ioaware report",
}
"""The command that reproduces a figure.

Those on speed are `ioaware bench attention`.
"""
MAX_PROBLEMS = 60
PRINTED_CONTEXT = 1024
"""Of GPT-2's training in the paper's table; longer contexts are folded."""


@dataclass(frozen=True, slots=True)
class Contents:
    """What the report shows.

    `headline`, `training` and `fused` are records: of the paper's shape, of GPT-2's training, of kernels that `fuse` writes.
    `live`: this run measured `results`; `missing`: sentences on what it could not do.
    """

    results: Sequence[Result]
    claims: Sequence[Claim]
    records: Records
    race: Sequence[Record] = ()
    flash_4: Sequence[Record] = ()
    headline: Sequence[Result] = ()
    training: Sequence[TrainingRecord] = ()
    fused: Sequence[Result] = ()
    walks: Sequence[Fragment] = ()
    checks: Mapping[str, Mapping[str, Result]] = field(default_factory=dict[str, Mapping[str, Result]])
    roofs: Roofs | None = None
    live: bool = False
    missing: Sequence[str] = ()
    environment: Mapping[str, Any] = field(default_factory=dict[str, Any])


def attention_page(contents: Contents, now: datetime, figures: Sequence[Shown] | None = None) -> Document:
    """Return the page.

    `figures` are those of `attention_figures`, where the caller has them.
    """
    points = Points(contents.results)
    figures = attention_figures(contents, points) if figures is None else figures
    systems = system_rows.system_sections(
        contents.checks, [*contents.records.systems, *contents.records.own], contents.records.predictions
    )
    measured = [one for one in contents.results if one.source == "measure"]
    seen = [*measured, *contents.records.systems, *contents.records.third_party]
    longer = [one for one in contents.training if one.point.kind == "speed" and one.point.seq_len > PRINTED_CONTEXT]
    longer_columns, longer_rows = (
        telling(headline_rows.TRAINING_COLUMNS, headline_rows.training_rows(longer)) if longer else ([], [])
    )
    values: dict[str, Any] = {
        "numbers": list(three_numbers(agreement(contents.records))) if contents.records.own else [],
        "saving": saving(points),
        "names": {shown.figure.name for shown in figures},
        "walks": [walk.html for walk in contents.walks],
        "claims": verdict_rows(contents.claims),
        "race_columns": race_rows.COLUMNS,
        "race": race_rows.race_rows(contents.race),
        "answers": list(race_answers.answers(contents.race, contents.flash_4)),
        "library_columns": library_rows.COLUMNS,
        "libraries": library_rows.library_rows(contents.records),
        "together_columns": library_rows.TOGETHER_COLUMNS,
        "accuracy_columns": library_rows.ACCURACY_COLUMNS,
        "accuracy": library_rows.accuracy_table(contents.records, together=True),
        "accuracy_by_kernel": library_rows.accuracy_table(contents.records, together=False),
        "causes": library_rows.causes(contents.records),
        "headline_columns": headline_rows.COLUMNS,
        "headlines": headline_rows.headline_rows(contents.headline),
        "training_columns": headline_rows.TRAINING_COLUMNS,
        "longer_columns": longer_columns,
        "training": headline_rows.training_rows([one for one in contents.training if one.point.seq_len <= PRINTED_CONTEXT]),
        "training_longer": longer_rows,
        "training_losses": headline_rows.loss_sentences(contents.training),
        "fused_columns": fused_rows.COLUMNS,
        "fused": fused_rows.fused_rows(contents.fused),
        "flop_heads": significant(headline_rows.heads_of_flops(), 2),
        "matrices_once": significant(headline_rows.each_matrix_once_gbytes(), 3),
        "systems": systems,
        "systems_text": system_rows.measured_text(systems),
        "problem_columns": columns(words=("target", "source", "status", "parameters", "why")),
        "problems": [
            [cell(one.target), cell(one.source), cell(one.status), cell(one.params), cell(one.why)]
            for one in text_rows.problems(contents.results, points)[:MAX_PROBLEMS]
        ],
        "outputs": text_rows.accuracy(points),
        "live": contents.live,
        "provenance": _provenance(contents),
        "missing": [clean(text) for text in contents.missing],
        "environments": text_rows.environment_rows(one.environment for one in (*seen, *contents.race)),
        "telemetry": text_rows.telemetry(measured),
        "here": text_rows.environment_rows([contents.environment]),
        "made": f"Written {now:%Y-%m-%d %H:%M} UTC by",
    }
    css = "\n".join(dict.fromkeys(walk.css for walk in contents.walks))
    script = "\n".join(dict.fromkeys(walk.script for walk in contents.walks))
    return Document("attention.html", TITLE, values, figures, css, script)


def saving(points: Points) -> str:
    """Return the ratio of standard attention's bytes to FlashAttention-2's.

    The bytes are measured, at the largest N.
    """
    best: tuple[int, float, str] | None = None
    for part in points.slices:
        if not part.causal:
            seen = {config.algorithm: {one.seq_len: one for one in points.along(config, "measure")} for config in part.configs}
            both = sorted(seen.get("standard", {}).keys() & seen.get("flash2", {}).keys())
            if both:
                theirs, ours = seen["standard"][both[-1]].hbm_bytes, seen["flash2"][both[-1]].hbm_bytes
                if theirs and ours and (best is None or theirs / ours > best[1]):
                    best = (both[-1], theirs / ours, part.title)
    if best is None:
        return ""
    length, ratio, part = best
    theirs = f"At N = {length:,} ({part}) standard attention moves {times_text(ratio)} the bytes of FlashAttention-2"
    return f"{theirs} through HBM, measured."


def attention_figures(contents: Contents, points: Points) -> list[Shown]:
    """Return every figure that the data supports, in reading order.

    Each has its command.
    """
    simulated = {
        point_key(one.target, one.params): moved
        for one in contents.records.predictions
        if (moved := simulated_bytes(one)) is not None
    }
    found: list[Figure | None] = [
        _agreement(contents.records) if contents.records.own else None,
        traffic(points, simulated, causal=False),
        traffic(points, simulated, causal=True),
        blocks(points, simulated),
        memory(points),
        many_gpus() if contents.results else None,
        link_roofline() if contents.results else None,
        roofline(points, contents.roofs),
        units(pairs(contents.records.own)),
        *speeds(contents.race),
    ]
    drawn = [shown for figure in found if figure is not None and (shown := drawable(figure)) is not None]
    return [Shown(figure, COMMANDS.get(figure.name, "ioaware bench attention")) for figure in drawn]


def _agreement(records: Records) -> Figure:
    points = compared(records)
    return agreement_figure(points, unpredicted(records, points))


def _provenance(contents: Contents) -> str:
    counts = {source: sum(one.source == source for one in contents.results) for source in ("predict", "trace", "measure")}
    computed = f"{counts['predict']:,} predictions and {counts['trace']:,} traces were computed by this code"
    if not counts["measure"]:
        return f"No measurement: {computed}, without a GPU."
    said, points = f"{computed[0].upper()}{computed[1:]}", f"{counts['measure']:,}"
    if contents.live:
        return f"{said}, and {points} points were measured in this run."
    return f"{said}. The {points} measured points of its figures were recorded earlier."
