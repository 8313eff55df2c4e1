"""`ioaware predict CASE`: the closed form and its numbers.

The ratio to the lower bound is given too.
"""

from __future__ import annotations

from pathlib import Path

import click

from ioaware.cli.options import json_option, machine_option, output_option, param_option, settings, verb
from ioaware.cli.output import emit


@verb
@click.argument("case", metavar="CASE")
@param_option
@machine_option("The GPU whose on-chip memory the lower bound assumes.")
@click.option(
    "--gpus", type=click.IntRange(2, 1024), metavar="P", help="Add what each of P GPUs moves, by method (flash2, gqa)."
)
@json_option
@output_option("Write here instead of to stdout.")
def predict(case: str, given: dict[str, str], machine: str, gpus: int | None, as_json: bool, output: Path | None) -> None:
    """Predict the bytes that CASE requests, by the closed form of its algorithm.

    Prints the formula and its value, the compulsory bytes, the lower bound, FLOPs and extra memory; -v adds the formula of
    every launch.
    --gpus adds a table of the methods of attention over several GPUs.
    Example: ioaware predict flash2 -p seq_len=4096 -p causal=true
    """
    from ioaware.cases import find_case
    from ioaware.cli.render import result_text
    from ioaware.machine import find_machine_or_file
    from ioaware.params import resolve
    from ioaware.prediction import predict as closed_form

    params = resolve(find_case(case).params, given, case, typed=True)
    gpu = find_machine_or_file(machine)
    result = closed_form(case, machine=gpu, **params)
    verbose = settings().verbose
    if gpus is None:
        emit(result.to_dict, lambda: result_text(result, verbose=verbose), as_json=as_json, output=output)
        return
    from ioaware.cli.tables.gpu_tables import GpuPlans

    several = GpuPlans(case, params, gpus, gpu)
    emit(
        lambda: {**result.to_dict(), "over_gpus": several.to_dict()},
        lambda: (*result_text(result, verbose=verbose), *several.text()),
        as_json=as_json,
        output=output,
    )


command = predict
