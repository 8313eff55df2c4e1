"""Functions of CUDA's math library that torch has under another name, or in parts.

They take and return torch tensors. Names are those of `triton.language.extra.libdevice`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch as _torch
import triton.language as _tl

from ioaware.tracing.bessel_functions import jn, yn

torch: Any = _torch
tl: Any = _tl
Function = Callable[..., Any]

ROUND: dict[str, Function] = {"rn": torch.round, "rz": torch.trunc, "rd": torch.floor, "ru": torch.ceil}
INTEGERS = {
    "int": (tl.int32, torch.int32),
    "uint": (tl.uint32, torch.uint32),
    "ll": (tl.int64, torch.int64),
    "ull": (tl.uint64, torch.uint64),
}
FLOATS = {"float": (tl.float32, torch.float32), "double": (tl.float64, torch.float64)}


def _norm(*values: Any) -> Any:
    return torch.sqrt(sum(value * value for value in values))


def _reciprocal_norm(*values: Any) -> Any:
    return 1 / _norm(*values)


def _sad(x: Any, y: Any, z: Any) -> Any:
    return (torch.abs(x.long() - y.long()) + z.long()).to(x.dtype)


def _cbrt(x: Any) -> Any:
    return torch.sign(x) * torch.abs(x).double().pow(1 / 3).to(x.dtype)


def _tgamma(x: Any) -> Any:
    is_negative = (x < 0) & (torch.floor(x) % 2 != 0)
    return torch.where(is_negative, -1.0, 1.0).to(x.dtype) * torch.exp(torch.lgamma(x))


def _exponent(x: Any) -> Any:
    return torch.frexp(x)[1] - 1


def _bits(x: Any) -> Any:
    """Return the value of an integer's bits, without sign."""
    return x.long() & (2 ** (8 * x.element_size()) - 1)


def _popc(x: Any) -> Any:
    ones: Any = sum((_bits(x) >> at) & 1 for at in range(8 * x.element_size()))
    return ones.int()


def _clz(x: Any) -> Any:
    width = 8 * x.element_size()
    return sum((_bits(x) >> at == 0).int() for at in range(width))


def _ffs(x: Any) -> Any:
    lowest = _bits(x) & -_bits(x)
    return torch.where(lowest == 0, 0, torch.frexp(lowest.double())[1]).int()


def _mulhi(x: Any, y: Any) -> Any:
    return ((x.long() * y.long()) >> 32).to(x.dtype)


def _signbit(x: Any) -> Any:
    return torch.signbit(x).int()


def _to_long(rounded: Function) -> Function:
    def convert(x: Any) -> Any:
        return rounded(x).long()

    return convert


def _round_away(x: Any) -> Any:
    return torch.trunc(x + torch.copysign(torch.full_like(x, 0.5), x))


def _converted(kind: Any, rounding: Function | None) -> Function:
    def convert(x: Any) -> Any:
        return (rounding(x).double().long() if rounding else x).to(kind)

    return convert


def _viewed(kind: Any) -> Function:
    def view(x: Any) -> Any:
        return x.contiguous().view(kind)

    return view


def _byte_perm(x: Any, y: Any, selector: Any) -> Any:
    """Return four bytes of the eight of y and x; a digit of the selector chooses each."""
    both = _bits(y) << 32 | _bits(x)
    chosen = (((both >> 8 * ((_bits(selector) >> 4 * at) & 7)) & 255) << 8 * at for at in range(4))
    found: Any = sum(chosen)
    return found.to(torch.int32)


def _brev(x: Any) -> Any:
    width = 8 * x.element_size()
    found: Any = sum(((x.long() >> at) & 1) << (width - 1 - at) for at in range(width))
    return found.to(x.dtype)


def _low_word(x: Any) -> Any:
    return x.contiguous().view(torch.int64).to(torch.int32)


def _high_word(x: Any) -> Any:
    return (x.contiguous().view(torch.int64) >> 32).to(torch.int32)


