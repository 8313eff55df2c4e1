"""Evaluate the bytes of one access of a launch."""

from __future__ import annotations

from typing import cast

from ioaware.analysis.formulas.evaluate import OutsideFormulaError
from ioaware.analysis.ir.accesses.kernel_traffic import Access
from ioaware.derivation.derived import Derived
from ioaware.machine.model import SECTOR_BYTES


def access_bytes(access: Access, derived: Derived) -> int | None:
    """Return the bytes of an access's sectors, or of its elements.

    They are those of elements where its sectors are unknown, and None where data decide their number.
    """
    for count, size in ((access.sectors, SECTOR_BYTES), (access.elements, access.element_bytes)):
        if count is not None and count.symbols <= derived.values.keys():
            try:
                return size * cast(int, count.evaluate(derived.values))
            except (OutsideFormulaError, ValueError):
                continue
    return None
