"""Find the argument types of CUDA's math library as Triton looks them up.

The compiler refuses a call with other types, so a trace refuses it as well.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import triton.language as _tl

from ioaware._monkeypatch import Patches
from ioaware.errors import UsageError

tl: Any = _tl

MODULES = ("triton.language.extra.libdevice", "triton.language.extra.cuda.libdevice")
Signatures = Mapping[tuple[Any, ...], tuple[str, Any]]
"""Types of the arguments: the symbol of the library, and the type of the result."""


class _Result:
    """A result that some stubs convert."""

    def to(self, *_: Any, **__: Any) -> None: ...


@cache
def stubs() -> Mapping[str, Callable[..., Any]]:
    """Return the functions of the library as the compiler sees them, by name."""
    module = importlib.import_module(MODULES[-1])
    return {name: value for name, value in vars(module).items() if getattr(value, "__module__", None) == MODULES[-1]}


@cache
def signatures(name: str) -> Signatures:
    """Return the signatures of a function; empty where the library has none."""
    stub = stubs().get(name)
    if stub is None:
        return {}
    found: list[Signatures] = []

    def look_up(_library: str, _path: str, _arguments: Sequence[Any], table: Signatures, **_: Any) -> Any:
        found.append(table)
        return _Result()

    with Patches() as patches:
        patches.set(tl.core, "extern_elementwise", look_up)
        stub(*[None] * (len(inspect.signature(stub).parameters) - 1), _semantic=object())
    return found[0] if found else {}


def result_type(name: str, known: Signatures, tensors: Sequence[Any]) -> Any:
    """Return the type of the result; raise `UsageError` for arguments of other types."""
    kinds = tuple(tensor.type.scalar for tensor in tensors)
    if kinds not in known:
        choices = " or ".join(f"({', '.join(map(str, types))})" for types in known)
        raise UsageError(
            f"the kernel gives libdevice.{name} ({', '.join(map(str, kinds))}), and it takes {choices}",
            "Convert the arguments with .to(), as the compiler refuses them too.",
        )
    return known[kinds][1]


__all__ = ["MODULES", "Signatures", "result_type", "signatures", "stubs"]
