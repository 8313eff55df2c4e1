"""Define `Derived`, a `Result` that keeps its formulas."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, cast

import numpy as np

from ioaware.analysis.formulas.exact_ratio import Number
from ioaware.analysis.ir import KernelTraffic
from ioaware.capture.validity import Validity
from ioaware.derivation.data_dependent import missing_values_error, unknowns
from ioaware.derivation.launch_formulas import Formulas
from ioaware.errors import UsageError
from ioaware.result import Result, Traffic, total
from ioaware.symints.guards import Condition


@dataclass(frozen=True, slots=True)
class Derived(Result):
    """`Result` with its formulas: `formulas` in total, `kernels` per launch.

    `kernels` has None for a torch operator.

    They are not part of the JSON, which has them as text.
    """

    formulas: Formulas | None = None
    assumed_formulas: Formulas | None = None
    """Those of torch's own operators, which `formulas` leaves out."""
    kernels: tuple[KernelTraffic | None, ...] = ()
    files: tuple[str | None, ...] = ()
    """The source file of each launch's kernel.

    Lines of accesses may name another copy, from which a cache was filled.
    """
    symbols: Mapping[str, int] | None = None
    """The symbolic parameters with their given values."""
    holds: tuple[tuple[Condition, ...], ...] = ()
    """The conditions of the formulas, per launch."""
    validity: Validity | None = None
    data: Mapping[str, int] | None = None
    """Given values of unknowns, by their names in the formulas."""
    configurations: Mapping[str, tuple[Mapping[str, Any], ...]] = field(
        default_factory=dict[str, "tuple[Mapping[str, Any], ...]"]
    )
    """All configurations of each autotuned kernel, by its name."""

    cold_cache: tuple[Traffic | None, ...] = ()
    """HBM bytes of each launch where no earlier one left data in the L2."""

    @property
    def hbm_of_kernels(self) -> Traffic | None:
        """HBM bytes of the Triton and Gluon kernels, each with a cold L2.

        None where those of a kernel are unknown.
        """
        each = zip(self.launches, self.cold_cache, strict=True) if self.cold_cache else ()
        moved = [bytes_of_one for launch, bytes_of_one in each if launch.origin == "triton"]
        return total(moved) if moved else None

    @property
    def unknowns(self) -> tuple[str, ...]:
        """Names in the formulas of values that are loaded from memory."""
        return unknowns(self.kernels, self.symbols or ())

    @property
    def values(self) -> dict[str, int]:
        """Values of the symbolic parameters, and of the unknowns that have one."""
        return {**(self.symbols or {}), **(self.data or {})}

    @property
    def exact_here_only(self) -> bool:
        """Whether bytes are exact for the data at the given sizes, and formulas are not.

        The formulas then are upper bounds, or have unknowns.
        """
        return self.exact and not all(kernel.exact for kernel in self.kernels if kernel)

    def evaluate(self, **values: Number) -> dict[str, Number]:
        """Evaluate bytes and FLOPs at other values of the symbolic parameters.

        The values are ints, or int64 arrays of many points.

        Omitted parameters keep their value. Unknowns are set by name, as in `evaluate(rows=512, **{"Lock@layer_norm.py:179":
        0})`. Raises `UsageError` for an undefined name and for an unknown without a value. It also does where a condition of
        the formulas fails: another constexpr, or another branch of the host code. A result that is exact for its data alone
        (`exact_here_only`) has no other values; `formulas` has its upper bounds.
        """
        symbols, formulas = dict(self.symbols or {}), cast(Formulas, self.formulas)
        if unknown := values.keys() - symbols.keys() - frozenset(self.unknowns):
            raise UsageError(
                f"{self.target} has no symbolic parameter {', '.join(sorted(unknown))}",
                f"Symbolic here: {', '.join((*symbols, *self.unknowns)) or 'none'}. The notes say why others were specialised.",
            )
        point: dict[str, Number] = {**self.values, **values}
        if self.exact_here_only:
            return self._here(point)
        if self.validity:
            self.validity.check({name: point[name] for name in symbols})
        for kernel in self.kernels:
            for limit in kernel.limits if kernel else ():
                if limit.value.symbols <= point.keys() and limit.broken(point):
                    raise UsageError(
                        f"the formulas of {self.target} hold for {limit}: elsewhere {limit.reason}",
                        "Give sizes within this range.",
                    )
        counts = {"read_bytes": formulas.read_bytes, "write_bytes": formulas.write_bytes}
        counts |= {"atomic_bytes": formulas.atomic_bytes, "flops": formulas.flops}
        if unset := frozenset[str]().union(*(count.symbols for count in counts.values())) - point.keys():
            raise missing_values_error(self.target, unset)
        return {name: count.evaluate(point) for name, count in counts.items()}

    def _here(self, point: Mapping[str, Number]) -> dict[str, Number]:
        """Return the bytes and FLOPs for the data at the given sizes.

        Raises `UsageError` for other sizes, and where they are unknown.
        """
        requested = cast(Traffic, self.requested)
        found = {name: getattr(requested, name) for name in ("read_bytes", "write_bytes", "atomic_bytes")}
        found["flops"] = self.flops
        if any(np.any(np.asarray(value) != self.values.get(name)) for name, value in point.items()) or None in found.values():
            raise UsageError(
                f"data decide the bytes of {self.target}, which are exact at the given sizes only",
                "Derive it again at other sizes. `formulas` holds its upper bounds.",
            )
        return found

    def _repr_html_(self) -> str:
        """Return the result's table for a notebook, and its formulas in MathML."""
        from ioaware.analysis.formulas.typeset import formulas_html

        rows = [(kernel.kernel, kernel.read_bytes, kernel.write_bytes) for kernel in self.kernels if kernel]
        if len(rows) > 1 and self.formulas:
            rows.append(("total", self.formulas.read_bytes, self.formulas.write_bytes))
        typeset = [(name, reads.expr, writes.expr) for name, reads, writes in rows]
        conditions = [str(condition) for condition in self.validity.conditions] if self.validity else []
        return Result._repr_html_(self) + formulas_html(typeset, conditions)  # pyright: ignore[reportPrivateUsage]

    def _limits_of(self, kernel: KernelTraffic | None) -> list[str]:
        """Return the largest sizes of a launch.

        32-bit integers do not wrap around at them, and CUDA can launch its grid.
        """
        if kernel is None:
            return []
        grids = [limit for limit in self.validity.limits if limit.reason.endswith(f" {kernel.kernel}")] if self.validity else []
        return list(dict.fromkeys([*map(str, kernel.limits), *map(str, grids)]))

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form; `conditions` include the largest sizes of each launch.

        `formulas_exact` is False where only the bytes at the given sizes are exact.
        """
        data = Result.to_dict(self)
        limits = [self._limits_of(kernel) for kernel in self.kernels]
        for launch, added in zip(data["launches"], limits, strict=True):
            if added:
                launch["conditions"] = [*launch.get("conditions", ()), *added]
        for each, kernel in zip(data["launches"], self.kernels, strict=True):
            if each.get("exact") and kernel and not kernel.exact:
                each["formulas_exact"] = False
        if self.exact_here_only:
            data["formulas_exact"] = False
        if together := dict.fromkeys(limit for added in limits for limit in added):
            data["conditions"] = list(dict.fromkeys([*data.get("conditions", ()), *together]))
        own = {one.name for one in fields(Derived)} - {one.name for one in fields(Result)}
        return {name: value for name, value in data.items() if name not in own}
