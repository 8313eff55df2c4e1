"""Let the text of a fake tensor be another one at each seed.

Nothing says what a real tensor would print. A launch that depends on it then differs between runs.
"""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import torch._tensor_str as _tensor_str
from torch._subclasses.fake_tensor import FakeTensor

from ioaware._monkeypatch import Patches

_Tensor: Any = torch.Tensor
TORCH = Path(torch.__file__).parent
BETWEEN = (*(str(TORCH / name) for name in ("_tensor.py", "_tensor_str.py", "overrides.py")), str(Path(__file__).parents[1]))
"""Files between a function that prints and the text."""
CONTENTS = ("...", "0., 1.", "nan", "-inf, 2.5000e-01, 3.0000e+10", "[True], [False]", "-7, 12")
"""Elements that tensors print, by seed."""
NUMBERS = (1.0, 0.0, -2.5, 12345.678, float("nan"), float("inf"))
INTEGERS = (1, 0, -2, 12345, 7, 2**31)
"""Numbers that tensors of one element print, by seed."""


PRINTS = "prints tensors"
NO_COPIES = "no tensor is printed"
"""Begin of the note on host code that prints one.

On a GPU torch copies what it prints to the host, by operators of its own.
"""


class PrintedTensors:
    """Texts of fake tensors; `used` says whether one was printed."""

    def __init__(self, seed: int) -> None:
        self.used = False
        self._seed = seed

    def text(self, tensor: Any) -> str:
        """Return what `repr` gives, in the form of a real tensor."""
        self.used = True
        dtype = "" if tensor.dtype in (torch.get_default_dtype(), torch.int64, torch.bool) else f", dtype={tensor.dtype}"
        device = "" if tensor.is_cpu else f", device='{tensor.device}'"
        text = f"tensor([{CONTENTS[self._seed % len(CONTENTS)]}]{device}{dtype})"
        return f"Parameter containing:\n{text}" if isinstance(tensor, torch.nn.Parameter) else text

    def formatted(self, tensor: Any, form: str) -> str:
        """Return a tensor of one element in a format.

        Raises as a number does where it has no such format.
        """
        self.used = True
        if tensor.dtype is torch.bool:
            return format(bool(self._seed % 2), form)
        numbers = NUMBERS if tensor.is_floating_point() else INTEGERS
        return format(numbers[self._seed % len(numbers)], form)


@contextmanager
def seeded_printed_tensors(seed: int) -> Generator[PrintedTensors]:
    """Inside the block, print fake tensors as host code would see real ones."""
    printed = PrintedTensors(seed)

    def text(tensor: Any, *, tensor_contents: Any = None) -> str:
        if isinstance(tensor, FakeTensor) and not _is_for_torch():
            return printed.text(tensor)
        return plain_text(tensor, tensor_contents=tensor_contents)

    def formatted(tensor: Any, form: str) -> str:
        if isinstance(tensor, FakeTensor) and tensor.dim() == 0 and not _is_for_torch():
            return printed.formatted(tensor, form)
        return plain_format(tensor, form)

    with Patches() as patches:
        plain_text = patches.set(_tensor_str, "_str", text)
        plain_format = patches.set(_Tensor, "__format__", formatted)
        yield printed


def _is_for_torch() -> bool:
    """Return whether torch itself prints, as the compiler does for its logs."""
    caller: Any = sys._getframe(2)  # pyright: ignore[reportPrivateUsage]
    while caller.f_back is not None and caller.f_code.co_filename.startswith(BETWEEN):
        caller = caller.f_back
    return caller.f_code.co_filename.startswith(str(TORCH))
