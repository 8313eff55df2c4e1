"""Disassemble a kernel's machine code, by `nvdisasm`, which Triton brings."""

from __future__ import annotations

import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

TIME_LIMIT_S = 60
REGISTER_BYTES = 4
LOCATION = re.compile(r'//## File "([^"]*)", line (\d+)')
LABEL = re.compile(r"^(\.L\w+):")
INSTRUCTION = re.compile(r"^\s+/\*[0-9a-f]{4,}\*/\s+(@!?U?P\w+ )?\s*([A-Z]\w*(?:\.\w+)*)(.*);")


@dataclass(frozen=True, slots=True)
class Instruction:
    """Instruction number `at`, with its operation and operands.

    Its `place` is file and line of the source. It is `guarded` where a predicate decides whether it runs.
    """

    at: int
    place: str
    guarded: bool
    operation: str
    operands: str


def disassembled(cubin: bytes) -> str | None:
    """Return the text of a cubin's instructions.

    None without a disassembler, or where it fails or takes too long.
    """
    from ioaware.compilation.toolchain import knobs  # it loads Triton, which reports of records do without

    tool = getattr(getattr(knobs.nvidia, "nvdisasm", None), "path", None)
    if not tool or not Path(tool).exists():
        return None
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.cubin"
        path.write_bytes(cubin)
        given = [tool, "-c", "-g", str(path)]
        try:
            done = subprocess.run(given, capture_output=True, text=True, timeout=TIME_LIMIT_S, check=False)  # noqa: S603 - Triton's
        except (OSError, subprocess.TimeoutExpired):  # bytes are known without it; only what the L1 keeps is not
            return None
    return done.stdout if done.returncode == 0 else None


def instructions_of(text: str) -> tuple[list[Instruction], dict[str, int]]:
    """Return the instructions, and the number of the one behind each label."""
    place, found, labels = "", list[Instruction](), dict[str, int]()
    for line in text.splitlines():
        if one := INSTRUCTION.match(line):
            found.append(Instruction(len(found), place, bool(one[1]), one[2], one[3]))
        elif one := LOCATION.search(line):
            place = f"{one[1].rpartition('/')[2]}:{one[2]}"
        elif one := LABEL.match(line):
            labels[one[1]] = len(found)
    return found, labels


def thread_bytes(operation: str) -> int:
    """Return the bytes that an access moves for each thread."""
    parts = operation.split(".")
    for name, size in (("128", 16), ("64", 8), ("U16", 2), ("S16", 2), ("U8", 1), ("S8", 1)):
        if name in parts:
            return size
    return REGISTER_BYTES
