"""Where the small kernels of these tests are: a function's name as a target."""

from __future__ import annotations

from pathlib import Path

FILES = ("zoo.py", "zoo_grids.py", "zoo_products.py")


def zoo(name: str) -> str:
    """`file.py:name`, whichever of the files has the function."""
    (path,) = [
        path for file in FILES if f"\ndef {name}(" in (path := Path(__file__).with_name(file)).read_text(encoding="utf-8")
    ] or [Path(__file__).with_name("zoo.py")]
    return f"{path}:{name}"
