"""Import the package's modules under the name that they have in a checkout.

It is the name before the restructuring, or after it.
"""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path
from types import ModuleType

MODULES = {
    "result_file": ("ioaware.result_file", "ioaware.record"),
    "race_record": ("ioaware.bench.race_record", "ioaware.bench.record"),
    "study": ("ioaware.sweep.study",),
    "target": ("ioaware.targets.target", "ioaware.instruments.target"),
    "capture": ("ioaware.capture.capture", "ioaware.instruments.capture"),
    "triton_ir": ("ioaware.compilation.triton_ir", "ioaware.instruments.compile"),
}
"""Modules without a public name that the comparison needs.

The newest name comes first.
"""


def package_module(name: str) -> ModuleType:
    """Return the module of `MODULES`.

    Raises `ModuleNotFoundError` where the checkout has it under no known name.
    """
    for candidate in MODULES[name]:
        try:
            found = importlib.util.find_spec(candidate)
        except ModuleNotFoundError:  # a parent package is missing
            continue
        if found:
            return importlib.import_module(candidate)
    raise ModuleNotFoundError(f"none of {', '.join(MODULES[name])}: name the new module in {Path(__file__).name}")


def require_checkout(checkout: Path) -> None:
    """Raise `RuntimeError` unless the imported package is the checkout's.

    An installed one would be compared with itself.
    """
    import ioaware

    if not Path(ioaware.__file__).resolve().is_relative_to(checkout.resolve()):
        raise RuntimeError(f"ioaware was imported from {ioaware.__file__}, not from {checkout}")
