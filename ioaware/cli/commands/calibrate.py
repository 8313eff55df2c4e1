"""`ioaware calibrate`: measure what the cache model and the roofline need.

The result is a machine file.
"""

from __future__ import annotations

from pathlib import Path

import click

from ioaware.cli.options import json_option, output_option, verb
from ioaware.cli.output import emit


@verb
@click.option(
    "--timeout", type=click.FloatRange(1), default=300.0, show_default=True, help="Seconds that each of two runs may take."
)
@click.option(
    "--probes",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Keep every probe's counters here, also refused ones.",
)
@json_option
@output_option("Write the machine file here instead of to stdout.")
def calibrate(timeout: float, probes: Path | None, as_json: bool, output: Path | None) -> None:
    """Measure this GPU's ceilings and caches with plain kernels.

    A machine file in TOML is written.

    HBM rates of reading, writing, copying and triad, the L2's rate, usable capacity, partitions and dirty lines, the L1's
    capacity, matmul rates. First the counters are tested on kernels with known bytes. Exits with 6 where one is more than
    1 % off, with 5 where this machine has no GPU or no counters. About a minute.
    Example: ioaware calibrate -o h200.toml, then ioaware simulate flash2 --machine h200.toml
    """
    from ioaware.calibration.machine_toml import machine_toml
    from ioaware.calibration.run_probes import calibrate_gpu
    from ioaware.machine import find_machine

    found = calibrate_gpu(timeout_s=timeout, probes_file=probes)
    preset = find_machine(str(found.environment.get("gpu", "")))
    emit(found.to_dict, lambda: [machine_toml(found, preset.name)], as_json=as_json, output=output)


command = calibrate
