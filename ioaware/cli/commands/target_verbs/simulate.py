"""`ioaware simulate TARGET`: predict HBM bytes with a model of the L2."""

from __future__ import annotations

from pathlib import Path

import click

from ioaware.cli.options import (
    config_option,
    json_option,
    machine_option,
    machines_gpu_option,
    output_option,
    param_option,
    verb,
)
from ioaware.cli.output import emit


@verb
@click.argument("target", metavar="TARGET")
@param_option
@machine_option("The GPU that is modelled.")
@machines_gpu_option
@config_option
@click.option("--cold", is_flag=True, help="Empty the L2 before each launch and leave dirty lines unwritten, as measure does.")
@json_option
@output_option("Write here instead of to stdout.")
def simulate(
    target: str,
    given: dict[str, str],
    machine: str,
    gpu: str | None,
    config: dict[str, str],
    cold: bool,
    as_json: bool,
    output: Path | None,
) -> None:
    """Predict the bytes between HBM and the L2 that TARGET's kernels move.

    They are given by launch and by tensor.

    Replays the launches that derive finds through models of the named GPU's L1s and L2. Programs run in launch order, on as
    many slots as registers and shared memory admit. Prints how often each tensor is read, why it is read again, and the
    range of the sums. A machine file starts from a preset and changes some of its numbers. Needs no GPU.
    Example: ioaware
    simulate flash2 --machine H200 -p seq_len=65536 -p heads=4 -p head_dim=128
    """
    from ioaware.cli.tables.simulation_tables import simulated_text
    from ioaware.compilation.triton_ir import gpu_or_machines
    from ioaware.derivation.data_dependent import split_unknowns
    from ioaware.machine import find_machine_or_file
    from ioaware.simulation.simulate import simulate as run_simulated
    from ioaware.targets.signature import infer_value
    from ioaware.targets.target import load_target

    found = find_machine_or_file(machine)
    compiled_for = gpu_or_machines(gpu, found)
    loaded = load_target(target, compiled_for)
    named, data = split_unknowns(given)
    params = loaded.resolve(named, typed=True)
    chosen = {name: infer_value(text) for name, text in config.items()}
    result = run_simulated(loaded, params, machine=found, gpu=compiled_for, autotune=chosen, data=data, cold=cold)
    emit(result.to_dict, lambda: simulated_text(result), as_json=as_json, output=output)


command = simulate
