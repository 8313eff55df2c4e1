"""What only memory tells: the names that formulas have for it, as `Lock@layer_norm.py:179`, and the values that users give."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from ioaware.analysis.ir import KernelTraffic
from ioaware.errors import UsageError

Value = TypeVar("Value")


def apart(given: Mapping[str, Value]) -> tuple[dict[str, Value], dict[str, int]]:
    """The parameters of a function, and the unknowns among what was given, known by the line in their name.

    Raises `UsageError` for an unknown that is no integer."""
    params = {name: value for name, value in given.items() if "@" not in name}
    return params, {name: _integer(name, value) for name, value in given.items() if "@" in name}


def _integer(name: str, value: Any) -> int:
    try:
        if isinstance(value, (int, str)) and not isinstance(value, bool):
            return int(value)
    except ValueError:
        pass
    raise UsageError(f"{name} takes an integer, not {value!r}", "It stands for what the kernel finds in memory.")


def unknowns(kernels: Iterable[KernelTraffic | None], symbols: Iterable[str]) -> tuple[str, ...]:
    """The names in the formulas of these kernels that no parameter has, sorted."""
    known, found = frozenset(symbols), frozenset[str]()
    for kernel in kernels:
        if kernel is not None and not kernel.exact:
            counts = (kernel.read_bytes, kernel.write_bytes, kernel.atomic_bytes, kernel.flops)
            sectors = (kernel.read_sector_bytes, kernel.write_sector_bytes)
            found = found.union(*(count.symbols for count in (*counts, *sectors) if count is not None))
    return tuple(sorted(found - known))


def check(target: str, given: Iterable[str], there: Iterable[str]) -> None:
    """Raises `UsageError` where one is given that the formulas do not have."""
    names = tuple(there)
    strange = sorted(frozenset(given) - frozenset(names))
    if strange:
        raise UsageError(
            f"the formulas of {target} do not depend on {', '.join(strange)}",
            f"What they depend on beside its parameters: {', '.join(names) or 'nothing'}.",
        )


def missing(target: str, names: Iterable[str]) -> UsageError:
    """Why there is no number: what has no value, from which line it is, and how it is given one."""
    told = sorted(names)
    where = ", ".join(f"{name.partition('@')[0]} of line {name.rpartition(':')[2]} in {_file(name)}" for name in told)
    example = ", ".join(f"{name!r}: 1" for name in told)
    return UsageError(
        f"the bytes of {target} depend on data: {where}",
        f"The notes say what that is. Give it a value by its name, as in evaluate(**{{{example}}}).",
    )


def _file(name: str) -> str:
    return name.partition("@")[2].rpartition(":")[0]