def _double_of_words(high: Any, low: Any) -> Any:
    return (high.long() << 32 | _bits(low)).view(torch.float64)


def _reciprocal_high_word(x: Any) -> Any:
    """Return 1 / x with the lower 32 bits 0; CUDA approximates the upper ones."""
    return _double_of_words(_high_word(1 / x), torch.zeros_like(x, dtype=torch.int32))


UNARY: dict[str, Callable[[Any], Any]] = {
    "saturatef": lambda x: torch.clamp(x, 0, 1),
    "sinpi": lambda x: torch.sin(math.pi * x),
    "cospi": lambda x: torch.cos(math.pi * x),
    "cbrt": _cbrt,
    "rcbrt": lambda x: 1 / _cbrt(x),
    "j0": torch.special.bessel_j0,
    "j1": torch.special.bessel_j1,
    "y0": torch.special.bessel_y0,
    "y1": torch.special.bessel_y1,
    "cyl_bessel_i0": torch.special.i0,
    "cyl_bessel_i1": torch.special.i1,
    "erfcx": torch.special.erfcx,
    "erfcinv": lambda x: torch.erfinv(1 - x),
    "normcdf": torch.special.ndtr,
    "normcdfinv": torch.special.ndtri,
    "tgamma": _tgamma,
    "logb": lambda x: _exponent(x).to(x.dtype),
    "finitef": torch.isfinite,
    "isfinited": torch.isfinite,
    "brev": _brev,
    "rcp64h": _reciprocal_high_word,
}
BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "rhypot": lambda x, y: 1 / torch.hypot(x, y),
    "ldexp": lambda x, n: torch.ldexp(x, n).to(x.dtype),
    "scalbn": lambda x, n: torch.ldexp(x, n).to(x.dtype),
    "fdim": lambda x, y: torch.clamp(x - y, min=0),
    "hadd": lambda x, y: ((x.long() + y.long()) >> 1).to(x.dtype),
    "rhadd": lambda x, y: ((x.long() + y.long() + 1) >> 1).to(x.dtype),
    "mulhi": _mulhi,
    "mul24": lambda x, y: x * y,
    "jn": jn,
    "yn": yn,
}
FUNCTIONS: dict[str, Function] = {
    **UNARY,
    **BINARY,
    "norm3d": _norm,
    "norm4d": _norm,
    "rnorm3d": _reciprocal_norm,
    "rnorm4d": _reciprocal_norm,
    "sad": _sad,
    "byte_perm": _byte_perm,
}
"""Functions whose result has the type of their first argument.

A truth value is an integer.
"""

TYPED: dict[str, tuple[Function, Any]] = {
    "clz": (_clz, tl.int32),
    "popc": (_popc, tl.int32),
    "ffs": (_ffs, tl.int32),
    "ilogb": (_exponent, tl.int32),
    "signbit": (_signbit, tl.int32),
    "double2loint": (_low_word, tl.int32),
    "double2hiint": (_high_word, tl.int32),
    "hiloint2double": (_double_of_words, tl.float64),
    "llrint": (_to_long(torch.round), tl.int64),
    "llround": (_to_long(_round_away), tl.int64),
    "int_as_float": (_viewed(torch.float32), tl.float32),
    "uint_as_float": (_viewed(torch.float32), tl.float32),
    "float_as_int": (_viewed(torch.int32), tl.int32),
    "float_as_uint": (_viewed(torch.uint32), tl.uint32),
    "longlong_as_double": (_viewed(torch.float64), tl.float64),
    "double_as_longlong": (_viewed(torch.int64), tl.int64),
    **{
        f"{source}2{name}_{mode}": (_converted(kind, rounding), result)
        for source in FLOATS
        for name, (result, kind) in INTEGERS.items()
        for mode, rounding in ROUND.items()
    },
    **{
        f"{source}2{name}_{mode}": (_converted(kind, None), result)
        for source in (*INTEGERS, "double")
        for name, (result, kind) in FLOATS.items()
        for mode in ROUND
        if source != name
    },
}
"""Functions and the types of their results."""
