"""Targets of the kernel zoo by function name."""

from __future__ import annotations

from pathlib import Path

FILES = ("zoo.py", "zoo_grids.py", "zoo_products.py")


def zoo(name: str) -> str:
    """Return `file.py:name` for the file that has the function."""
    (path,) = [
        path for file in FILES if f"\ndef {name}(" in (path := Path(__file__).with_name(file)).read_text(encoding="utf-8")
    ] or [Path(__file__).with_name("zoo.py")]
    return f"{path}:{name}"
