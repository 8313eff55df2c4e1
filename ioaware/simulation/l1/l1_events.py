"""Turn the accesses of programs into events of the L1 replay.

They are chunks of lines, with times and uses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ioaware.compilation.instructions.line_sharing import start_numbers
from ioaware.machine.model import SECTOR_BYTES
from ioaware.simulation.addresses.address_blocks import Masks, Rectangle, masks
from ioaware.simulation.l1.l1_sets import WHOLE
from ioaware.simulation.l1.l1_shape import LINE_BYTES, LINE_SECTORS, MAX_CHUNK_SECTORS
from ioaware.simulation.schedule import Schedule
from ioaware.simulation.streams import Numbers, ReferenceStream, Times

if TYPE_CHECKING:
    from ioaware.simulation.spills.local_memory import LocalMemory  # it loads Triton

TENSOR_BYTES = 1 << 44
"""Distance of two tensors in the addresses of this model."""
LOCAL_TENSOR = 1 << 12
"""Number of local memory beside tensors."""


@dataclass(frozen=True, slots=True)
class L1Access:
    """Access to a tensor, in chunks of so many sectors, with a use of `l1_sets`.

    `again` is the share of its lines that several instructions touch, by where their row begins, one for each of `STARTS`.
    """

    number: int
    tensor: int
    sectors: int
    use: int
    again: Sequence[float]


@dataclass(frozen=True, slots=True)
class L1Events:
    """Chunk accesses in columns.

    `lines` are those of each chunk, and `use` says how long it is kept, by the numbers of `l1_sets`. `again` is the share of
    the lines that hit at once, of `WHOLE`.
    """

    sm: Numbers
    time: Times
    order: Numbers
    chunk: Numbers
    lines: Numbers
    mask: Masks
    use: NDArray[np.int8]
    again: NDArray[np.int16]


def tile_events(stream: ReferenceStream, part: Rectangle, access: L1Access, sm_of: Numbers) -> L1Events:
    """Return the chunks of a part of a stream; `sm_of` are the SMs of the programs."""
    which, starts, chunk, mask = chunks(stream.base, part, access.sectors)
    order, lines = (np.full(which.size, value, dtype=np.int64) for value in (access.number, access.sectors // LINE_SECTORS))
    use = np.full(which.size, access.use, dtype=np.int8)
    by_start = np.round(np.array(access.again) * WHOLE).astype(np.int16)
    again = by_start[start_numbers(starts)]
    first = access.tensor * TENSOR_BYTES // (access.sectors * SECTOR_BYTES)
    return L1Events(sm_of[stream.program[which]], stream.time[which], order, first + chunk, lines, mask, use, again)


def chunks(base: Numbers, part: Rectangle, sectors: int) -> tuple[Numbers, Numbers, Numbers, Masks]:
    """Return the chunks of a rectangle at these addresses.

    They come with their execution, the address where their row begins, and the mask of their sectors.
    """
    rows, run, pitch = (1, part.bytes, part.bytes) if part.run == part.pitch else (part.rows, part.run, part.pitch)
    starts = ((base + part.offset)[:, None] + pitch * np.arange(rows, dtype=np.int64)[None, :]).ravel()
    low, high = starts // SECTOR_BYTES, -(-(starts + run) // SECTOR_BYTES)
    first = low // sectors
    spans = (high - 1) // sectors - first + 1
    which = np.repeat(np.arange(low.size), spans)
    chunk = first[which] + np.arange(which.size) - (np.cumsum(spans) - spans)[which]
    mask = masks(np.maximum(low[which] - chunk * sectors, 0), np.minimum(high[which] - chunk * sectors, sectors))
    return which // rows, starts[which], chunk, mask


def count_local_events(local: LocalMemory) -> int:
    """Return how many chunks of local memory a program accesses."""
    return local.accesses.words.size * _pieces(local)


def local_events(
    local: LocalMemory, programs: Schedule, durations: Times, kept: Numbers, sm_of: Numbers, order: int
) -> L1Events:
    """Return the accesses of the `kept` programs to local memory.

    It belongs to the slot of a program. The lines of a word lie together. Its accesses are at shares of the program's duration.
    """
    words, pieces = local.accesses.words, _pieces(local)
    lines = -(-local.word_bytes // LINE_BYTES // pieces)
    program, at = np.repeat(kept, words.size * pieces), np.tile(np.repeat(np.arange(words.size), pieces), kept.size)
    piece = np.tile(np.arange(pieces), kept.size * words.size)
    first = LOCAL_TENSOR * TENSOR_BYTES // LINE_BYTES // lines
    return L1Events(
        sm_of[program],
        programs.times(program, local.accesses.share[at] * durations[program]),
        np.full(program.size, order),
        first + (programs.slot[program] * local.words + words[at]) * pieces + piece,
        np.full(program.size, lines),
        np.full(program.size, (1 << lines * LINE_SECTORS) - 1, dtype=np.uint64),
        local.accesses.uses[at],
        np.zeros(program.size, dtype=np.int16),
    )


def _pieces(local: LocalMemory) -> int:
    """Return in how many chunks the lines of a word lie."""
    return -(-local.word_bytes // (MAX_CHUNK_SECTORS * SECTOR_BYTES))
