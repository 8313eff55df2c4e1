"""Run CUDA's math library on the CPU for Triton's interpreter.

Kernels know it as `triton.language.extra.libdevice`.

The compiler replaces the stubs of that module by the target's functions; in the interpreter a stub returns None.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import torch as _torch
import triton.language as _tl
from triton.runtime import interpreter as _interpreter

from ioaware._monkeypatch import Patches
from ioaware.errors import UsageError
from ioaware.tracing import libdevice_functions
from ioaware.tracing.libdevice_signatures import MODULES, Signatures, result_type, signatures, stubs

interpreter: Any = _interpreter
tl: Any = _tl
torch: Any = _torch
Function = Callable[..., Any]

ROUNDING_MODES = ("_rn", "_rz", "_rd", "_ru")
"""Suffixes that change the last bit only, which no address should depend on."""


def _exp10(x: Any) -> Any:
    return torch.pow(10.0, x)


def _fma(x: Any, y: Any, z: Any) -> Any:
    return x * y + z


# libdevice's names, without the `fast_` and the `f` of its approximate forms and without the rounding mode.
SAME = (
    *("abs", "add", "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "ceil", "copysign", "cos", "cosh", "div"),
    *("erf", "erfc", "erfinv", "exp", "exp2", "expm1", "floor", "fmod", "hypot", "isinf", "isnan", "lgamma", "log", "log10"),
    *("log1p", "log2", "mul", "nextafter", "pow", "remainder", "round", "rsqrt", "sin", "sinh", "sqrt", "sub", "tan", "tanh"),
    "trunc",
)
FUNCTIONS: dict[str, Function] = {
    **{name: getattr(torch, name) for name in SAME},
    "divide": torch.div,
    "exp10": _exp10,
    "fma": _fma,
    "nearbyint": torch.round,
    "rcp": torch.reciprocal,
    "rint": torch.round,
    **libdevice_functions.FUNCTIONS,
}


def interpreted_function(value: Any) -> Any:
    """Return a libdevice function in a form the interpreter can call.

    It is imported by name; anything else is returned unchanged.
    """
    if callable(value) and getattr(value, "__module__", None) in MODULES:
        return _interpreted(value.__name__, signatures(value.__name__))
    return value


def install(patches: Patches) -> None:
    """Replace the functions of libdevice's modules, however a kernel names them."""
    stubs()  # before they are replaced
    for name in MODULES:
        module = importlib.import_module(name)
        for attribute, value in list(vars(module).items()):
            if (replacement := interpreted_function(value)) is not value:
                patches.set(module, attribute, replacement)


def _interpreted(name: str, known: Signatures) -> Function:
    """Return the function of that name on the interpreter's tensors.

    It works elementwise, with broadcasting. The arguments must have the types of one of the `known` signatures.
    """

    def call(*arguments: Any, **_: Any) -> Any:
        function, result_kind = _function(name)
        tensors = [value if isinstance(value, tl.tensor) else interpreter._implicit_cvt(value) for value in arguments]
        if known:
            result_kind = result_type(name, known, tensors)
        result = function(*(torch.from_numpy(tensor.handle.data) for tensor in tensors))
        kind = result_kind or (tl.int32 if result.dtype is torch.bool else tensors[0].type.scalar)
        data = result.numpy().astype(interpreter._get_np_dtype(kind))
        blocks = any(tensor.type.is_block() for tensor in tensors)
        return tl.tensor(interpreter.TensorHandle(data, kind), tl.block_type(kind, list(data.shape)) if blocks else kind)

    return call


def _function(name: str) -> tuple[Function, Any]:
    """Return torch's function for libdevice's, and the type of its result.

    The type is None where it follows from the arguments. Raises `UsageError` if there is none.
    """
    if name in libdevice_functions.TYPED:
        return libdevice_functions.TYPED[name]
    plain = name.removeprefix("fast_").removesuffix("f") if name.startswith("fast_") else name
    for mode in ROUNDING_MODES:
        plain = plain.removesuffix(mode)
    if plain not in FUNCTIONS:
        raise UsageError(
            f"the kernel calls libdevice.{name}, which cannot be run on a CPU", "Derive it, or measure it on a GPU."
        )
    return FUNCTIONS[plain], None
