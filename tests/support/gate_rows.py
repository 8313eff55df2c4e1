"""The document that `ioaware derive --json` prints for an addition.

Any part of it may be replaced.
"""

from __future__ import annotations

from typing import Any


def document(
    reads: str = "8*n", read_bytes: int = 8_000, *, ir_hash: str = "0123456789ab", triton: str = "3.7.1", **launch: Any
) -> dict[str, Any]:
    requested = {
        "read_bytes": read_bytes,
        "write_bytes": 4_000,
        "atomic_bytes": 0,
        "read_sector_bytes": read_bytes,
        "write_sector_bytes": 4_000,
        "read_formula": reads,
        "write_formula": "4*n",
    }
    resources = {"shared_bytes": 0, "registers": 16, "local_bytes": 0, "tma_loads": 0, "tma_stores": 0}
    one = {"kernel": "add_kernel", "grid": [4, 1, 1], "requested": requested, "ir_hash": ir_hash, **resources, **launch}
    return {
        "schema": 1,
        "source": "derive",
        "target": "add.py:add",
        "params": {"n": 1000},
        "requested": requested,
        "compulsory": {"read_bytes": 8_000, "write_bytes": 4_000},
        "exact": True,
        "launches": [{"origin": "triton", "exact": True, **one}],
        "environment": {"triton": triton, "compiled_for": "cuda:90"},
    }
