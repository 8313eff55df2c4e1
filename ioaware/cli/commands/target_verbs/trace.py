"""`ioaware trace TARGET`: bytes that the kernels access.

They are counted in Triton's interpreter.
"""

from __future__ import annotations

from pathlib import Path

import click

from ioaware.cli.exit_codes import of_result
from ioaware.cli.isolated import isolated
from ioaware.cli.options import config_option, eager_option, json_option, output_option, param_option, settings, verb
from ioaware.cli.output import emit
from ioaware.cli.terminal_text import printable


@verb
@click.argument("target", metavar="TARGET")
@param_option
@config_option
@eager_option
@json_option
@output_option("Write here instead of to stdout.")
@isolated
def trace(target: str, given: dict[str, str], config: dict[str, str], eager: bool, as_json: bool, output: Path | None) -> int:
    """Count the bytes that the kernels of TARGET access.

    They are counted in Triton's interpreter on the CPU.

    Counts every load, store and atomic under its mask, in bytes and in 32-byte sectors. The interpreter is slow: use small
    sizes. After 5 s its progress is on stderr. Exits with 1 when the output does not match the target's reference.
    Example: ioaware trace flash2 -p seq_len=256
    """
    from ioaware.cli.render import result_text
    from ioaware.targets.signature import infer_value
    from ioaware.targets.target import load_target
    from ioaware.tracing.trace import trace as run_traced

    loaded = load_target(target)
    chosen = {name: infer_value(text) for name, text in config.items()}
    verbose, quiet = settings().verbose, settings().quiet

    def report(sentence: str) -> None:
        if not quiet:
            click.echo(printable(f"ioaware: {sentence}"), err=True)

    params = loaded.resolve(given, typed=True)
    result = run_traced(loaded, params, autotune=chosen, report=report, eager=eager, compiles=True)
    emit(result.to_dict, lambda: result_text(result, verbose=verbose), as_json=as_json, output=output)
    return of_result(result)


command = trace
