"""`ioaware check TARGET`: budgets on the bytes of a target, for scripts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ioaware.cli.isolated import isolated
from ioaware.cli.options import config_option, gpu_option, json_option, output_option, param_option, summary_option, verb
from ioaware.cli.output import emit

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ioaware.derivation.derived import Derived
    from ioaware.gate.budgets import Judgement
    from ioaware.gate.verdict import Verdict


@verb
@click.argument("target", metavar="TARGET")
@click.option("--max-bytes", metavar="FORMULA", help="Reads, writes and atomics together.")
@click.option("--max-reads", metavar="FORMULA", help="Bytes read.")
@click.option("--max-writes", metavar="FORMULA", help="Bytes written.")
@click.option("--max-torch-bytes", metavar="FORMULA", help="Bytes that torch's own operators move.")
@click.option("--vs-compulsory", type=float, metavar="RATIO", help="Bytes over the compulsory ones, at the given sizes.")
@click.option("--max-spills", type=int, metavar="BYTES", help="Local memory of a thread.")
@click.option("--min-tma-loads", type=int, metavar="COUNT", help="Instructions that load tiles by TMA.")
@param_option
@gpu_option
@config_option
@summary_option
@json_option
@output_option("Write here instead of to stdout.")
@isolated
def check(
    target: str,
    given: dict[str, str],
    gpu: str,
    config: dict[str, str],
    summary: Path | None,
    as_json: bool,
    output: Path | None,
    **limits: Any,
) -> int:
    """Hold TARGET against budgets.

    Needs no GPU. Exits with 1 where one is exceeded, with 3 where that cannot be decided.

    An autotuned kernel is held to them with every configuration, or with those that --config names.

    A FORMULA is arithmetic over TARGET's sizes and holds from the given sizes on; a number holds at the given sizes.
    Example: ioaware check add.py:add --max-bytes "12*n" --vs-compulsory 1.05
    """
    from ioaware.cli.render import assignments
    from ioaware.compilation.triton_ir import find_gpu
    from ioaware.derivation.data_dependent import split_unknowns
    from ioaware.derivation.derive import derive
    from ioaware.errors import UsageError
    from ioaware.gate.budgets import check_budgets
    from ioaware.gate.ci.comparison_tables import summarise_budgets
    from ioaware.gate.tuning.configurations import judge_all
    from ioaware.gate.verdict import worst
    from ioaware.targets.signature import infer_value
    from ioaware.targets.target import load_target

    budgets = {name: limit for name, limit in limits.items() if limit is not None}
    if not budgets:
        raise UsageError(
            "check has no budget to hold the target against", 'For example --max-bytes "12*n" --vs-compulsory 1.05.'
        )
    check_budgets(budgets)
    chosen_gpu = find_gpu(gpu)
    loaded = load_target(target, chosen_gpu)
    named, data = split_unknowns(given)
    params = loaded.resolve(named, typed=True)
    chosen = {name: infer_value(text) for name, text in config.items()}
    deriving = partial(derive, loaded, params, gpu=chosen_gpu, data=data, machine_code="max_spills" in budgets)
    derived = deriving(autotune=chosen)
    judgements = judge_all(derived, lambda values: deriving(autotune={**chosen, **values}), budgets, chosen)
    verdict = worst(judgement.verdict for judgement in judgements)
    emit(
        lambda: _document(derived, judgements, verdict),
        lambda: _text(derived, judgements),
        as_json=as_json,
        output=output,
    )
    summarise_budgets(derived.target, assignments(derived.params), judgements, summary)
    return verdict.exit_code


def _document(derived: Derived, judgements: Sequence[Judgement], verdict: Verdict) -> dict[str, Any]:
    return {
        "schema": 1,
        "target": derived.target,
        "params": dict(derived.params),
        "verdict": str(verdict),
        "budgets": [{"budget": one.budget, "verdict": str(one.verdict), "reason": one.reason} for one in judgements],
    }


def _text(derived: Derived, judgements: Sequence[Judgement]) -> Iterator[RenderableType]:
    from rich.text import Text

    from ioaware.cli.render import assignments, facts
    from ioaware.cli.terminal_text import printable
    from ioaware.gate.verdict import Verdict

    yield Text(printable(f"check {derived.target}  {assignments(derived.params)}\n"))
    words = {Verdict.SAME: "ok"}
    yield facts([(one.budget, words.get(one.verdict, str(one.verdict)), one.reason) for one in judgements])


command = check
