"""Import the kernels and closed forms of all cases before points fork.

This package is hashed, too. Each takes longer than a small trace. Every process that is forked later has both.
"""

from __future__ import annotations

import importlib
import pkgutil

from ioaware.cases import CASES
from ioaware.disk_cache import own_code

WORKS = ("ioaware.kernels.attention.references", "ioaware.kernels.softmax", "ioaware.kernels.decoder")
"""Packages whose modules build the inputs of cases and import their kernels."""

for _package in WORKS:
    for _module in pkgutil.iter_modules(importlib.import_module(_package).__path__, f"{_package}."):
        importlib.import_module(_module.name)
for _case in CASES.values():
    _case.counts(False)
own_code()
