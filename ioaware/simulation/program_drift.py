"""Say at which rates the programs of an SM advance, by age.

An SM serves its oldest program first where programs wait for the special function units, so that programs which started
together drift apart. Arithmetic alone is shared evenly. Source: `ioaware/recorded/l2/h200-priority.json`. Without a
matmul memory takes longest, and the oldest program leads, too. Source: `ages` of `ioaware/recorded/l1/h200-rows.json`.
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
L2_BYTES_PER_CLOCK = 61
"""Most bytes that reach an SM from the L2 a clock in the probe."""
MATMUL_CLOCKS, LEAST_MATMUL_CLOCKS, REDUCTION_CLOCKS = 100, 250, 280
"""Clocks of a step: a matmul beside its multiplications, at least, a reduction.

Means of one program alone on an SM, without and with up to two of them.
"""
LEADING_SHARE = 0.4
"""Share of a step in special functions from which programs wait for one another."""
SHARE_OF_TILE, TILE_ELEMENTS, LEAST_TILES = 0.05, 4096, 0.5
"""Share for each other program where special functions take less.

It is that of results of 64 by 64 elements, and grows with the results of a step's matmuls.
"""
WIDE_WARPS, SHARE_OF_WIDE = 8, 0.4
"""The same where programs have so many warps, and the most of all."""
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
LEAST = 1e-3
"""Least share of an SM that older programs leave."""


@dataclass(frozen=True, slots=True)
class _Work:
    """Work of one iteration: results of each kind, matmuls, and bytes moved."""

    special: int = 0
    arithmetic: int = 0
    multiplications: int = 0
    multiplied: int = 0
    matmuls: int = 0
    reductions: int = 0
    moved_bytes: int = 0

    @property
    def instruction_clocks(self) -> float:
        """Clocks that special functions and arithmetic take."""
        return self.special / SPECIAL_PER_CLOCK + self.arithmetic / LANES_PER_CLOCK

    def special_share(self, multiplications_per_clock: float) -> float:
        """Return the share of special functions in the time of a program alone."""
        multiplied = self.multiplications / multiplications_per_clock + MATMUL_CLOCKS * self.matmuls
        matmuls = max(multiplied, LEAST_MATMUL_CLOCKS * self.matmuls)
        clocks = self.instruction_clocks + matmuls + REDUCTION_CLOCKS * self.reductions
        return self.special / SPECIAL_PER_CLOCK / clocks

    def share(self, multiplications_per_clock: float, programs: int, warps: int) -> float:
        """Return the share of a program's time in which others wait for it.

        None do where the L2 or the tensor cores take longer than instructions: they serve all alike.
        """
        others = max(self.moved_bytes / L2_BYTES_PER_CLOCK, self.multiplications / multiplications_per_clock)
        if self.instruction_clocks <= others:
            return 0.0
        special = self.special_share(multiplications_per_clock)
        if special >= LEADING_SHARE:
            return special
        if warps >= WIDE_WARPS:
            return SHARE_OF_WIDE
        tiles = max(LEAST_TILES, self.multiplied / TILE_ELEMENTS)
        return min(SHARE_OF_WIDE, SHARE_OF_TILE * tiles * (programs - 1)) if programs > 2 else 0.0


def rates_by_age(ir: str, machine: Machine, programs: int, warps: int) -> tuple[float, ...]:
    """Return the rates of an SM's programs over that of its oldest, the oldest first.

    They follow from the innermost loops with a matmul in Triton IR, from that where programs wait least. All are 1 without such
    a loop, or where the machine's rates are not known.
    """
    if not has_matmul(ir):
        return tuple(MEMORY_PRIORITY**number for number in range(programs))
    loops = [_work(match[2]) for match in LOOP.finditer(ir) if match[2].count("scf.for") == 1 and DOT.search(match[2])]
    try:
        clock = machine.bandwidth_bytes_per_s("shared") / machine.sms / SHARED_BYTES_PER_CLOCK
        per_clock = machine.peak("float16").flops_per_s / 2 / machine.sms / clock
    except UsageError:
        return (1.0,) * programs
    return by_priority(min((one.share(per_clock, programs, warps) for one in loops), default=0.0), programs)


def by_priority(share: float, programs: int) -> tuple[float, ...]:
    """Return the rates of programs that take turns at one unit, the oldest first.

    A program alone needs the unit for a `share` of its time. The time there grows as older programs leave less of it, as in a
    queue with preemptive priority.
    """
    rates, taken = [1.0], share
    for _ in range(programs - 1):
        rates.append(1 / (1 - share + share / max(LEAST, 1 - taken)))
        taken += share * rates[-1]
    return tuple(rates)


def has_matmul(ir: str) -> bool:
    """Return whether a kernel multiplies matrices."""
    return MATMUL.search(ir) is not None


def _work(loop: str) -> _Work:
    special = arithmetic = multiplications = multiplied = matmuls = reductions = moved = 0
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
            reductions += 1
        elif DOT.search(line):
            multiplications += _multiplications(line)
            multiplied += elements
            matmuls += 1
        elif "tt.load" in line or "tt.store" in line or "tt.descriptor_load" in line:
            moved += max(size for size, _ in shapes) * _bytes(line, kind)
    return _Work(special, arithmetic, multiplications, multiplied, matmuls, reductions, moved)


def _multiplications(line: str) -> int:
    left, right = (list(map(int, sizes.split("x")[:-1])) for sizes, _ in TENSOR.findall(line)[:2])
    return prod(left) * right[-1]


def _bytes(line: str, kind: str) -> int:
    pointed = re.search(r"!tt\.ptr<[a-z]+(\d+)>", line)
    return int(pointed[1] if pointed else re.sub(r"\D", "", kind)) // 8
