"""Read the text of training: the sources of Python's standard library.

A token is a byte, so no tokeniser is needed. Every machine with Python has the text.
"""

from __future__ import annotations

import sysconfig
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

TEXT = "the sources of Python's standard library, a byte a token"


@cache
def standard_library_text() -> bytes:
    """Return the modules at the top of the standard library, in order of their names."""
    folder = Path(sysconfig.get_path("stdlib"))
    return b"\n".join(path.read_bytes() for path in sorted(folder.glob("*.py")))


def draw_batch(text: torch.Tensor, batch: int, seq_len: int, generator: torch.Generator) -> torch.Tensor:
    """Return `batch` random pieces of a text of tokens, [batch, seq_len]."""
    import torch

    starts = torch.randint(len(text) - seq_len, (batch, 1), generator=generator)
    return text[starts + torch.arange(seq_len)].long()
