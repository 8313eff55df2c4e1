"""`ioaware explain TARGET`: the kernels' source, each line with the bytes it moves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ioaware.cli.options import config_option, gpu_option, json_option, output_option, param_option, settings, verb
from ioaware.cli.output import emit
from ioaware.result import SCHEMA

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ioaware.derivation.derive import Derived
    from ioaware.derivation.line_report import Explanation, Line


@verb
@click.argument("target", metavar="TARGET")
@param_option
@gpu_option
@config_option
@json_option
@output_option("Write here instead of to stdout.")
def explain(target: str, given: dict[str, str], gpu: str, config: dict[str, str], as_json: bool, output: Path | None) -> None:
    """Print the source of TARGET's kernels, each line with its share of the bytes, its formula and its number of runs.

    A line that calls a function counts what the function moves; the function follows with its own lines.
    Example: ioaware explain flash2 -p seq_len=4096
    """
    from ioaware.compilation.triton_ir import find_gpu
    from ioaware.derivation.data_dependent import split_unknowns
    from ioaware.derivation.derive import derive as run_derived
    from ioaware.derivation.line_report import explain as explained
    from ioaware.targets.signature import infer_value
    from ioaware.targets.target import load_target

    loaded = load_target(target)
    named, data = split_unknowns(given)
    params = loaded.resolve(named, typed=True)
    chosen = {name: infer_value(text) for name, text in config.items()}
    result = run_derived(loaded, params, gpu=find_gpu(gpu), autotune=chosen, data=data)
    kernels, verbose = explained(result), settings().verbose
    emit(lambda: _data(result, kernels), lambda: _text(result, kernels, verbose), as_json=as_json, output=output)


def _text(result: Derived, kernels: list[Explanation], verbose: bool) -> Iterator[RenderableType]:
    from rich.text import Text

    from ioaware.cli.formula_tables import brief, remarks
    from ioaware.cli.render import assignments
    from ioaware.cli.terminal_text import printable

    yield Text(printable(f"explain {result.target}  {assignments(result.params)}"))
    printed: set[tuple[str, str]] = set()
    for kernel in kernels:
        for at, section in enumerate(kernel.sections):
            several = len(kernels) > 1 or kernel.launches > 1
            moved = f"  {_moved(kernel, kernels, result)}" if at == 0 and several else ""
            yield Text(printable(f"\n{section.function}  {Path(section.path).name}{moved}"))
            if at == 0 and kernel.conditions:
                yield Text(printable(f"for {' and '.join(map(str, kernel.conditions))}"))
            again = (section.path, section.function) in printed
            printed.add((section.path, section.function))
            for line in section.lines:
                if again and not line.accesses and line is not section.lines[0]:
                    continue
                yield Text(printable(f"{_share(line, kernel, result):>7} {line.number:>5}  {line.text}"), no_wrap=True)
                if line.accesses:
                    times = " and ".join(brief(count.expr, verbose=verbose) for count in line.executions)
                    formula = brief(line.bytes.expr, verbose=verbose)
                    yield Text(printable(f"{_margin(line)}{line.kinds} {formula} bytes; runs {times} times"))
        for access in kernel.unplaced:
            yield Text(printable(f"{access.operation} of {access.tensor}: {brief(access.bytes.expr, verbose=verbose)} bytes"))
    notes = list(remarks(result, verbose=verbose, floor=False))
    yield from [Text(""), *notes] if notes else []


def _moved(kernel: Explanation, kernels: list[Explanation], result: Derived) -> str:
    """Return the bytes of a kernel over all its launches, with its share of the work."""
    from ioaware.derivation.line_report import value
    from ioaware.display.units import bytes_text

    each = [value(one.bytes, result.values) for one in kernels]
    own = value(kernel.bytes, result.values)
    whole = None if None in each else sum((bytes_ or 0) * one.launches for bytes_, one in zip(each, kernels, strict=True))
    parts = ["bytes depend on data" if own is None else bytes_text(own * kernel.launches)]
    if own is not None and whole and len(kernels) > 1:
        parts.append(f"{own * kernel.launches / whole:.1%} of the work's bytes")
    if kernel.launches > 1:
        parts.append(f"{kernel.launches} launches")
    return ", ".join(parts)


def _share(line: Line, kernel: Explanation, result: Derived) -> str:
    """Return the share of the kernel's bytes in percent, or the line's bytes where the kernel's depend on data."""
    from ioaware.derivation.line_report import share, value
    from ioaware.display.units import bytes_text

    if not line.accesses:
        return ""
    part, own = share(line.bytes, kernel.bytes, result.values), value(line.bytes, result.values)
    return f"{part:.1%}" if part is not None else "data" if own is None else bytes_text(own, 3)


def _margin(line: Line) -> str:
    """Return the indent of the line's source and a corner that points up to it."""
    return " " * (15 + len(line.text) - len(line.text.lstrip())) + "\u2514 "


def _data(result: Derived, kernels: list[Explanation]) -> Mapping[str, Any]:
    """Return what `--json` prints: only the lines that move bytes."""
    from ioaware.derivation.line_report import share, value

    values = result.values
    return {
        "schema": SCHEMA,
        "target": result.target,
        "params": dict(result.params),
        "kernels": [
            {
                "kernel": kernel.kernel,
                "launches": kernel.launches,
                "bytes": value(kernel.bytes, values),
                "formula": str(kernel.bytes),
                "conditions": [str(condition) for condition in kernel.conditions],
                "lines": [
                    {
                        "function": section.function,
                        "path": section.path,
                        "line": line.number,
                        "source": line.text.strip(),
                        "kinds": line.kinds,
                        "bytes": value(line.bytes, values),
                        "share": share(line.bytes, kernel.bytes, values),
                        "formula": str(line.bytes),
                        "executions": [str(count) for count in line.executions],
                    }
                    for section in kernel.sections
                    for line in section.lines
                    if line.accesses
                ],
                "unplaced": [
                    {"operation": access.operation, "tensor": access.tensor, "formula": str(access.bytes)}
                    for access in kernel.unplaced
                ],
            }
            for kernel in kernels
        ],
    }


command = explain
