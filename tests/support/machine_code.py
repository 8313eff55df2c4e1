"""Machine code of kernels for sm_90a: ptxas report, instructions, loops.

Undefined reads are found too.
"""

from __future__ import annotations

import contextlib
import io
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import triton
from triton.backends.compiler import GPUTarget

TOOLS = Path(triton.__file__).parent / "backends/nvidia/bin"
URZ = 63


_REPORTS: dict[str, str] = {}
"""ptxas reports of the kernels that this process has compiled.

They are kept by the kernel's hash.
"""


def compile_for_hopper(source: Any, **options: Any) -> Any:
    """Compile the kernel for sm_90 and keep the ptxas report for `ptxas_report`."""
    output = io.StringIO()
    with triton.knobs.nvidia.scope(), contextlib.redirect_stdout(output):
        triton.knobs.nvidia.dump_ptxas_log = True
        kernel: Any = triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"enable_fp_fusion": True, **options})
    _REPORTS[kernel.hash] = output.getvalue()
    return kernel


def ptxas_report(kernel: Any, folder: Path) -> str:
    """Return the report of Triton's ptxas for sm_90.

    Run it again if the kernel came from Triton's cache.
    """
    if report := _REPORTS.get(kernel.hash):
        return report
    from triton.backends.nvidia.compiler import get_ptxas

    ptx = folder / "kernel.ptx"
    ptx.write_text(kernel.asm["ptx"])
    assembler = get_ptxas(90) if get_ptxas.__code__.co_argcount else get_ptxas()
    command = [assembler.path, "-v", "-arch=sm_90a", ptx, "-o", folder / "again.cubin"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout + done.stderr


def spilled_bytes(kernel: Any, folder: Path) -> int:
    """Return the stack bytes a thread.

    The kernels keep nothing else there than spilled registers.
    """
    cubin = folder / "kernel.cubin"
    cubin.write_bytes(kernel.asm["cubin"])
    usage = subprocess.run([TOOLS / "cuobjdump", "-res-usage", cubin], capture_output=True, text=True, check=True).stdout
    found = re.search(r"REG:\d+ STACK:(\d+)", usage)
    assert found, usage
    return int(found[1])


@dataclass(frozen=True)
class Code:
    """Machine code: instructions, and the instruction index of each label."""

    instructions: list[str]
    labels: dict[str, int]

    @staticmethod
    def of(kernel: Any, folder: Path) -> Code:
        cubin = folder / "kernel.cubin"
        cubin.write_bytes(kernel.asm["cubin"])
        listing = subprocess.run([TOOLS / "nvdisasm", "-c", cubin], capture_output=True, text=True, check=True).stdout
        return Code.parsed(listing)

    @staticmethod
    def parsed(listing: str) -> Code:
        code = Code([], {})
        for line in listing.splitlines():
            if label := re.match(r"\s*(\.L_x_\d+):", line):
                code.labels[label[1]] = len(code.instructions)
            elif instruction := re.match(r"\s*/\*[0-9a-f]{4,}\*/\s+(.*?)\s*;", line):
                code.instructions.append(instruction[1])
        return code

    def target(self, i: int) -> int | None:
        """Return the branch target of instruction i."""
        branch = re.search(r"\bBRA\b.*?(\.L_x_\d+)", self.instructions[i])
        return self.labels[branch[1]] if branch else None

    def successors(self, i: int) -> list[int]:
        """Return the instructions that can follow instruction i."""
        instruction, target = self.instructions[i], self.target(i)
        conditional = instruction.startswith("@") or re.search(r"\bBRA\S* U?P\d", instruction)
        ends = bool(re.match(r"EXIT|BRA", instruction)) and not conditional
        following = [] if ends else [i + 1]
        return [j for j in (*following, *([target] if target is not None else [])) if j < len(self.instructions)]

    def loops(self) -> list[tuple[int, int]]:
        """Return begin and end of each loop that waits for one of two matmuls."""
        spans = [
            (target, i + 1)
            for i, instruction in enumerate(self.instructions)
            # an unconditional backward branch returns from a barrier wait, which is laid out after all other code
            if instruction.startswith("@") and (target := self.target(i)) is not None and target <= i
        ]
        return [span for span in spans if any("gsb0, 0x1" in x for x in self.instructions[slice(*span)])]

    def matmul_loops(self) -> list[list[str]]:
        """Return the instructions of each innermost loop that waits for a matmul.

        It waits for one of two matmuls.
        """
        return [self.instructions[a:b] for a, b in self.inner_loops()]

    def inner_loops(self) -> list[tuple[int, int]]:
        """Return begin and end of the innermost such loops."""
        spans = self.loops()
        return [(a, b) for a, b in spans if not any(a <= c and d <= b and (c, d) != (a, b) for c, d in spans)]


def uniform_registers(instruction: str) -> tuple[set[int], set[int]]:
    """Return the uniform registers that an instruction writes and reads."""
    words = re.sub(r"^@\S+ ", "", instruction)
    name, _, rest = words.partition(" ")
    operands = [operand.strip() for operand in rest.split(",")]
    if len(operands) > 1 and re.fullmatch(r"UP\w", operands[0]) and re.fullmatch(r"UR\d+", operands[1]):
        operands = operands[1:]  # a predicate is written beside the register
    pairs = name.startswith("U") and (".64" in name or "WIDE" in name)
    written: set[int] = set()
    if re.fullmatch(r"UR\d+", operands[0]) and not name.startswith("UISETP"):
        first = int(operands.pop(0)[2:])
        written = {first, first + 1} if pairs else {first}
    read: set[int] = set()
    for operand in operands:
        for kind, number in re.findall(r"(gdesc\[|desc\[|\[)?UR(\d+)", operand):
            first = int(number)
            if kind == "gdesc[":  # descriptors of A, unless A is in registers, and of B
                read |= {first + 2, first + 3} | (set() if operands[1].startswith("R") else {first, first + 1})
            elif kind == "desc[" or name.startswith("UTMA") or (pairs and ("WIDE" not in name or operand == operands[2])):
                read |= {first, first + 1}
            else:
                read.add(first)
    return written, read - {URZ}


def undefined_reads(code: Code) -> list[tuple[int, str]]:
    """Return instructions that read a uniform register before it is written.

    Some path to them has not written it.
    """
    accesses = [uniform_registers(instruction) for instruction in code.instructions]
    known: dict[int, frozenset[int]] = {0: frozenset()}  # written on every path found so far to an instruction
    pending = [0]
    while pending:
        i = pending.pop()
        after = known[i] | accesses[i][0]
        for j in code.successors(i):
            meet = after if j not in known else known[j] & after
            if known.get(j) != meet:
                known[j] = frozenset(meet)
                pending.append(j)
    return [(i, code.instructions[i]) for i, written in known.items() if accesses[i][1] - written]
