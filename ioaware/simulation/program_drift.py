"""Say whether the programs of an SM drift apart.

In a loop of matmuls they stay together where the L2 or the tensor cores take longest. Where instructions do, the warp
schedulers of an SM serve its oldest program first, and programs that started together drift apart. Source: `busy` of
`ioaware/recorded/l2/h200-waves.json`. Without a matmul memory takes longest, and the oldest program leads, too. Source: `ages`
of `ioaware/recorded/l1/h200-rows.json`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import prod

from ioaware.errors import UsageError
from ioaware.machine import Machine

SPECIAL_PER_CLOCK, LANES_PER_CLOCK = 16, 128
"""Results of an SM a clock: special functions, and float32 arithmetic.

Source: CUDA C++ Programming Guide, throughput of arithmetic instructions, compute capability 9.0.
"""
SHARED_BYTES_PER_CLOCK = 128
PRIORITY = 0.8
"""Exponent of the rate of a program over that of the next older one.

Where instructions took 1.9 times as long as loads, three programs of an SM advanced at 1, 0.67 and 0.37; where they took 3.6
times as long, at 1, 0.40 and 0.14.
"""
MEMORY_PRIORITY = 0.97
"""Rate of a program over that of the next older one, in kernels without a matmul.

With it the HBM reads of rows that programs read twice are those of `ages` within 7 %.
"""
LOOP = re.compile(r"(?=^(\s*)(?:%\S+ = )?(scf\.for .*?^\1\}))", re.MULTILINE | re.DOTALL)
TENSOR = re.compile(r"tensor<((?:\d+x)+)(?:!tt\.ptr<)?([a-z]+\d+)")
FLOAT_OPERATION = re.compile(r"= arith\.(?:\w+f|cmpf|select) ")
REDUCTION = re.compile(r"^\s*\}\) : \(tensor<")
DOT = re.compile(r"= tt\.dot ")
MATMUL = re.compile(r"\btt\.dot|\bttng\.\w*(?:dot|mma)")


@dataclass(frozen=True, slots=True)
class _Work:
    """Work of one iteration: results of each kind, multiplications, and bytes moved."""

    special: int = 0
    arithmetic: int = 0
    multiplications: int = 0
    moved_bytes: int = 0


def next_oldest_rate(ir: str, machine: Machine) -> float:
    """Return the rate of a program over that of the next older one on its SM.

    It follows from the innermost loops with a matmul in Triton IR: from the time that instructions take, over that of the L2 or
    the tensor cores, in the loop where it is least. 1 where these are longer, or the machine's rates are not known. Without a
    matmul it is `MEMORY_PRIORITY` on any machine.
    """
    if not has_matmul(ir):
        return MEMORY_PRIORITY
    loops = [_work(match[2]) for match in LOOP.finditer(ir) if match[2].count("scf.for") == 1 and DOT.search(match[2])]
    try:
        clock = machine.bandwidth_bytes_per_s("shared") / machine.sms / SHARED_BYTES_PER_CLOCK
        moved = machine.bandwidth_bytes_per_s("l2") / machine.sms / clock
        multiplied = machine.peak("float16").flops_per_s / 2 / machine.sms / clock
    except UsageError:
        return 1.0
    ratios = [
        (one.special / SPECIAL_PER_CLOCK + one.arithmetic / LANES_PER_CLOCK)
        / max(one.moved_bytes / moved, one.multiplications / multiplied)
        for one in loops
    ]
    return max(1.0, min(ratios, default=1.0)) ** -PRIORITY


def has_matmul(ir: str) -> bool:
    """Return whether a kernel multiplies matrices."""
    return MATMUL.search(ir) is not None


def _work(loop: str) -> _Work:
    special = arithmetic = multiplications = moved = 0
    for line in loop.splitlines():
        shapes = [(prod(map(int, sizes.split("x")[:-1])), kind) for sizes, kind in TENSOR.findall(line)]
        if not shapes:
            continue
        elements, kind = shapes[-1]
        if "= math." in line:
            special += elements
        elif FLOAT_OPERATION.search(line):
            arithmetic += elements
        elif REDUCTION.search(line):
            arithmetic += shapes[0][0]
        elif DOT.search(line):
            multiplications += _multiplications(line)
        elif "tt.load" in line or "tt.store" in line or "tt.descriptor_load" in line:
            moved += max(size for size, _ in shapes) * _bytes(line, kind)
    return _Work(special, arithmetic, multiplications, moved)


def _multiplications(line: str) -> int:
    left, right = (list(map(int, sizes.split("x")[:-1])) for sizes, _ in TENSOR.findall(line)[:2])
    return prod(left) * right[-1]


def _bytes(line: str, kind: str) -> int:
    pointed = re.search(r"!tt\.ptr<[a-z]+(\d+)>", line)
    return int(pointed[1] if pointed else re.sub(r"\D", "", kind)) // 8
