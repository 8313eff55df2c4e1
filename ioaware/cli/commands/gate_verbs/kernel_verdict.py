"""`ioaware verdict TARGET`: whether an untrusted kernel does its work."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ioaware.cli.isolated import isolated
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
from ioaware.params import split_assignments

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ioaware.gate.untrusted.examine import KernelVerdict


def _sizes(context: click.Context, parameter: click.Parameter, value: tuple[str, ...]) -> dict[str, str]:  # noqa: ARG001
    flag = f"--{parameter.name}"
    return split_assignments(value, flag, f"{flag} n=1000")


@verb
@click.argument("target", metavar="TARGET")
@click.option("--reference", metavar="FILE:FUNCTION", help="A trusted function with the same inputs, in plain torch.")
@click.option("--no-reference", is_flag=True, help="The output is checked elsewhere: judge only how it is computed.")
@click.option("--inplace", multiple=True, metavar="NAME", help="An input that TARGET is meant to write; repeatable.")
@click.option("--trial", multiple=True, metavar="NAME=VALUE", callback=_sizes,
              help="A size at which the output is examined, instead of the one of -p; repeatable.")  # fmt: skip
@click.option("--also", multiple=True, metavar="NAME=VALUE", callback=_sizes,
              help="A second size at which the output is examined too; repeatable.")  # fmt: skip
@click.option("--record", type=click.Path(path_type=Path), help="A store or JSONL file with a measured record of TARGET.")
@click.option("--time-us", type=float, metavar="TIME", help="The time of a call that an evaluator measured, in microseconds.")
@machine_option("The GPU of that time or record.")
@param_option
@machines_gpu_option
@config_option
@json_option
@output_option("Write here instead of to stdout.")
@isolated
def verdict(
    target: str,
    reference: str | None,
    no_reference: bool,
    inplace: tuple[str, ...],
    trial: dict[str, str],
    also: dict[str, str],
    record: Path | None,
    time_us: float | None,
    machine: str,
    given: dict[str, str],
    gpu: str | None,
    config: dict[str, str],
    as_json: bool,
    output: Path | None,
) -> int:
    """Judge an untrusted kernel: SOUND, REFUSED, SUSPECT, IMPOSSIBLE or INCOMPLETE.

    Needs no GPU.

    TARGET runs several times in Triton's interpreter, each time with one thing changed: the inputs, the memory's contents, the
    calls before it, launches that write nothing or fail. --also finds what is right at one size only. Exits with 0 only if it
    is SOUND, with 1 if it is REFUSED or SUSPECT, with 3 if the evidence does not decide. TARGET runs in a process of its own,
    which is no sandbox.
    Example: ioaware verdict answer.py:solve -p "x=f32[n=1000]" --reference task.py:reference
    """
    from functools import partial

    from ioaware.errors import UsageError
    from ioaware.gate.untrusted.examine import Untrusted, examine
    from ioaware.gate.untrusted.measured_evidence import measured_evidence
    from ioaware.targets.signature import infer_value
    from ioaware.targets.target import load_target

    if reference and no_reference:
        raise UsageError("a reference is given and refused", "Leave out --reference or --no-reference.")
    chosen = {name: infer_value(text) for name, text in config.items()}
    untrusted = Untrusted.named(target, given, trial, also=also, typed=True, config=chosen, gpu=gpu or machine)
    measured = measured_evidence(machine, untrusted.params, target=untrusted.name, record=record, time_us=time_us)
    found = examine(
        untrusted,
        reference=partial(load_target, reference) if reference else None,
        output_checked_elsewhere=no_reference,
        writable=inplace,
        measured=measured,
    )
    emit(found.to_dict, lambda: _text(found), as_json=as_json, output=output)
    return found.outcome.exit_code


def _text(found: KernelVerdict) -> Iterator[RenderableType]:
    from rich.text import Text

    from ioaware.cli.render import assignments, facts
    from ioaware.cli.terminal_text import printable

    data = found.to_dict()
    yield Text(printable(f"verdict {data['target']}  {assignments(data['params'])}\n"))
    yield facts(_numbers(data))
    yield Text("")
    for one in data["findings"]:
        where = f"{one['where']}: " if one["where"] else ""
        yield Text(printable(f"{one['outcome']} {one['rule']}: {where}{one['what']}"))
    yield Text(printable(f"{data['verdict']}: {_summary(data)}"))


def _numbers(data: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield the known numbers with their units and remarks."""
    from ioaware.display.units import time_text

    numbers = data["numbers"]
    for place in ("compulsory", "requested", "assumed", "hbm"):
        if moved := numbers[place]:
            parts = [f"{moved[name]:,} {text}" for name, text in BYTES.items() if moved.get(name)]
            parts += ["not exact: data decide"] if place == "requested" and not numbers["exact"] else []
            yield place, f"{sum(moved.get(name, 0) for name in BYTES):,} B", ", ".join(parts)
    for name in ("registers", "spilled_bytes"):
        if numbers[name] is not None:
            yield name.replace("_", " "), str(numbers[name]), "a thread, the largest of its kernels"
    for name in ("time_ns", "least_time_ns"):
        if numbers[name] is not None:
            yield name.removesuffix("_ns").replace("_", " "), time_text(numbers[name]), numbers["machine"]
    for name in ("kernels", "library_operators"):
        if found := data[name]:
            yield name.replace("_", " "), str(len(found)), ", ".join(dict.fromkeys(found))


BYTES = {"read_bytes": "read", "write_bytes": "written", "atomic_bytes": "by atomics"}


def _summary(data: dict[str, Any]) -> str:
    findings, rules = len(data["findings"]), len(data["rules"])
    if findings:
        return f"{findings} finding{'s' * (findings != 1)}"
    tried: dict[str, Any] = data["trial_params"]
    also: dict[str, Any] = data["also_params"] or {}
    second = ", ".join(f"{name}={also[name]}" for name in also if also[name] != tried.get(name))
    return f"none of {rules} rules is broken" + (f", also at {second}" if second else "")


command = verdict
