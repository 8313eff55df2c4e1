"""Handle unknowns: values that a kernel loads from memory.

They are named as `Lock@layer_norm.py:179` in formulas.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar, cast

import sympy
from sympy import Expr
from triton.backends.compiler import GPUTarget

from ioaware.analysis.ir import KernelTraffic
from ioaware.compilation.launch_traffic import with_formulas
from ioaware.compilation.launches import CapturedLaunch, CapturedOperator, DescriptorValue, TensorValue
from ioaware.compilation.triton_ir import first_ir
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


class LaunchUnknowns:
    """Name the unknowns of launches apart where launches may load other contents.

    The first keeps its name, the next is `p@kernels.py:4#2`. Contents are equal where these arguments are equal: the tensors
    that the name stands for, unwritten in between, and all numbers.
    """

    def __init__(self, values: Mapping[str, int], gpu: GPUTarget) -> None:
        self._values, self._gpu = values, gpu
        self._writes: Counter[int] = Counter()
        self._writes_anywhere = 0
        self._contents: dict[str, list[tuple[object, ...]]] = {}

    def operator(self, event: CapturedOperator) -> None:
        """Note an operator, which may write an argument in place."""
        operator, _, overload = event.name.removeprefix("aten.").partition(".")
        aten = event.name.startswith("aten.")
        self._writes_anywhere += not aten or operator.endswith("_") or "out" in overload

    def launch(self, event: CapturedLaunch, kernel: KernelTraffic) -> KernelTraffic:
        """Return the traffic with names that no launch before has for other contents."""
        arguments = dict(first_ir(event, self._values, self._gpu).parameters)
        storages = {name: tensor for name, value in arguments.items() if (tensor := _tensor(value)) is not None}
        numbers = tuple((name, value) for name, value in arguments.items() if isinstance(value, (Expr, int, float)))
        names = {name: self._name(name, storages, numbers) for name in unknowns([kernel], self._values)}
        for access in kernel.accesses:
            if access.kind != "read" and (written := storages.get(access.tensor)):
                self._writes[written.storage] += 1
            elif access.kind != "read":
                self._writes_anywhere += 1
        return _renamed(kernel, {name: new for name, new in names.items() if name != new})

    def _name(self, name: str, storages: Mapping[str, TensorValue], numbers: tuple[object, ...]) -> str:
        words = frozenset(re.findall(r"\w+", name.rpartition("@")[0]))
        named = {each: tensor for each, tensor in storages.items() if each in words} or storages
        tensors = tuple((each, tensor, self._writes[tensor.storage]) for each, tensor in named.items())
        contents = (numbers, tensors, self._writes_anywhere)
        known = self._contents.setdefault(name, [])
        if contents not in known:
            known.append(contents)
        number = known.index(contents) + 1
        return name if number == 1 else f"{name}#{number}"


def _tensor(value: object) -> TensorValue | None:
    base = value.base if isinstance(value, DescriptorValue) else value
    return base if isinstance(base, TensorValue) else None


def _renamed(kernel: KernelTraffic, names: Mapping[str, str]) -> KernelTraffic:
    """Return the traffic with other names of unknowns, in formulas and notes."""
    if not names:
        return kernel
    symbols = {sympy.Symbol(name, integer=True): sympy.Symbol(new, integer=True) for name, new in names.items()}
    pattern = re.compile("|".join(rf"{re.escape(name)}(?!\d)" for name in sorted(names, key=len, reverse=True)))
    return with_formulas(
        kernel,
        lambda expr: cast(Any, expr).xreplace(symbols),
        lambda note: pattern.sub(lambda found: names[found[0]], note),
    )


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
    where = ", ".join(f"{name.partition('@')[0]} of line {_line(name)} in {_file(name)}" for name in ordered)
    example = ", ".join(f"{name!r}: 1" for name in ordered)
    return UsageError(
        f"the bytes of {target} depend on data: {where}",
        f"The notes describe them. Give each a value by its name, as in evaluate(**{{{example}}}).",
    )


def _file(name: str) -> str:
    return name.partition("@")[2].rpartition(":")[0]


def _line(name: str) -> str:
    return name.rpartition(":")[2].partition("#")[0]
