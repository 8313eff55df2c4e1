"""A walk as JSON values: for `--json`, and for the page that plays it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from ioaware.walkthrough.hbm_tensors import HbmTensor
from ioaware.walkthrough.steps import Move, Step, Values, WalkedLaunch

if TYPE_CHECKING:
    from ioaware.walkthrough.walk import Walk

SCHEMA = 1


def walk_data(walk: Walk, *, steps: int | None = None, program: tuple[int, ...] | None = None) -> dict[str, Any]:
    """Return the walk with the steps of `program`, at most `steps` of them.

    Totals are those of all steps.

    Infinite values are the strings `inf` and `-inf`; NaN, which no kernel has written, is null.
    """
    shown = list(walk.chosen(program))
    kept = shown if steps is None else shown[:steps]
    return {
        "schema": SCHEMA,
        "source": "walk",
        "target": walk.target,
        "params": dict(walk.params),
        "input": walk.source,
        "tensors": [_tensor(tensor) for tensor in walk.tensors],
        "launches": [_launch(launch) for launch in walk.launches],
        "steps": [_step(number, step, running) for number, step, running in kept],
        "number_of_steps": len(walk.steps),
        "total_bytes": walk.total_bytes,
        "traced_bytes": walk.traced.requested.total_bytes if walk.traced.requested else None,
        "predicted_bytes": walk.predicted_bytes,
        "compulsory_bytes": walk.compulsory_bytes,
        "agrees": walk.agrees,
        "notes": list(walk.traced.notes),
    }


def _tensor(tensor: HbmTensor) -> dict[str, Any]:
    return {
        "name": tensor.name,
        "shape": list(tensor.shape),
        "matrix": list(tensor.matrix),
        "dtype": tensor.dtype,
        "arguments": tensor.names,
    }


def _launch(launch: WalkedLaunch) -> dict[str, Any]:
    data: dict[str, Any] = {
        "kernel": launch.kernel,
        "grid": list(launch.grid),
        "tensors": [tensor.name for tensor in launch.tensors],
    }
    if launch.contents:
        data["contents"] = [_values(values) for values in launch.contents]
    return data


def _step(number: int, step: Step, running: int) -> dict[str, Any]:
    return {
        "step": number,
        "launch": step.launch,
        "program": list(step.program),
        "loops": [{"name": name, "index": index} for name, index in step.loops],
        "moves": [_move(move) for move in step.moves],
        "bytes": step.bytes,
        "running_bytes": running,
        "values": {name: _values(value) for name, value in step.on_chip.items()},
        "assigned": sorted(step.assigned),
    }


def _move(move: Move) -> dict[str, Any]:
    tile = move.tile
    return {
        "kind": move.kind,
        "tensor": tile.tensor.name if tile.tensor else None,
        "tile": tile.label,
        "ranges": [list(where) for where in tile.ranges],
        "elements": tile.elements,
        "bytes": tile.bytes,
        **({"cells": [[row, column, number(value)] for row, column, value in move.cells]} if move.cells else {}),
    }


def _values(values: Values) -> Any:
    """Return an array as nested lists."""
    return number(float(values)) if values.ndim == 0 else [_values(part) for part in values]


def number(value: float) -> float | str | None:
    """Return a float as strict JSON has it."""
    if math.isnan(value):
        return None
    return value if math.isfinite(value) else ("inf" if value > 0 else "-inf")
