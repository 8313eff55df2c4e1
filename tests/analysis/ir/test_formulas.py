"""Formulas of the IR zoo and the attention kernels equal their record.

This is so under every Triton.

`IOAWARE_RECORD=1` rewrites the record. Read its diff.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import pytest
import torch

from ioaware.analysis.ir import KernelTraffic
from tests.support.ir_zoo.attention import Kernels
from tests.support.ir_zoo.zoo import ZOO

pytestmark = [
    pytest.mark.filterwarnings("ignore:tl.make_block_ptr is deprecated"),
    pytest.mark.filterwarnings("ignore:TRITON_DEFAULT_FP_FUSION"),
]

RECORD = Path(__file__).with_name("formulas.json")
READABLE = 300
"""Longest formula in characters that is recorded as text.

Longer ones are recorded as length and digest.
"""
ATTENTION = [f"{case}{mask}" for case in ("standard", "flash1", "flash2") for mask in ("", " causal")]


def text(count: object) -> str | None:
    if count is None:
        return None
    shown = str(count)
    if len(shown) <= READABLE:
        return shown
    return f"{len(shown)} characters, sha256 {hashlib.sha256(shown.encode()).hexdigest()[:16]}"


def formulas(kernel: KernelTraffic) -> dict[str, str | None]:
    fields = ("read_bytes", "write_bytes", "atomic_bytes", "flops", "read_sector_bytes", "write_sector_bytes")
    return {field: text(getattr(kernel, field)) for field in fields}


def derive_formulas(name: str) -> list[dict[str, str | None]]:
    if name in ZOO:
        return [formulas(ZOO[name].derive())]
    case, *mask = name.split()
    kernels = Kernels(causal=bool(mask), head_dim=64, block_m=64, block_n=32, dtype=torch.float16)
    return [formulas(kernel) for kernel in kernels.derive(case, 4096)]


@pytest.mark.parametrize("name", [*ZOO, *ATTENTION])
def test_formulas_are_those_on_record(name: str) -> None:
    recorded = json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {}
    if os.environ.get("IOAWARE_RECORD"):
        recorded[name] = derive_formulas(name)
        RECORD.write_text(json.dumps(recorded, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    assert derive_formulas(name) == recorded[name]
