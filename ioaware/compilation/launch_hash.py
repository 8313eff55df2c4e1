"""Identify what a launch runs.

It is a hash of its IR, arguments and grid, and how many of its instructions are TMA's.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping

from triton.backends.compiler import GPUTarget

from ioaware.analysis.ir import Access
from ioaware.compilation.launches import CapturedLaunch
from ioaware.compilation.triton_ir import first_ir

LOCATION = re.compile(r"^#loc.*$|\s*\bloc\((?:[^()\"]|\"[^\"]*\"|\((?:[^()\"]|\"[^\"]*\"|\([^()]*\))*\))*\)", re.MULTILINE)
STORAGE = re.compile(r"\bstorage=\d+")
HASH_CHARACTERS = 12
FIRST_WITH_TMA = 90
"""Compute capability 9.0.

On other GPUs Triton lowers descriptors to plain loads and stores.
"""


def launch_hash(launch: CapturedLaunch, values: Mapping[str, int], gpu: GPUTarget) -> str:
    """Return a hash of a launch's IR, arguments and grid.

    The IR is without source locations.

    Two launches of one hash request the same bytes: where their formulas differ, ioaware does.
    """
    ir = first_ir(launch, values, gpu)
    arguments = STORAGE.sub("", repr(ir.parameters))
    text = "\n".join((LOCATION.sub("", ir.text), arguments, repr(launch.grid)))
    return hashlib.sha256(text.encode()).hexdigest()[:HASH_CHARACTERS]


def tma_instructions(accesses: Iterable[Access], kind: str, gpu: GPUTarget) -> int:
    """Return how many memory instructions of a kind move tiles by TMA."""
    if gpu.backend != "cuda" or int(gpu.arch) < FIRST_WITH_TMA:
        return 0
    return sum(
        access.kind == kind and ("descriptor" in access.operation or "async_tma" in access.operation) for access in accesses
    )
