"""The Hopper kernel compiled for sm_90a without a GPU, and its machine code read: nothing spilled, no wgmma serialised, both
matmuls in flight together, and no uniform register read on a path that never wrote it."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import triton
from triton.backends.compiler import GPUTarget
from triton.experimental.gluon import language as gl
from triton.experimental.gluon._runtime import GluonASTSource

from ioaware.kernels.attention.hopper import MEDIUM, NARROW, NARROW_AND_LONG, WIDE, Plan
from ioaware.kernels.attention.hopper_forward import hopper_forward_kernel
from ioaware.kernels.attention.launch import HOPPER_SHARED_BYTES

TOOLS = Path(triton.__file__).parent / "backends/nvidia/bin"
URZ = 63


def compiled(plan: Plan, width: int, dtype: str, *, causal: bool, mask: bool) -> Any:
    """The kernel as `hopper_forward` launches it."""
    constants = plan.constants(causal=causal, mask=mask)
    element = {"fp16": gl.float16, "bf16": gl.bfloat16}[dtype]

    def descriptor(rows: int) -> str:
        layout = gl.NVMMASharedLayout.get_default_for([1, 1, rows, width], element)
        return f"tensordesc<{dtype}[1, 1, {rows}, {width}],{layout!r}>"

    tensors = {"Q": descriptor(64), "O": descriptor(64), "K": descriptor(plan.block_n), "V": descriptor(plan.block_n)}
    others = {"Lse": "*fp32", "scale_log2": "fp32", **dict.fromkeys(constants, "constexpr")}
    signature = {name: {**tensors, **others}.get(name, "i32") for name in hopper_forward_kernel.arg_names}
    source = GluonASTSource(hopper_forward_kernel, signature, constants)
    options = {"num_warps": 4, "enable_fp_fusion": True}
    return triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options)


def ptxas_says(kernel: Any, folder: Path) -> str:
    """The report of the assembler that this Triton uses for sm_90."""
    from triton.backends.nvidia.compiler import get_ptxas

    ptx = folder / "kernel.ptx"
    ptx.write_text(kernel.asm["ptx"])
    assembler = get_ptxas(90) if get_ptxas.__code__.co_argcount else get_ptxas()
    command = [assembler.path, "-v", "-arch=sm_90a", ptx, "-o", folder / "again.cubin"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout + done.stderr


@dataclass(frozen=True)
class Code:
    """Machine code: its instructions, and where each label points."""

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
        """Where instruction i branches to."""
        branch = re.search(r"\bBRA\b.*?(\.L_x_\d+)", self.instructions[i])
        return self.labels[branch[1]] if branch else None

    def next_ones(self, i: int) -> list[int]:
        """The instructions that can follow instruction i."""
        instruction, target = self.instructions[i], self.target(i)
        conditional = instruction.startswith("@") or re.search(r"\bBRA\S* U?P\d", instruction)
        ends = bool(re.match(r"EXIT|BRA", instruction)) and not conditional
        following = [] if ends else [i + 1]
        return [j for j in (*following, *([target] if target is not None else [])) if j < len(self.instructions)]

    def matmul_loops(self) -> list[list[str]]:
        """The instructions of each loop that waits for one of two matmuls and contains no such loop."""
        spans = [
            (target, i + 1)
            for i, instruction in enumerate(self.instructions)
            # without a condition it is the way back from waiting for a barrier, which is laid out behind everything else
            if instruction.startswith("@") and (target := self.target(i)) is not None and target <= i
        ]
        spans = [span for span in spans if any("gsb0, 0x1" in x for x in self.instructions[slice(*span)])]
        inner = [(a, b) for a, b in spans if not any(a <= c and d <= b and (c, d) != (a, b) for c, d in spans)]
        return [self.instructions[a:b] for a, b in inner]


def uniform_registers(instruction: str) -> tuple[set[int], set[int]]:
    """The uniform registers that an instruction writes and reads."""
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
    """Instructions that read a uniform register which some path to them has not written."""
    accesses = [uniform_registers(instruction) for instruction in code.instructions]
    known: dict[int, frozenset[int]] = {0: frozenset()}  # written on every path so far found to an instruction
    pending = [0]
    while pending:
        i = pending.pop()
        after = known[i] | accesses[i][0]
        for j in code.next_ones(i):
            meet = after if j not in known else known[j] & after
            if known.get(j) != meet:
                known[j] = frozenset(meet)
                pending.append(j)
    return [(i, code.instructions[i]) for i, written in known.items() if accesses[i][1] - written]


@pytest.mark.parametrize(
    ("plan", "width", "dtype", "causal"),
    [(NARROW, 64, "bf16", True), (NARROW_AND_LONG, 64, "fp16", False), (MEDIUM, 128, "fp16", True), (WIDE, 256, "bf16", False)],
)
def test_machine_code(tmp_path: Path, plan: Plan, width: int, dtype: str, causal: bool) -> None:
    kernel = compiled(plan, width, dtype, causal=causal, mask=causal)
    assert kernel.metadata.shared <= HOPPER_SHARED_BYTES

    report = ptxas_says(kernel, tmp_path)
    assert not re.search(r"C75\d\d", report), report  # wgmma serialised, setmaxnreg ignored
    assert ("Used 168 registers" if plan.consumers == 2 else "Used 128 registers") in report

    code = Code.of(kernel, tmp_path)
    assert not [x for x in code.instructions if re.search(r"\b(STL|LDL)\b", x)]
    assert any(f"USETMAXREG.TRY_ALLOC.CTAPOOL UP0, {plan.registers:#x}" in x for x in code.instructions)
    assert undefined_reads(code) == []

    loops = code.matmul_loops()
    assert len(loops) == plan.consumers
    for loop in loops:
        matmuls, waits, exponentials = (
            [i for i, x in enumerate(loop) if re.search(pattern, x)] for pattern in ("HGMMA", "DEPBAR.LE gsb0", r"MUFU\.EX2")
        )
        # Q K^T in steps of 16 columns of Q, P V in steps of 16 rows of V; both start before either is waited for
        assert len(matmuls) == width // 16 + plan.block_n // 16
        assert len(waits) == 2
        assert max(matmuls) < min(waits)
        assert len(exponentials) == plan.block_n // 2 + 2  # a thread has half a row of S, and two rows' decay
        assert min(exponentials) > min(waits)


def test_a_plan_with_too_few_registers_is_seen(tmp_path: Path) -> None:
    starved = Plan(block_n=256, stages=2, consumers=2, registers=240, q_stages=1)
    kernel = compiled(starved, 64, "fp16", causal=False, mask=False)
    assert "C7512" in ptxas_says(kernel, tmp_path)
    assert [x for x in Code.of(kernel, tmp_path).instructions if re.search(r"\b(STL|LDL)\b", x)]


def test_a_register_written_on_one_path_only_is_seen() -> None:
    lines = ["ULDC UR4, c[0x0][0x210]", "@!P0 BRA `(.L_x_1)", "UIADD3 UR8, UR4, 0x2, URZ", "IMAD.U32 R2, RZ, RZ, UR8", "EXIT"]
    listing = [f"/*{16 * i:04x}*/ {line} ;" for i, line in enumerate(lines)]
    whole = Code.parsed("\n".join([*listing[:4], ".L_x_1:", listing[4]]))
    assert undefined_reads(whole) == []
    skipped = Code.parsed("\n".join([*listing[:3], ".L_x_1:", *listing[3:]]))
    assert undefined_reads(skipped) == [(3, "IMAD.U32 R2, RZ, RZ, UR8")]
