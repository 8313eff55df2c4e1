"""`ioaware explain TARGET`: the kernels' source, each line with the bytes it moves."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ioaware.cli.isolated import isolated
from ioaware.cli.options import config_option, gpu_option, json_option, output_option, param_option, settings, verb
from ioaware.cli.output import emit

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ioaware.derivation.annotated_source import AnnotatedSource
    from ioaware.derivation.line_report import Explanation, Line


@verb
@click.argument("target", metavar="TARGET")
@param_option
@gpu_option
@config_option
@json_option
@output_option("Write here instead of to stdout.")
@isolated
def explain(target: str, given: dict[str, str], gpu: str, config: dict[str, str], as_json: bool, output: Path | None) -> None:
    """Print the source of TARGET's kernels, each line with its share of the bytes, its formula and its number of runs.

    A line that calls a function counts what the function moves; the function follows with its own lines.
    Example: ioaware explain flash2 -p seq_len=4096
    """
    from ioaware.compilation.triton_ir import find_gpu
    from ioaware.derivation.annotated_source import AnnotatedSource
    from ioaware.derivation.data_dependent import split_unknowns
    from ioaware.derivation.derive import derive as run_derived
    from ioaware.targets.signature import infer_value
    from ioaware.targets.target import load_target

    loaded = load_target(target)
    named, data = split_unknowns(given)
    params = loaded.resolve(named, typed=True)
    chosen = {name: infer_value(text) for name, text in config.items()}
    result = run_derived(loaded, params, gpu=find_gpu(gpu), autotune=chosen, data=data)
    source, verbose = AnnotatedSource.of(result), settings().verbose
    emit(source.to_dict, lambda: _text(source, verbose), as_json=as_json, output=output)


def _text(source: AnnotatedSource, verbose: bool) -> Iterator[RenderableType]:
    from rich.text import Text

    from ioaware.cli.formula_tables import brief, remarks
    from ioaware.cli.render import assignments
    from ioaware.cli.terminal_text import printable

    result, kernels = source.result, source.kernels
    yield Text(printable(f"explain {result.target}  {assignments(result.params)}"))
    printed: set[tuple[str, str]] = set()
    for kernel in kernels:
        for at, section in enumerate(kernel.sections):
            several = len(kernels) > 1 or kernel.launches > 1
            moved = f"  {_moved(kernel, source)}" if at == 0 and several else ""
            yield Text(printable(f"\n{section.function}  {Path(section.path).name}{moved}"))
            if at == 0 and kernel.conditions:
                yield Text(printable(f"for {' and '.join(map(str, kernel.conditions))}"))
            again = (section.path, section.function) in printed
            printed.add((section.path, section.function))
            for line in section.lines:
                if again and not line.accesses and line is not section.lines[0]:
                    continue
                yield Text(printable(f"{source.share_text(line, kernel):>7} {line.number:>5}  {line.text}"), no_wrap=True)
                if line.accesses:
                    times = " and ".join(brief(count.expr, verbose=verbose) for count in line.executions)
                    formula = brief(line.bytes.expr, verbose=verbose)
                    yield Text(printable(f"{_margin(line)}{line.kinds} {formula} bytes; runs {times} times"))
        for access in kernel.unplaced:
            yield Text(printable(f"{access.operation} of {access.tensor}: {brief(access.bytes.expr, verbose=verbose)} bytes"))
    notes = list(remarks(result, verbose=verbose, floor=False))
    yield from [Text(""), *notes] if notes else []


def _moved(kernel: Explanation, source: AnnotatedSource) -> str:
    """Return the bytes of a kernel over all its launches, with its share of the work."""
    from ioaware.derivation.line_report import value
    from ioaware.display.units import bytes_text

    kernels, values = source.kernels, source.result.values
    each = [value(one.bytes, values) for one in kernels]
    own = value(kernel.bytes, values)
    whole = None if None in each else sum((bytes_ or 0) * one.launches for bytes_, one in zip(each, kernels, strict=True))
    parts = ["bytes depend on data" if own is None else bytes_text(own * kernel.launches)]
    if own is not None and whole and len(kernels) > 1:
        parts.append(f"{own * kernel.launches / whole:.1%} of the work's bytes")
    if kernel.launches > 1:
        parts.append(f"{kernel.launches} launches")
    return ", ".join(parts)


def _margin(line: Line) -> str:
    """Return the indent of the line's source and a corner that points up to it."""
    return " " * (15 + len(line.text) - len(line.text.lstrip())) + "\u2514 "


command = explain
