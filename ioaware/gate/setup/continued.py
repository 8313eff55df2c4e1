"""Go on where an earlier `ioaware init` ran out of time.

The ledger says of which kernels no call was tried.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from ioaware.gate.repository.ledger import Ledger, ledger_text
from ioaware.gate.setup.gated_calls import NOT_TRIED


def not_tried(ledger: Ledger | None) -> set[str]:
    """Return the kernels of whose functions one was not tried."""
    entries = ledger.kernels.items() if ledger else ()
    return {kernel for kernel, entry in entries if entry.state == "pending" and entry.pending.endswith(NOT_TRIED)}


def free_path(root: Path, path: Path) -> Path:
    """Return the path of a file that does not exist yet.

    It has a number where this one does.
    """
    numbered = (path.with_stem(f"{path.stem}_{number}") for number in itertools.count(2))
    return next(one for one in itertools.chain([path], numbered) if not (root / one).exists())


def renewed(ledger: Ledger, pending: Mapping[str, str]) -> str:
    """Return the text of a ledger with why these kernels are pending now."""
    entries = {kernel: replace(entry, pending=pending.get(kernel, entry.pending)) for kernel, entry in ledger.kernels.items()}
    return ledger_text(Ledger(entries))
