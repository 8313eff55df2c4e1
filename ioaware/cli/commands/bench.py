"""`ioaware bench`: speed of attention, also in training and over several GPUs.

Every back end runs in one interleaved run; in training, beside eager attention and SDPA. `nvlink` measures the links.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from ioaware.cli import exit_codes
from ioaware.cli.options import json_option, output_option, settings, verb
from ioaware.cli.output import emit, progress
from ioaware.errors import UsageError

if TYPE_CHECKING:
    from ioaware.bench.attention_points import Point
    from ioaware.bench.backend import BackEnd
    from ioaware.bench.race_record import Record
    from ioaware.bench.run import Session


MULTI_GPU = ("context-parallel", "nvlink")
SUBJECTS = ("attention", "training", *MULTI_GPU)


@verb
@click.argument("subject", metavar="SUBJECT", type=click.Choice(SUBJECTS))
@click.option(
    "--pass", "passes", multiple=True, metavar="PASS", help="forward, backward or decode; repeatable.  [default: all]"
)
@click.option("--head-dim", "head_dims", multiple=True, type=int, help="Repeatable.  [default: 64, 128, 256]")
@click.option(
    "--seq-len",
    "seq_lens",
    multiple=True,
    type=int,
    help="Of forward and backward, and of training.  [default: 512 to 16384; of training 1024 to 4096]",
)
@click.option("--kv-len", "kv_lens", multiple=True, type=int, help="Of decode; repeatable.  [default: 8192 to 131072]")
@click.option("--causal/--no-causal", default=None, help="With the mask or without it.  [default: both]")
@click.option("--dtype", default="bfloat16", show_default=True, help="bfloat16 or float16.")
@click.option("--backends", metavar="NAME,...", default="", help="Only these.  [default: all]")
@click.option("--gpus", type=click.IntRange(2), help="Of context-parallel and nvlink.  [default: all]")
@click.option("--heads", type=click.IntRange(1), help="Of context-parallel.  [default: 32]")
@click.option("--kv-heads", type=click.IntRange(1), help="Of context-parallel.  [default: --heads]")
@click.option("--count/--no-count", default=True, help="Count bytes over NVLink, in context-parallel.  [default: count]")
@click.option(
    "--tutorial",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Triton's 06-fused-attention.py, to run too: tutorial-file.",
)
@click.option("--model", "models", multiple=True, help="GPT-2 to train: small or medium; repeatable.  [default: both]")
@click.option("--loss-steps", type=click.IntRange(0, 10_000), default=60, show_default=True, help="Steps of the loss curves.")
@click.option(
    "--rounds",
    type=click.IntRange(0, 1000),
    default=7,
    show_default=True,
    help="Times each back end runs at a point; 0 only counts bytes.",
)
@click.option("--seconds", type=click.FloatRange(1), help="Begin no point later than this; the same command continues with -o.")
@json_option
@output_option(
    "Append each point's record to this file of JSON lines; points that are in it are not run again.", metavar="FILE"
)
def bench(
    subject: str,
    passes: tuple[str, ...],
    head_dims: tuple[int, ...],
    seq_lens: tuple[int, ...],
    kv_lens: tuple[int, ...],
    causal: bool | None,
    dtype: str,
    backends: str,
    gpus: int | None,
    heads: int | None,
    kv_heads: int | None,
    count: bool,
    tutorial: Path | None,
    models: tuple[str, ...],
    loss_steps: int,
    rounds: int,
    seconds: float | None,
    as_json: bool,
    output: Path | None,
) -> int:
    """Measure the speed of attention by ioaware and by every other back end.

    Attention is softmax(scale Q K^T) V. With training, measure steps of Hugging Face's GPT-2 by eager attention, SDPA and
    ioaware, and their losses.

    Back ends: PyTorch's, Triton's tutorial and others. Each runs once per round, in changing order, captured in a CUDA
    graph where possible. A matmul and a copy in each round measure the ceilings. Outputs are checked against float64 first.
    Exits with 1 when an output of ioaware is wrong, 3 when ioaware did not run at a point, 5 without a GPU.
    Example: ioaware bench attention --pass forward --head-dim 128 -o speed.jsonl

    context-parallel: attention over several GPUs by each method, beside one GPU and torch's context parallel, with the bytes
    that NVML counts on NVLink beside the closed forms. nvlink: plain copies and NCCL's protocols. Both need two GPUs of one
    host. Example: ioaware bench context-parallel --gpus 2 --causal --seq-len 131072 -o several.jsonl
    """
    _refuse_options_of_others(subject)
    if not rounds and subject not in MULTI_GPU:
        raise UsageError(f"bench {subject} needs --rounds of at least 1", "0 rounds only count bytes, in context-parallel.")
    if subject == "training":
        from ioaware.cli.training_bench import bench_training

        return bench_training(models, seq_lens, rounds, loss_steps, seconds, as_json=as_json, output=output)
    if subject in MULTI_GPU:
        from ioaware.cli.exchange_bench import Choices, bench_exchanges

        names = tuple(name.strip() for name in backends.split(",") if name.strip())
        chosen_sizes = (passes, seq_lens, head_dims, heads, kv_heads, bool(causal), dtype)
        return bench_exchanges(subject, gpus, Choices(*chosen_sizes, names, rounds, count), as_json=as_json, output=output)
    from ioaware.bench.attention_points import grid
    from ioaware.bench.registry import chosen

    points = grid(passes, head_dims, seq_lens, kv_lens, causal, dtype)
    ends = chosen(tuple(name.strip() for name in backends.split(",") if name.strip()), tutorial)
    records, interrupted = _race(points, ends, tutorial, rounds, seconds, output)
    if records:
        from ioaware.cli.race_tables import scores_text

        verbose = settings().verbose
        emit(lambda: data(records), lambda: scores_text(records, verbose=verbose), as_json=as_json)
    return exit_codes.INTERRUPTED if interrupted else exit_code(records)


def _refuse_options_of_others(subject: str) -> None:
    """Raise `UsageError` for an option that belongs to other subjects."""
    context = click.get_current_context()
    for param in context.command.params:
        owners = _ONLY_OF.get(param.name or "", SUBJECTS)
        if subject not in owners and context.get_parameter_source(param.name or "") is ParameterSource.COMMANDLINE:
            raise UsageError(
                f"bench {subject} has no {param.opts[-1]}: it belongs to bench {' and '.join(owners)}",
                "See ioaware bench --help.",
            )


_ATTENTION = ("attention", "context-parallel")
_ONLY_OF = {
    **dict.fromkeys(("kv_lens", "tutorial"), ("attention",)),
    **dict.fromkeys(("passes", "head_dims", "causal", "dtype", "backends"), _ATTENTION),
    **dict.fromkeys(("models", "loss_steps"), ("training",)),
    **dict.fromkeys(("heads", "kv_heads", "count"), ("context-parallel",)),
    "gpus": MULTI_GPU,
    "seconds": ("attention", "training"),
    "seq_lens": ("attention", "training", "context-parallel"),
}


def _race(
    points: Sequence[Point],
    ends: Sequence[BackEnd],
    tutorial: Path | None,
    rounds: int,
    seconds: float | None,
    output: Path | None,
) -> tuple[list[Record], bool]:
    """Return the records of these points, and whether Ctrl-C ended the run.

    Those in `output` are included.
    """
    from ioaware.bench.bench_records import append_record
    from ioaware.bench.estimate import estimate
    from ioaware.bench.gpu_setup import here, open_session
    from ioaware.bench.precompile import precompile
    from ioaware.bench.race_record import resume
    from ioaware.bench.run import run
    from ioaware.cli.progress import progress_bar
    from ioaware.measurement.gpu_lock import gpu_lease
    from ioaware.measurement.nvml import load_nvml, open_gpu

    began = time.monotonic()
    gpu = open_gpu(load_nvml())
    environment = here(gpu)
    before = resume(output, environment) if output else []
    known = {record.point for record in before}
    left = [point for point in points if point not in known]
    records = [record for record in before if record.point in set(points)]
    progress(estimate(left, ends, rounds))

    def enough() -> bool:
        return seconds is not None and time.monotonic() - began > seconds

    try:
        with gpu_lease(gpu.limits.uuid, timeout_s=60):
            with progress_bar() as step:
                exclusions = precompile(left, ends, tutorial, progress=step)
            session: Session = open_session(gpu, environment)
            with progress_bar() as step:

                def done(record: Record) -> None:
                    if output:
                        append_record(output, record)
                    records.append(record)
                    step(len(records), len(points), record.point.label)

                over = run(left, ends, session, rounds=rounds, exclusions=exclusions, enough=enough, done=done)
    except KeyboardInterrupt:
        progress(f"interrupted after {len(records)} of {len(points)} points" + _go_on(output))
        return records, True
    if over:
        progress(f"{seconds:g} s are over: {len(over)} of {len(points)} points left" + _go_on(output))
    return records, False


def _go_on(output: Path | None) -> str:
    return f"; the same command continues in {output}" if output else "; with -o FILE the same command could continue"


def data(records: Sequence[Record]) -> dict[str, Any]:
    """Return what `--json` prints."""
    from ioaware.bench.goals import best_other, goals, own_entry, ratio, share

    def point(record: Record) -> dict[str, Any]:
        ours, other, ahead = own_entry(record), best_other(record), ratio(record)
        summary: dict[str, Any] = {"best_other": other and other.name, "ratio": ahead and asdict(ahead)}
        return record.to_dict() | summary | {"share_of_ceiling": ours and share(record, ours)}

    judged = [{**asdict(goal), "met": goal.met} for goal in goals(records)]
    return {"schema": 1, "bench": "attention", "points": [point(record) for record in records], "goals": judged}


def exit_code(records: Sequence[Record]) -> int:
    """Return the exit code by the results of ioaware's own back ends."""
    from ioaware.bench.registry import OWN, PLAIN

    statuses = {entry.status for record in records for entry in record.entries if entry.name in (OWN, PLAIN)}
    if "wrong" in statuses:
        return exit_codes.FAILS
    return exit_codes.INCONCLUSIVE if "failed" in statuses else exit_codes.OK


command = bench
