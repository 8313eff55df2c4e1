"""Digest the machine code in a cubin without symbol names and line tables."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

INSTRUCTION_BYTES = 16
"""Of every instruction since Volta, its scheduling control bits included."""


@dataclass(frozen=True, slots=True)
class Section:
    """A section of an ELF file."""

    name: str
    content: bytes


def sections(cubin: bytes) -> Iterator[Section]:
    """Read the sections of a 64-bit little-endian ELF file.

    Raises `ValueError` for anything else.
    """
    if cubin[:6] != b"\x7fELF\x02\x01":
        raise ValueError("not a 64-bit little-endian ELF file")
    (table,) = struct.unpack_from("<Q", cubin, 0x28)
    entry_bytes, count, names_at = struct.unpack_from("<HHH", cubin, 0x3A)
    headers = [struct.unpack_from("<IIQQQQII", cubin, table + i * entry_bytes) for i in range(count)]
    names = cubin[headers[names_at][4] :]
    for name, kind, _, _, offset, size, *_ in headers:
        content = b"" if kind == 8 else cubin[offset : offset + size]  # SHT_NOBITS occupies nothing in the file
        yield Section(names[name : names.index(b"\0", name)].decode(), content)


@dataclass(frozen=True, slots=True)
class MachineCode:
    """How many instructions a kernel has, and digests of them and of its constants."""

    instructions: int
    code_sha256: str
    constants_sha256: str


def machine_code(cubin: bytes) -> dict[str, Any]:
    """Digest the code of a cubin with one kernel.

    The code's bytes name no symbol: names stand in other sections.
    """
    found = list(sections(cubin))
    code = [section for section in found if section.name.startswith(".text.")]
    constants = [section for section in found if section.name.startswith((".nv.constant", ".nv.global.init"))]
    digest = MachineCode(
        instructions=sum(len(section.content) for section in code) // INSTRUCTION_BYTES,
        code_sha256=_sha256(code),
        constants_sha256=_sha256(constants),
    )
    return asdict(digest)


def _sha256(parts: list[Section]) -> str:
    return hashlib.sha256(b"".join(hashlib.sha256(part.content).digest() for part in parts)).hexdigest()
