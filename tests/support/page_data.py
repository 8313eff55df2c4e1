"""The data of a report's figures, as its script restores them."""

from __future__ import annotations

import json
from typing import Any


def page_data(page: str) -> dict[str, Any]:
    """Return each figure's data with its names and texts."""
    figures: dict[str, Any] = json.loads(page.split('id="data">')[1].split("</script>")[0])
    return {name: figure | {"rows": unpacked(figure)} for name, figure in figures.items()}


def unpacked(data: dict[str, Any]) -> list[list[Any]]:
    """Return the rows of a figure with its names and texts."""
    if "names" not in data:
        return data["rows"]
    rows: list[list[Any]] = []
    runs = [(one[:3], at) for one in data["runs"] for at in zip(*one[3:], strict=True)]
    for (cell, panel, name), (x, y, text, *ends) in runs:
        if isinstance(text, list):
            parts: list[Any] = text
            whole = "".join(data["pieces"][piece] if isinstance(piece, int) else piece for piece in parts)
        else:
            whole = rows[text][5] if isinstance(text, int) else text
        rows.append([cell, panel, data["names"][name], x, y, whole, *ends])
    return rows
