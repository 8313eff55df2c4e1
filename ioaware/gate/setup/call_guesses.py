"""Guess calls of a host function from its source.

Tensors with named sizes, numbers and flags.

A guess is tried before it is used: the kernels are traced at small sizes, where every address is checked, and then derived.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ioaware.gate.formulas.formula_reader import WORDS
from ioaware.gate.setup.host_functions import HostFunction
from ioaware.gate.setup.host_params import DEVICE, Constant, HostParam

DTYPES = ("float16", "float32")
"""Types to try where the source names none.

Some functions of Triton do not take float16.
"""
MOST_GUESSES = 64
NAMES = {1: ("n",), 2: ("rows", "cols"), 3: ("batch", "rows", "cols"), 4: ("batch", "heads", "seq_len", "head_dim")}
SIZES = {1: (4096,), 2: (4096, 2048), 3: (8, 1024, 512), 4: (2, 8, 1024, 64)}
SMALL = {1: (256,), 2: (32, 64), 3: (2, 32, 64), 4: (2, 4, 32, 64)}
FURTHER, FURTHER_SMALL = (1536, 768, 384, 192, 96), (16, 128, 8, 512, 1024)
"""Sizes of the tensor of the most dimensions, then of further names.

The sizes of the tensor are given by its number of dimensions. No two are equal, since equal sizes would let a tensor of the
wrong shape pass.
"""
FLOAT = 0.5
INTS = (16, 2)
"""Values of an integer that no caller gives, as a number of groups."""
RANKS = (2, 1, 3, 4)
"""Numbers of dimensions, the likeliest first.

A matrix comes before a vector: where both work, the formula of a matrix has one size more.
"""


@dataclass(frozen=True, slots=True)
class Guess:
    """Arguments by name.

    A tuple of size names is a tensor, anything else the value itself. `sizes` are those of the names. `dtypes` are those of
    the parameters that are tensors.
    """

    arguments: dict[str, tuple[str, ...] | Constant]
    sizes: dict[str, int]
    small: dict[str, int]
    dtypes: dict[str, str]

    def params(self) -> dict[str, Constant]:
        """Return the arguments as parameters of a target.

        Sizes are left out, and the device, which a target has from ioaware.
        """
        return {
            name: f"{self.dtypes[name]}[{', '.join(value)}]" if isinstance(value, tuple) else value
            for name, value in self.arguments.items()
            if name != DEVICE
        }


def guesses(function: HostFunction) -> Iterator[Guess]:
    """Yield calls to try, the likeliest first; none where a parameter needs a person.

    Of several parameters each is changed alone before two are.
    """
    known = next((param.dtype for param in function.params if param.dtype not in ("", "int64")), "")
    calls = [
        (later, shape, [[shape] if param is chosen else list(_forms(param, shape)) for param in function.params], usual)
        for first, usual in enumerate([known] if known else DTYPES)
        for later, (chosen, shape) in enumerate(_primaries(function.params), first)
    ]
    for total in range(max((later + sum(map(len, forms)) for later, _, forms, _ in calls), default=0)):
        for later, shape, forms, usual in calls:
            dtypes = {param.name: param.dtype or usual for param in function.params}
            for values in _chosen(forms, total - later):
                arguments = dict(zip((param.name for param in function.params), values, strict=True))
                yield Guess(arguments, *_sized(arguments, shape), dtypes)


def _chosen(forms: Sequence[Sequence[Any]], total: int) -> Iterator[tuple[Any, ...]]:
    """Yield one of each of the forms, whose numbers have this sum."""
    if not forms:
        if total == 0:
            yield ()
        return
    for number, value in enumerate(forms[0][: total + 1]):
        yield from ((value, *rest) for rest in _chosen(forms[1:], total - number))


def first_guesses(function: HostFunction) -> list[Guess]:
    """Return at most as many guesses as are tried."""
    return list(itertools.islice(guesses(function), MOST_GUESSES))


def needs_person(function: HostFunction) -> str:
    """Return why no call of a function can be guessed; empty where some can."""
    for param in function.params:
        if param.kind == "text" and not param.values:
            return f"`{param.name}` is a value that a person must choose"
    if not any(param.kind in ("tensor", "unknown") for param in function.params):
        return "it takes no tensor"
    return ""


def _primaries(params: Sequence[HostParam]) -> Iterator[tuple[HostParam, tuple[str, ...]]]:
    """Yield the tensor that the others are guessed from, in each of its shapes.

    It is the one of which the source has most sizes.
    """
    tensors = [param for param in params if param.kind == "tensor"] or [param for param in params if param.kind == "unknown"]
    if tensors:
        chosen = max(tensors, key=lambda param: (len(param.sizes), param.least_rank))
        yield from ((chosen, shape) for shape in _named(chosen))


def _named(param: HostParam) -> Iterator[tuple[str, ...]]:
    """Yield the size names that a tensor may have.

    As its source names them, general names elsewhere.
    """
    for rank in (param.rank,) if param.rank else RANKS:
        if rank >= param.least_rank and rank in NAMES:
            names = tuple(param.sizes.get(at, general) for at, general in enumerate(NAMES[rank]))
            if len(set(names)) == rank and not any(name in WORDS or not name.isascii() for name in names):
                yield names


def _forms(param: HostParam, primary: tuple[str, ...]) -> Iterator[tuple[str, ...] | Constant]:
    """Yield the values that a parameter may have beside the primary tensor.

    Small tensors first, since larger ones pass too.
    """
    yield from param.values
    if param.kind == "bool":
        yield from (value for value in (False, True) if value not in param.values)
    if param.kind == "int" and not param.values:
        yield from INTS
    if param.kind in ("float", "unknown") and not param.values:
        yield FLOAT
    if param.kind not in ("tensor", "unknown"):
        return
    shapes = [*_filled(param, primary), primary[-1:], primary[:1], primary[-2:], primary]
    yield from (
        shape
        for shape in dict.fromkeys(shapes)
        if len(shape) >= param.least_rank and (param.rank is None or len(shape) == param.rank)
    )


def _filled(param: HostParam, primary: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Yield shapes with the names that the source has.

    Other sizes have names of the primary tensor.
    """
    rank = param.rank or param.least_rank
    if param.sizes and rank in NAMES:
        choices = [(param.sizes[at],) if at in param.sizes else (*reversed(primary), NAMES[rank][at]) for at in range(rank)]
        yield from (shape for shape in itertools.product(*choices) if len(set(shape)) == rank)


def _sized(arguments: dict[str, tuple[str, ...] | Constant], primary: tuple[str, ...]) -> tuple[dict[str, int], dict[str, int]]:
    """Return the sizes of all names, and small ones."""
    others = [name for value in arguments.values() if isinstance(value, tuple) for name in value if name not in primary]
    names = [*primary, *dict.fromkeys(others)]
    rank = len(primary)
    return (
        dict(zip(names, (*SIZES[rank], *FURTHER), strict=False)),
        dict(zip(names, (*SMALL[rank], *FURTHER_SMALL), strict=False)),
    )
