"""`ioaware measure TARGET`: hardware counters, time and telemetry of a GPU."""

from __future__ import annotations

from pathlib import Path

import click

from ioaware.cli.exit_codes import of_result
from ioaware.cli.options import json_option, output_option, param_option, settings, verb
from ioaware.cli.output import emit


@verb
@click.argument("target", metavar="TARGET")
@param_option
@click.option("--no-counters", is_flag=True, help="Time and NVML only, where ncu may not read counters.")
@click.option("--shared", is_flag=True, help="Count accesses to shared memory too: counters of each launch, in --json.")
@click.option("--timeout", type=click.FloatRange(1), default=300.0, show_default=True, help="Seconds the work may take.")
@json_option
@output_option("Write here instead of to stdout.")
def measure(
    target: str,
    given: dict[str, str],
    no_counters: bool,
    shared: bool,
    timeout: float,
    as_json: bool,
    output: Path | None,
) -> int:
    """Measure requested and HBM bytes, time and telemetry.

    The bytes are measured with ncu's counters, time with CUDA events, telemetry with NVML.

    The work runs in a separate process. Exits with 1 when the output does not match the target's reference, 3 when the
    point is unstable, failed or impossible, 5 when this machine cannot measure. -v adds telemetry and environment.
    Example: ioaware measure flash2 -p seq_len=4096 -p heads=16
    """
    from ioaware.cli.render import result_text
    from ioaware.derivation.measured_flops import with_derived_flops
    from ioaware.measurement.measure import Options
    from ioaware.measurement.measure import measure as run_measured
    from ioaware.targets.target import load_target

    params = load_target(target).resolve(given, typed=True)
    options = Options(counters="off" if no_counters else "required", shared=shared, timeout_s=timeout)
    result = with_derived_flops(run_measured(target, params, options=options))
    verbose = settings().verbose
    emit(result.to_dict, lambda: result_text(result, verbose=verbose), as_json=as_json, output=output)
    return of_result(result)


command = measure
