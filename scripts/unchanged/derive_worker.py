"""Derive targets one after the other, from JSON lines to JSON lines.

Jobs are JSON lines on stdin. Each gets a JSON line on stdout as soon as it is done.

A job is `{"target", "params", "counters", "code"}`. With `code` the target's launches are compiled and nothing is derived.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from cubins import machine_code
from layouts import package_module, require_checkout

LONGEST_TEXT = 400
"""Characters of a formula that is kept as it is."""
FORMULAS = ("read_bytes", "write_bytes", "atomic_bytes", "flops", "read_sector_bytes", "write_sector_bytes")
ACCESS_FORMULAS = ("elements", "executions", "sectors")


def answer(job: dict[str, Any]) -> dict[str, Any]:
    """Derive the job's target.

    What ioaware refuses is an answer too; anything else that is raised is a crash.
    """
    from ioaware.errors import IoawareError

    try:
        return compiled(job) if job["code"] else derived(job)
    except IoawareError as error:
        return {"refused": type(error).__name__, "problem": str(error)}


def compiled(job: dict[str, Any]) -> dict[str, Any]:
    """Digest the machine code of every launch.

    Each is specialised to its arguments as Triton would at the launch.
    """
    capture, triton_ir = package_module("capture"), package_module("triton_ir")
    target = package_module("target").load_target(job["target"])
    found = capture.capture(target, target.resolve(job["params"]))
    kernels = [triton_ir.compiled(launch, found.values, capture.DEFAULT_GPU) for launch in found.launches]
    return {
        "machine_code": [
            {"kernel": one.metadata.name, "shared_bytes": one.metadata.shared, **machine_code(one.asm["cubin"])}
            for one in kernels
        ]
    }


def derived(job: dict[str, Any]) -> dict[str, Any]:
    """Return the result without prose, and its formulas."""
    import ioaware

    found = ioaware.derive(job["target"], counters=job["counters"], **job["params"])
    data = found.to_dict()
    for name in ("environment", "target"):
        data.pop(name, None)
    for part in (data, *data.get("launches", ())):
        part.pop("notes", None)
    kernels = [kernel and formulas(kernel) for kernel in found.kernels]
    return shortened({**data, "unknowns": list(found.unknowns), "formulas": kernels})


def formulas(kernel: Any) -> dict[str, Any]:
    """Return the formulas of a launch as text, and of each of its memory accesses."""
    totals = {name: str(getattr(kernel, name)) for name in FORMULAS}
    exact = {"exact": kernel.exact, "sectors_exact": kernel.sectors_exact}
    return {**totals, **exact, "accesses": [access(one) for one in kernel.accesses]}


def access(one: Any) -> dict[str, Any]:
    """Return the formulas of a memory access.

    The tensor's name is left out: it is the kernel's parameter.
    """
    counts = {name: str(getattr(one, name)) for name in ACCESS_FORMULAS}
    exact = {"exact": one.exact, "sectors_exact": one.sectors_exact}
    return {"kind": one.kind, "operation": one.operation, "element_bytes": one.element_bytes, **counts, **exact}


def shortened(value: Any) -> Any:
    """Replace texts that are too long to read.

    Each is replaced by its beginning, its length and its digest.
    """
    if isinstance(value, dict):
        return {name: shortened(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [shortened(item) for item in value]
    if isinstance(value, str) and len(value) > LONGEST_TEXT:
        digest = hashlib.sha256(value.encode()).hexdigest()
        return f"{value[:80]}... ({len(value)} characters, sha256 {digest})"
    return value


def main() -> None:
    """Answer every job of stdin on stdout.

    The targets themselves cannot write to stdout.
    """
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    require_checkout(Path(sys.argv[1]))
    for line in sys.stdin:
        try:
            found = answer(json.loads(line))
        except Exception as error:
            found = {"crashed": type(error).__name__, "problem": str(error)}
        answers.write(json.dumps(found) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
