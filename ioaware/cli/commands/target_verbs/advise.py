"""`ioaware advise TARGET`: find the choice that moves the fewest bytes.

A choice is an order, blocks or a configuration.
"""

from __future__ import annotations

from pathlib import Path

import click

from ioaware.cli.options import json_option, machine_option, machines_gpu_option, output_option, param_option, verb
from ioaware.cli.output import emit, progress


@verb
@click.argument("target", metavar="TARGET")
@param_option
@machine_option("The GPU that is modelled.")
@machines_gpu_option
@click.option("--gpus", type=click.IntRange(2, 1024), metavar="P", help="Rank the methods over P GPUs instead (flash2, gqa).")
@click.option("--for", "seconds", type=click.FloatRange(0), default=300, show_default=True, help="Seconds to try choices in.")
@json_option
@output_option("Write here instead of to stdout.")
def advise(
    target: str,
    given: dict[str, str],
    machine: str,
    gpu: str | None,
    gpus: int | None,
    seconds: float,
    as_json: bool,
    output: Path | None,
) -> None:
    """Rank the choices that TARGET leaves open by predicted bytes and time.

    This happens before any GPU is asked.

    Of a case: the order of K and V's blocks, block sizes, packed or separate query heads. Of another target: each
    configuration of its autotuned kernels, and then values of GROUP_SIZE_M or SWIZZLE that change only the order of programs.
    Each is compiled for the GPU and simulated. What does not fit or spills registers is listed with the reason. Needs no GPU.
    When the time of --for is over, a note says how many choices were not tried. With --gpus: the method of attention over that
    many GPUs that moves the fewest bytes between them.
    Example: ioaware advise flash2 -p seq_len=65536 -p heads=4 -p head_dim=128
    """
    from ioaware.advice.advise import advise as run_advised
    from ioaware.cli.tables.advice_tables import advice_text
    from ioaware.compilation.triton_ir import gpu_or_machines
    from ioaware.machine import find_machine_or_file
    from ioaware.targets.target import load_target

    found = find_machine_or_file(machine)
    if gpus is not None:
        from ioaware.cases import find_case
        from ioaware.cli.tables.gpu_tables import GpuPlans
        from ioaware.params import resolve

        several = GpuPlans(target, resolve(find_case(target).params, given, target, typed=True), gpus, found, verb="advise")
        emit(lambda: {"schema": 1, **several.to_dict()}, several.text, as_json=as_json, output=output)
        return
    compiled_for = gpu_or_machines(gpu, found)
    loaded = load_target(target, compiled_for)
    params = loaded.resolve(given, typed=True)
    result = run_advised(loaded, params, machine=found, gpu=compiled_for, seconds=seconds, on_start=progress)
    emit(result.to_dict, lambda: advice_text(result), as_json=as_json, output=output)


command = advise
