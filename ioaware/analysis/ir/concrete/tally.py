"""Count bytes, sectors and FLOPs of a plain interpretation.

Accesses outside their tensor are counted too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
SECTOR = 32


class UndecidedError(Exception):
    """An address, mask or bound depends on a value that is not computed.

    The interpretation does not compute it.
    """


class TooLongError(Exception):
    """The launch exceeds the limit of the interpretation."""


class UnsupportedOperationError(Exception):
    """An operation has no rule here."""


@dataclass
class Tally:
    """Requests of one launch.

    `beyond` holds the lines of accesses outside their tensor, with the lanes outside.

    Sectors cover all accesses only where `sectors_known`.
    """

    read_bytes: int = 0
    write_bytes: int = 0
    atomic_bytes: int = 0
    read_sector_bytes: int = 0
    write_sector_bytes: int = 0
    flops: int = 0
    beyond: dict[str, int] = field(default_factory=dict[str, int])
    sectors_known: bool = True

    def add_bytes(self, kind: str, mask: Array, width: int) -> None:
        """Count one execution of an access whose addresses are not known."""
        setattr(self, f"{kind}_bytes", getattr(self, f"{kind}_bytes") + int(np.count_nonzero(mask)) * width)
        self.sectors_known &= kind == "atomic"

    def add(self, kind: str, addresses: Array, mask: Array, width: int) -> None:
        """Count one execution of an access: bytes of active lanes, and their sectors.

        The sectors are the distinct ones that these lanes touch.
        """
        active = addresses[mask]
        setattr(self, f"{kind}_bytes", getattr(self, f"{kind}_bytes") + int(active.size) * width)
        if kind != "atomic":
            touched = np.unique(np.concatenate((active // SECTOR, (active + width - 1) // SECTOR)))
            setattr(self, f"{kind}_sector_bytes", getattr(self, f"{kind}_sector_bytes") + SECTOR * int(touched.size))


@dataclass
class Memory:
    """Memory of the arguments: argument number k begins at address (k + 1) 2^44.

    Contents are bytes where known.
    """

    contents: list[Array | None]
    sizes: list[int | None]

    @staticmethod
    def start(argument: int) -> int:
        """Return the address of an argument's memory."""
        return (argument + 1) << 44

    def outside(self, addresses: Array, width: int) -> int:
        """Return how many of these elements lie outside their tensor."""
        if not addresses.size:
            return 0
        argument, offset = (addresses >> 44) - 1, addresses & ((1 << 44) - 1)
        sizes = np.array([(1 << 43) if size is None else size for size in (*self.sizes, 0)], np.int64)
        known = (argument >= 0) & (argument < len(self.sizes))
        return int(np.count_nonzero(~known | (offset + width > sizes[np.where(known, argument, -1)])))

    def load(self, addresses: Array, mask: Array, kind: np.dtype[Any]) -> Array | None:
        """Return the elements at active addresses, 0 elsewhere.

        None where contents are unknown or outside the tensor.
        """
        elements = np.zeros((np.count_nonzero(mask), kind.itemsize), np.uint8)
        for place, held, at in self._held(addresses[mask], kind.itemsize):
            if held is None:
                return None
            elements[place] = held[at]
        result = np.zeros(addresses.shape, kind)
        result[mask] = elements.view(kind)[:, 0]
        return result

    def store(self, addresses: Array, mask: Array, values: Array | None, kind: np.dtype[Any] | None) -> None:
        """Write elements; unknown values make the memory unknown."""
        if values is None or kind is None:
            self.forget(addresses[mask])
            return
        elements = np.ascontiguousarray(np.broadcast_to(values, addresses.shape)[mask], kind)
        for place, held, at in self._held(addresses[mask], kind.itemsize):
            if held is not None:
                held[at] = elements[place, None].view(np.uint8)

    def forget(self, addresses: Array) -> None:
        """Make the contents of the arguments' memory at these addresses unknown."""
        for argument in np.unique((addresses >> 44) - 1).tolist():
            if 0 <= argument < len(self.contents):
                self.contents[argument] = None

    def _held(self, addresses: Array, width: int) -> Iterator[tuple[Array, Array | None, Array]]:
        """Yield the elements of each argument.

        They come as their numbers, the contents of the argument, and the places of their bytes there. The contents are None
        where they are unknown. Elements outside the tensor come apart, without contents.
        """
        arguments: Array = (addresses >> 44) - 1
        offsets: Array = addresses & ((1 << 44) - 1)
        present: list[int] = np.unique(arguments).tolist()
        for argument in present:
            held = self.contents[argument] if 0 <= argument < len(self.contents) else None
            size = 0 if held is None else held.size
            inside: NDArray[np.bool_] = np.asarray(offsets + width <= size)
            parts: tuple[tuple[Array | None, NDArray[np.bool_]], ...] = ((held, inside), (None, ~inside))
            for contents, chosen in parts:
                place = np.flatnonzero((arguments == argument) & chosen)
                if place.size:
                    yield place, contents, offsets[place, None] + np.arange(width)
