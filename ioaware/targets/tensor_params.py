"""Parse tensors in text: `f16[rows=4096, cols=2048]`.

Its named sizes are parameters.

A name is one size wherever it occurs, in other tensors and as an argument of the function. It is given a value once.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ioaware.display.text import shorten
from ioaware.errors import UsageError
from ioaware.params import DTYPE_ALIASES
from ioaware.result import ParamValue

FORM = re.compile(r"\s*([a-zA-Z]\w*)\s*\[([^\[\]]*)\]\s*")
SHORT_DTYPE = re.compile(r"(f|i|u)(8|16|32|64)")
KINDS = {"f": "float", "i": "int", "u": "uint"}
MAX_FLOATS = 2**16
"""Most elements of a fake tensor of floats whose values are known, too."""
MAX_DIGITS = 18
"""Digits of a size that 64 bits hold."""
EXAMPLE = "A tensor is written as in f16[rows=4096, cols=2048]; bf16, f32, i32, i64, bool and torch's names are types."


@dataclass(frozen=True, slots=True)
class TensorParam:
    """A tensor's element type (a name of torch) and its sizes.

    Sizes are numbers, or names of parameters.
    """

    dtype: str
    sizes: tuple[int | str, ...]

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join(map(str, self.sizes))}]"

    def make(self, values: Mapping[str, Any], device: str) -> Any:
        """Return a tensor of plausible values.

        They are normal numbers from torch's generator, zeros for integers, true for Booleans. The latter two are marked as
        placeholders (`is_placeholder`): nothing that follows from them is exact.
        """
        import torch

        kind: Any = getattr(torch, self.dtype)
        sizes = [values[size] if isinstance(size, str) else size for size in self.sizes]
        if kind.is_floating_point:
            # float32 for every type, so that a wider reference has the same numbers
            drawn = kind if _has_no_values(sizes) else torch.float32
            return torch.randn(sizes, dtype=drawn, device=device).to(kind)
        made: Any = torch.full(sizes, kind is torch.bool, dtype=kind, device=device)
        made.is_placeholder = True
        return made


def _has_no_values(sizes: Sequence[Any]) -> bool:
    """Return whether a tensor made now of random floats has no values at all.

    Then it needs no conversion: one of symbolic sizes takes a millisecond.
    """
    from torch import _C

    torch_c: Any = _C
    if torch_c._get_dispatch_mode(torch_c._TorchDispatchModeKey.FAKE) is None:
        return False
    return any(type(size) is not int for size in sizes) or math.prod(sizes) > MAX_FLOATS


def is_placeholder(tensor: object) -> bool:
    """Return whether the integers of a tensor stand for values that were not given."""
    return getattr(tensor, "is_placeholder", False)


def parse_tensor(text: object) -> tuple[TensorParam, dict[str, int]] | None:
    """Return the tensor that `text` describes and its sizes that have a value.

    None for any other value.

    Raises `UsageError` for a malformed tensor.
    """
    if not isinstance(text, str) or not (match := FORM.fullmatch(text)):
        return None
    dtype = _dtype_name(match[1])
    if dtype is None:
        return None
    sizes: list[int | str] = []
    given: dict[str, int] = {}
    for part in filter(None, map(str.strip, match[2].split(","))):
        name, equals, number = (word.strip() for word in part.partition("="))
        value = number if equals else name
        if value.replace("_", "").isdecimal() and len(value) > MAX_DIGITS:
            raise UsageError(f"{shorten(value, 60)} is too large for a size", EXAMPLE)
        if name.isidentifier() and not (equals or name.isdigit()):
            sizes.append(name)
        elif value.replace("_", "").isdecimal() and (name.isidentifier() or not equals):
            sizes.append(name if equals else int(value))
            given |= {name: int(value)} if equals else {}
        else:
            raise UsageError(f"{part!r} in {text!r} is not a size", EXAMPLE)
    return TensorParam(dtype, tuple(sizes)), given


def _dtype_name(word: str) -> str | None:
    import torch

    short = SHORT_DTYPE.fullmatch(word)
    name = DTYPE_ALIASES.get(word, KINDS[short[1]] + short[2] if short else word)
    return name if isinstance(getattr(torch, name, None), torch.dtype) else None


def split_tensors(given: Mapping[str, ParamValue], arguments: Iterable[str]) -> tuple[dict[str, ParamValue], dict[str, int]]:
    """Return the function's own parameters, and the sizes.

    Sizes are those that are none of its `arguments`.

    The first has the tensors in canonical form, without values of sizes. Raises `UsageError` for a size without a value, or
    with two.
    """
    own, names = dict(given), frozenset(arguments)
    inline: dict[str, int] = {}
    used: dict[str, str] = {}
    for label, value in given.items():
        if (parsed := parse_tensor(value)) is None:
            continue
        tensor, sizes = parsed
        own[label] = str(tensor)
        used |= {size: label for size in tensor.sizes if isinstance(size, str)}
        for size, number in sizes.items():
            if inline.setdefault(size, number) != number:
                raise UsageError(f"{size} is {inline[size]} and {number}", "A name stands for one size.")
    sizes: dict[str, int] = {}
    for size, label in used.items():
        if size in names:
            if size not in own and size in inline:
                own[size] = inline[size]
        elif (value := _size(own.pop(size, inline.get(size)))) is not None:
            sizes[size] = value
        else:
            raise UsageError(f"{size} of {label} has no value", f"Give it: -p {size}=..., or in the tensor: {size}=...")
    return own, sizes


def _size(value: ParamValue) -> int | None:
    """Return a size given as a number or as text."""
    word = str(value).replace("_", "")
    return int(word) if word.isdecimal() else None
