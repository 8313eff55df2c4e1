"""Handle unknowns: values that a kernel loads from memory.

They are named as `Lock@layer_norm.py:179` in formulas.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from ioaware.analysis.ir import KernelTraffic
from ioaware.errors import UsageError

Value = TypeVar("Value")


def split_unknowns(given: Mapping[str, Value]) -> tuple[dict[str, Value], dict[str, int]]:
    """Split keyword arguments into parameters and unknowns.

    Unknowns have an @ in their name.

    Raises `UsageError` for an unknown that is not an integer.
    """
    params = {name: value for name, value in given.items() if "@" not in name}
    return params, {name: _integer(name, value) for name, value in given.items() if "@" in name}


def _integer(name: str, value: Any) -> int:
    try:
        if isinstance(value, (int, str)) and not isinstance(value, bool):
            return int(value)
    except ValueError:
        pass
    raise UsageError(f"{name} takes an integer, not {value!r}", "It stands for a value that the kernel loads from memory.")


def unknowns(kernels: Iterable[KernelTraffic | None], symbols: Iterable[str]) -> tuple[str, ...]:
    """Return the sorted names in the formulas that are not parameters.

    The formulas are those of these kernels.
    """
    parameters, names = frozenset(symbols), frozenset[str]()
    for kernel in kernels:
        if kernel is not None and not kernel.exact:
            counts = (kernel.read_bytes, kernel.write_bytes, kernel.atomic_bytes, kernel.flops)
            sectors = (kernel.read_sector_bytes, kernel.write_sector_bytes)
            names = names.union(*(count.symbols for count in (*counts, *sectors) if count is not None))
    return tuple(sorted(names - parameters))


def check_unknowns(target: str, given: Iterable[str], unknowns: Iterable[str]) -> None:
    """Raise `UsageError` for a given name that is not in the formulas."""
    names = tuple(unknowns)
    unexpected = sorted(frozenset(given) - frozenset(names))
    if unexpected:
        raise UsageError(
            f"the formulas of {target} do not depend on {', '.join(unexpected)}",
            f"Unknowns beside its parameters: {', '.join(names) or 'nothing'}.",
        )


def missing_values_error(target: str, names: Iterable[str]) -> UsageError:
    """Return the error for unknowns without a value: name, line, and how to give one."""
    ordered = sorted(names)
    where = ", ".join(f"{name.partition('@')[0]} of line {name.rpartition(':')[2]} in {_file(name)}" for name in ordered)
    example = ", ".join(f"{name!r}: 1" for name in ordered)
    return UsageError(
        f"the bytes of {target} depend on data: {where}",
        f"The notes describe them. Give each a value by its name, as in evaluate(**{{{example}}}).",
    )


def _file(name: str) -> str:
    return name.partition("@")[2].rpartition(":")[0]
