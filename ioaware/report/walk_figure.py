"""Draw a walk as a stepped picture: a fragment for any page, or a separate page.

The page is one file. Its content security policy admits its own script and styles, by hash, and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources
from typing import Any

from ioaware.cases import CASES
from ioaware.errors import UsageError
from ioaware.report.fragment import Fragment
from ioaware.report.inline_text import digest, json_block
from ioaware.walkthrough.notation import state_variables
from ioaware.walkthrough.steps import Step
from ioaware.walkthrough.walk import Walk
from ioaware.walkthrough.walk_data import walk_data

_TEMPLATES = resources.files("ioaware.report") / "templates"
MAX_NUMBERS = 600
"""Most elements of a variable whose values a page holds and shows; as in walk.js."""
MAX_STEPS = 2000
"""Most steps of a page."""


def walk_fragment(walk: Walk, *, identifier: str = "walk") -> Fragment:
    """Return the picture of a walk with recorded values.

    `identifier` is the section's id, unique in the page.

    Raises `UsageError` for a walk of more than `MAX_STEPS` steps.
    """
    if len(walk.steps) > MAX_STEPS:
        raise UsageError(f"the walk has {len(walk.steps):,} steps, a page holds {MAX_STEPS:,}", "Use smaller sizes.")
    values = {
        "identifier": identifier,
        "title": CASES[walk.target].title if walk.target in CASES else walk.target,
        "command": walk.command,
        "notes": _notes(walk),
        "atomics": walk.moved[2] > 0,
        "totals": verdict(walk),
        "rows": [_row(walk, number, step, running) for number, step, running in walk.chosen(None)],
        "data": _markup(json_block(_data(walk))),
    }
    return Fragment(_render("walk.html", values), _read("walk.css"), _read("walk.js"))


def walk_page(walk: Walk) -> str:
    """Return a self-contained HTML page that plays the walk.

    Raises `UsageError` for a walk of too many steps.
    """
    fragment = walk_fragment(walk)
    css = _read("walk_page.css") + fragment.css
    rules = {
        "default-src": "'none'",
        "script-src": f"'{digest(fragment.script)}'",
        "style-src": f"'{digest(css)}'",
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    values = {
        "policy": "; ".join(f"{directive} {allowed}" for directive, allowed in rules.items()),
        "title": f"Walk of {walk.target}",
        "css": _markup(css),
        "fragment": _markup(fragment.html),
        "script": _markup(fragment.script),
    }
    return _render("walk_page.html", values)


def verdict(walk: Walk) -> str:
    """Return the totals in a sentence, beside those of predict and trace."""
    total = f"{walk.total_bytes:,} bytes"
    if walk.predicted_bytes is None:
        return f"{total}, as trace counts"
    return f"{total}, " + ("as predict and trace count" if walk.agrees else f"but predict gives {walk.predicted_bytes:,}")


def _notes(walk: Walk) -> list[str]:
    notes = [note for note in walk.predicted.notes if note.startswith(("closed form", "blocks"))] if walk.predicted else []
    check = walk.traced.check
    return notes if check is None or check.passed else [*notes, *walk.traced.notes]


def _row(walk: Walk, number: int, step: Step, running: int) -> dict[str, str]:
    def tiles(*kinds: str) -> str:
        return ", ".join(move.tile.label for move in step.moves if move.kind in kinds)

    return {
        "number": str(number),
        "kernel": walk.launches[step.launch].kernel,
        "program": f"({', '.join(map(str, step.program))})",
        "loop": step.loop_text,
        "reads": tiles("read"),
        "writes": tiles("write", "atomic"),
        "bytes": f"{step.bytes:,}",
        "running": f"{running:,}",
    }


def _data(walk: Walk) -> dict[str, Any]:
    """Return what the script draws from.

    It is the walk's JSON with the variables of each launch.
    """
    data = _rounded(walk_data(walk))
    written = {move["tensor"] for step in data["steps"] for move in step["moves"] if move["kind"] != "read"}
    for step, shown in zip(walk.steps, data["steps"], strict=True):
        shown["values"] |= {
            name: {"rows": value.shape[0], "cols": value.shape[-1] if value.ndim > 1 else 1}
            for name, value in step.on_chip.items()
            if value.size > MAX_NUMBERS
        }
    tensors: list[dict[str, Any]] = data["tensors"]
    data["tensors"] = sorted(tensors, key=lambda tensor: tensor["name"] in written)  # inputs first
    for index, launch in enumerate(data["launches"]):
        launch["variables"] = _variables(walk, index)
    return {**data, "verdict": f"{verdict(walk)}."}


def _variables(walk: Walk, launch: int) -> list[dict[str, Any]]:
    """Return the variables of a launch with their largest sizes.

    `main` are those with a tensor's name or the state's.
    """
    sizes: dict[str, tuple[int, int]] = {}
    as_rows = walk.rows_on_chip(launch)
    for step in walk.steps:
        if step.launch == launch:
            for name, value in step.on_chip.items():
                rows, cols = value.shape if value.ndim == 2 else (1, value.size) if name in as_rows else (value.size, 1)
                seen = sizes.get(name, (1, 1))
                sizes[name] = (max(seen[0], rows), max(seen[1], cols))
    state = set(state_variables(sizes)) | {name for name in sizes if name.upper() in _names(walk, launch)}
    main = state or set(sizes)
    return [
        {"name": name, "rows": rows, "cols": cols, "row": name in as_rows, "main": name in main}
        for name, (rows, cols) in sizes.items()
    ]


def _names(walk: Walk, launch: int) -> set[str]:
    return {argument.upper() for tensor in walk.launches[launch].tensors for argument in tensor.names}


def _rounded(value: Any) -> Any:
    """Return JSON values with floats of four significant digits.

    The page shows two decimals.
    """
    if isinstance(value, float):
        return float(f"{value:.4g}")
    if isinstance(value, list):
        return [_rounded(each) for each in value]  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, dict):
        return {key: _rounded(each) for key, each in value.items()}  # pyright: ignore[reportUnknownVariableType]
    return value


def _render(name: str, values: Mapping[str, Any]) -> str:
    from jinja2 import Environment, StrictUndefined

    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(_read(name)).render(values)


def _markup(text: str) -> Any:
    """Return text that needs no escaping.

    It is this package's own files, rendered templates, and JSON safe inside an element.
    """
    from markupsafe import Markup

    return Markup(text)  # noqa: S704


def _read(name: str) -> str:
    return (_TEMPLATES / name).read_text(encoding="utf-8").replace("\r\n", "\n")
