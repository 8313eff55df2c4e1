"""Print a walk as a table or as blocks.

It is a table of steps for each launch, or with values a block for each step.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np
from rich.console import RenderableType
from rich.text import Text

from ioaware.cli.render import assignments, table
from ioaware.cli.terminal_text import printable
from ioaware.display.units import times_text
from ioaware.walkthrough.notation import state_variables
from ioaware.walkthrough.steps import Move, Step, Values
from ioaware.walkthrough.walk import Walk

WORDS: Mapping[str, str] = {"read": "HBM to chip", "write": "chip to HBM", "atomic": "atomics in HBM"}
Numbered = tuple[int, Step, int]


def walk_text(
    walk: Walk, *, limit: int, program: tuple[int, ...] | None, values: Sequence[str] | None
) -> Iterator[RenderableType]:
    """Yield the steps of `program`, at most `limit`, and the totals.

    `values` names the variables to show, and with none it is S, m, l, O.
    """
    yield Text(printable(f"walk {walk.target}  {assignments(walk.params)}"))
    if walk.predicted:
        yield from (Text(printable(note)) for note in walk.predicted.notes if note.startswith("blocks"))
    shown = list(walk.chosen(program))
    for launch, described in enumerate(walk.launches):
        steps = [step for step in shown[:limit] if step[1].launch == launch]
        if not steps:
            continue
        yield Text(printable(f"\n{described.kernel}, grid ({', '.join(map(str, described.grid))})"))
        yield from _table(steps) if values is None else _blocks(steps, values, walk.rows_on_chip(launch))
    if len(shown) > limit:
        yield Text(printable(f"\n{len(shown) - limit:,} more steps; --limit {len(shown)} shows them"))
    yield Text("")
    yield from (Text(printable(line)) for line in totals(walk))


def totals(walk: Walk) -> Iterator[str]:
    """Yield the totals of the steps.

    They stand beside those of predict, trace and the lower bound.
    """
    read, written, atomic = walk.moved
    parts = f"{read:,} read, {written:,} written" + (f", {atomic:,} by atomics" if atomic else "")
    yield f"{len(walk.steps):,} steps move {walk.total_bytes:,} bytes: {parts}"
    if walk.predicted_bytes is not None:
        verdict = "as predict and trace count" if walk.agrees else f"but predict gives {walk.predicted_bytes:,}"
        yield f"{walk.total_bytes:,} bytes, {verdict}"
    else:
        yield f"{walk.total_bytes:,} bytes, as trace counts"
    if floor := walk.compulsory_bytes:
        yield f"compulsory: {floor:,} bytes; the walk moves {times_text(walk.total_bytes / floor)} this"
    yield from (f"note: {note}" for note in walk.traced.notes)


def _table(steps: Sequence[Numbered]) -> Iterator[RenderableType]:
    """Yield one line a step."""
    atomics = any(step.moved("atomic") for _, step, _ in steps)
    kinds = ("read", "write", "atomic") if atomics else ("read", "write")
    rows = [
        (
            f"{number:>4}",
            _program(step),
            step.loop_text,
            *(", ".join(move.tile.label for move in step.moves if move.kind == kind) for kind in kinds),
            f"{step.bytes:,}",
            f"{running:,}",
        )
        for number, step, running in steps
    ]
    yield table(("step", "program", "loop", *(WORDS[kind] for kind in kinds), "bytes", "so far"), rows, left=3 + len(kinds))


def _blocks(steps: Sequence[Numbered], names: Sequence[str], as_rows: Collection[str]) -> Iterator[RenderableType]:
    """Yield a block of lines a step.

    It has the values of the named variables and of what is written.
    """
    for number, step, running in steps:
        where = ", ".join(part for part in (f"program {_program(step)}", step.loop_text) if part)
        yield Text(printable(f"\nstep {number}: {where}; {step.bytes:,} bytes, {running:,} so far"))
        for kind, words in WORDS.items():
            moved = [move for move in step.moves if move.kind == kind]
            if moved:
                yield Text(printable(f"  {words}: {', '.join(move.tile.label for move in moved)}"))
        chosen = (
            [name for name in names if name in step.on_chip]
            if names
            else state_variables(name for name in step.on_chip if name in step.assigned)
        )
        matrices = {name: matrix_lines(step.on_chip[name], as_row=name in as_rows) for name in chosen}
        matrices |= {f"{move.tile.label} in HBM": matrix_lines(_written(move)) for move in step.moves if move.cells}
        yield from (Text(printable(f"  {line}")) for line in side_by_side(matrices))


def _program(step: Step) -> str:
    return f"({', '.join(map(str, step.program))})"


def _written(move: Move) -> Values:
    """Return what a move writes, as the matrix of its rows and columns."""
    rows, columns = (sorted({cell[axis] for cell in move.cells}) for axis in (0, 1))
    matrix = np.full((len(rows), len(columns)), np.nan)
    for row, column, value in move.cells:
        matrix[rows.index(row), columns.index(column)] = value
    return matrix


def matrix_lines(values: Values, *, as_row: bool = False) -> list[str]:
    """Return one line a row, in brackets.

    A vector is a column, as row statistics are, unless `as_row`.
    """
    rows = values.reshape(-1, values.shape[-1]) if values.ndim > 1 or (as_row and values.ndim) else values.reshape(-1, 1)
    texts = [[number_text(float(value)) for value in row] for row in rows]
    width = max((len(text) for row in texts for text in row), default=0)
    return ["[" + " ".join(text.rjust(width) for text in row) + "]" for row in texts]


def number_text(value: float) -> str:
    """Return a value in two decimals, in powers of ten where they would not show it.

    A dot for what was never written.
    """
    if math.isnan(value):
        return "."
    if not math.isfinite(value) or value == 0 or 0.005 <= abs(value) < 1000:
        return f"{value:.2f}"
    return f"{value:.1e}"


def side_by_side(matrices: Mapping[str, list[str]]) -> Iterator[str]:
    """Yield lines with the matrices in columns under their names."""
    if not matrices:
        return
    height = max(len(lines) for lines in matrices.values()) + 1
    columns = [[name, *lines] for name, lines in matrices.items()]
    widths = [max(map(len, column)) for column in columns]
    for line in range(height):
        cells = [column[line] if line < len(column) else "" for column in columns]
        yield "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()
