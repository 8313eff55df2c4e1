"""The data of a report's figures, as its script restores them."""

from __future__ import annotations

import json
from typing import Any


def page_data(page: str) -> dict[str, Any]:
    """Return each figure's data with the names of its series."""
    figures: dict[str, Any] = json.loads(page.split('id="data">')[1].split("</script>")[0])
    for figure in figures.values():
        for row in figure["rows"] if "names" in figure else ():
            row[2] = figure["names"][row[2]]
    return figures
