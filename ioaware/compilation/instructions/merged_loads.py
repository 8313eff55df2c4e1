"""Find integer arguments whose value 1 lets the compiler merge loads.

Triton compiles an argument of 1 as a constant. Loops and strides of it vanish, and two loads may become one. Then the kernel
reads less than at any other value.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any, cast

import sympy
from sympy import Expr
from triton._C import libtriton as _libtriton
from triton.backends.compiler import GPUTarget

from ioaware import disk_cache
from ioaware.analysis.ir.mlir.load_roots import LOAD, may_merge
from ioaware.compilation.launches import CapturedLaunch
from ioaware.compilation.toolchain import toolchain
from ioaware.compilation.triton_ir import first_ir, fresh_ir, general_source, integer_at
from ioaware.errors import UsageError
from ioaware.symints.guards import Condition

_native: Any = _libtriton
_sympy: Any = sympy


def specialised_to_one(
    launch: CapturedLaunch, values: Mapping[str, int], gpu: GPUTarget
) -> tuple[CapturedLaunch, tuple[Condition, ...]]:
    """Return the launch as it is compiled at `values`, and the conditions of that.

    An argument that is 1 there becomes a constant if its loads merge. Elsewhere it must not be 1.
    """
    conditions: list[Condition] = []
    for expr, names in _merging(launch, values, gpu).items():
        is_one = integer_at(expr, values) == 1
        relation: Any = (_sympy.Eq if is_one else _sympy.Ne)(expr, 1, evaluate=False)
        conditions.append(Condition(relation, f"at 1 {launch.name} makes fewer loads, as {names[0]} is then a constant"))
        launch = _with_ones(launch, names) if is_one else launch
    return launch, tuple(conditions)


def _merging(launch: CapturedLaunch, values: Mapping[str, int], gpu: GPUTarget) -> dict[Expr, list[str]]:
    """Return the expressions at whose value 1 loads merge, with their arguments."""
    arguments: dict[Expr, list[str]] = {}
    for name, value in launch.arguments.items():
        if isinstance(value, Expr) and not value.is_number and cast(Any, value).as_coeff_Mul()[0] == 1:
            arguments.setdefault(value, []).append(name)
    everything = [name for names in arguments.values() for name in names]
    if not everything or not _merges(launch, everything, values, gpu):
        return {}
    alone = {expr: names for expr, names in arguments.items() if _merges(launch, names, values, gpu)}
    return alone or arguments


def _merges(launch: CapturedLaunch, names: Iterable[str], values: Mapping[str, int], gpu: GPUTarget) -> bool:
    """Return whether more loads merge where these arguments are 1."""
    with_ones = _with_ones(launch, names)
    try:
        general = first_ir(launch, values, gpu).text
        if not may_merge(general):
            return False
        at_one = first_ir(with_ones, values, gpu).text
        return _loads(at_one) != _loads(general) and _merged(with_ones, at_one, values, gpu) > _merged(
            launch, general, values, gpu
        )
    except UsageError:  # it does not compile at 1 and cannot be launched there
        return False


def _with_ones(launch: CapturedLaunch, names: Iterable[str]) -> CapturedLaunch:
    return replace(launch, arguments={**launch.arguments, **dict.fromkeys(names, sympy.S.One)})


def _merged(launch: CapturedLaunch, text: str, values: Mapping[str, int], gpu: GPUTarget) -> int:
    """Return how many loads common-subexpression elimination removes.

    `text` is the launch's IR. The number is cached on disk. Its key has the IR beside the kernel's hash, which leaves out some
    of what the kernel uses.
    """
    source, options, backend = general_source(launch, values, gpu)
    compiler = toolchain(gpu)
    parts = ("merged loads", disk_cache.own_code(), compiler or "", source.hash(), str(options), text)
    name = disk_cache.cache_key(parts) if compiler else ""
    kept = disk_cache.load(name) if name else None
    if type(kept) is int:
        return kept
    removed = _removed(source, options, backend, gpu)
    if name:
        disk_cache.store(name, removed)
    return removed


def _removed(source: Any, options: Any, backend: Any, gpu: GPUTarget) -> int:
    code, context = fresh_ir(source, options, backend, gpu)
    common: Any = _native.passes.common

    def run(*passes: Any) -> int:
        manager: Any = _native.ir.pass_manager(context)
        for add in passes:
            add(manager)
        manager.run(code, "merged_loads")
        return _loads(str(code))

    return run(common.add_inliner, common.add_canonicalizer) - run(common.add_cse, common.add_canonicalizer, common.add_cse)


@lru_cache(maxsize=256)
def _loads(text: str) -> int:
    return len(LOAD.findall(text))
