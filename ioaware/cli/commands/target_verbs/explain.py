"""`ioaware explain TARGET`: the kernels' source, each line with its bytes.

They are the bytes that the line moves.
"""

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

LONGEST_LINE = 80
"""Characters of a line's text among the hot lines."""


@verb
@click.argument("target", metavar="TARGET")
@param_option
@gpu_option
@config_option
@json_option
@output_option("Write here instead of to stdout; the page of `report` where the name ends in .html.")
@isolated
def explain(target: str, given: dict[str, str], gpu: str, config: dict[str, str], as_json: bool, output: Path | None) -> None:
    """Print the source of TARGET's kernels, the hot lines first.

    Each line has its share of the bytes and its formula.

    A line that calls a function counts what the function moves; the function follows with its own lines. Overfetch: bytes of
    the 32-byte sectors that a line touches, over the bytes that it uses.
    Example: ioaware explain flash2 -p seq_len=4096
    """
    if output is not None and output.suffix == ".html" and not as_json:
        _write_html(target, given, gpu, config, output)
        return
    from ioaware.compilation.triton_ir import find_gpu
    from ioaware.derivation.annotated_source import AnnotatedSource
    from ioaware.derivation.data_dependent import split_unknowns
    from ioaware.derivation.derive import derive as run_derived
    from ioaware.targets.signature import infer_value
    from ioaware.targets.target import load_target

    chosen_gpu = find_gpu(gpu)
    loaded = load_target(target, chosen_gpu)
    named, data = split_unknowns(given)
    params = loaded.resolve(named, typed=True)
    chosen = {name: infer_value(text) for name, text in config.items()}
    result = run_derived(loaded, params, gpu=chosen_gpu, autotune=chosen, data=data)
    source, verbose = AnnotatedSource.of(result), settings().verbose
    emit(source.to_dict, lambda: _text(source, verbose), as_json=as_json, output=output)


def _write_html(target: str, given: dict[str, str], gpu: str, config: dict[str, str], output: Path) -> None:
    from ioaware.cli.reports.target_report import findings_of
    from ioaware.report.pages.document import write_page
    from ioaware.report.pages.target_page import target_page

    write_page(target_page(findings_of(target, given, gpu=gpu, config=config)), output)


def _text(source: AnnotatedSource, verbose: bool) -> Iterator[RenderableType]:
    from rich.text import Text

    from ioaware.cli.formula_tables import brief, remarks
    from ioaware.cli.render import assignments
    from ioaware.cli.terminal_text import printable
    from ioaware.derivation.line_costs import line_cost

    result, kernels = source.result, source.kernels
    yield Text(printable(f"explain {result.target}  {assignments(result.params)}\n"))
    yield _hot(source)
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
                bar = line_cost(line, kernel, result.values).bar
                yield Text(printable(f"{source.share_text(line, kernel):>7} {bar} {line.number:>5}  {line.text}"), no_wrap=True)
                if line.accesses:
                    times = " and ".join(brief(count.expr, verbose=verbose) for count in line.executions)
                    formula = ("at most " if line.bytes.at_most else "") + brief(line.bytes.expr, verbose=verbose)
                    yield Text(printable(f"{_margin(line)}{line.kinds} {formula} bytes; runs {times} times"))
                if line.beyond:
                    yield Text(printable(f"{_margin(line)}reaches beyond {line.beyond}"))
        for access in kernel.unplaced:
            yield Text(printable(f"{access.operation} of {access.tensor}: {brief(access.bytes.expr, verbose=verbose)} bytes"))
    notes = list(remarks(result, verbose=verbose, floor=False))
    yield from [Text(""), *notes] if notes else []


def _hot(source: AnnotatedSource) -> RenderableType:
    """Return the table of the lines that move the most bytes of the work."""
    from ioaware.cli.render import table
    from ioaware.derivation.annotated_source import MAX_HOT
    from ioaware.display.text import shorten
    from ioaware.display.units import bytes_text, times_text

    rows = [
        (
            f"{Path(section.path).name}:{cost.line.number}",
            shorten(" ".join(cost.line.text.split()), LONGEST_LINE),
            cost.bar,
            "data" if cost.share is None else f"{cost.share:.1%}",
            "data"
            if cost.bytes is None
            else ("<= " if cost.line.bytes.at_most else "") + bytes_text(cost.bytes * kernel.launches),
            "" if cost.overfetch is None else times_text(cost.overfetch),
            "data" if cost.runs is None else f"{cost.runs * kernel.launches:,}",
        )
        for kernel, section, cost in source.hot()[:MAX_HOT]
    ]
    return table(("hot lines", "", "", "share", "bytes", "overfetch", "runs"), rows, left=3)


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
    return " " * (21 + len(line.text) - len(line.text.lstrip())) + "\u2514 "


command = explain
