"""Read registers and local memory of a kernel from its cubin.

They are the numbers that the driver reports after loading.

A cubin is a 64-bit ELF file. Its section `.nv.info` is a list of attributes. Each has a format byte, an attribute byte, and
either a 16-bit value or a 16-bit size with that many bytes. The two attributes read here hold a function's symbol and a number.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from ioaware.errors import DataError

SIZED = 4
FRAME_BYTES, REGISTERS = 0x11, 0x2F


def resources(cubin: bytes) -> tuple[int, int]:
    """Return registers and local-memory bytes per thread.

    They are the largest of its functions. Raises `DataError`.
    """
    try:
        attributes = list(_attributes(_section(cubin, b".nv.info")))
    except (struct.error, ValueError, IndexError) as error:
        raise DataError(
            f"the compiled kernel is not a cubin this version can read ({error})",
            "Use a Triton that ioaware is tested with: see ioaware doctor.",
        ) from error
    largest = {key: max((value for name, value in attributes if name == key), default=0) for key in (REGISTERS, FRAME_BYTES)}
    return largest[REGISTERS], largest[FRAME_BYTES]


def _section(elf: bytes, wanted: bytes) -> bytes:
    """Return the bytes of a section of a little-endian ELF64 file."""
    if elf[:5] != b"\x7fELF\x02":
        raise ValueError("not a 64-bit ELF file")
    (table,) = struct.unpack_from("<Q", elf, 40)
    size, count, names_at = struct.unpack_from("<HHH", elf, 58)
    headers = [struct.unpack_from("<IIQQQQ", elf, table + index * size) for index in range(count)]
    names = headers[names_at][4]
    for name, _, _, _, start, length in headers:
        end = elf.index(b"\0", names + name)
        if elf[names + name : end] == wanted:
            return elf[start : start + length]
    raise ValueError(f"no section {wanted.decode()}")


def _attributes(info: bytes) -> Iterator[tuple[int, int]]:
    """Yield attribute and value of every entry that holds a symbol and a value."""
    at = 0
    while at + 4 <= len(info):
        form, attribute, size = struct.unpack_from("<BBH", info, at)
        at += 4
        if form == SIZED:
            if size == 8:
                yield attribute, struct.unpack_from("<II", info, at)[1]
            at += size
