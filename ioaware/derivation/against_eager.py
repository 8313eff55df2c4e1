"""What torch.compile saves: a target compiled beside the same one uncompiled.

Both run at the same values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from triton.backends.compiler import GPUTarget

from ioaware.capture.capture import DEFAULT_GPU
from ioaware.derivation.derive import derive
from ioaware.derivation.derived import Derived
from ioaware.errors import UsageError
from ioaware.result import ParamValue, Result, Traffic, total
from ioaware.targets.target import Target


@dataclass(frozen=True, slots=True)
class Side:
    """All launches of one run: Triton kernels, and library kernels.

    Triton kernels are counted, and library kernels assumed to move operands and results once.
    """

    triton_launches: int
    library_launches: int
    traffic: Traffic

    @classmethod
    def of(cls, result: Result) -> Side:
        """Return the sums of a result.

        Raises `UsageError` where data decide a launch's bytes.
        """
        moved = total(launch.requested for launch in result.launches)
        if moved is None or moved.total_bytes is None:
            raise UsageError(
                f"the bytes of {result.target} depend on data, and cannot be compared",
                "Derive it; its formulas name the unknowns.",
            )
        triton = sum(launch.origin == "triton" for launch in result.launches)
        return cls(triton, len(result.launches) - triton, moved)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {
            "triton_launches": self.triton_launches,
            "library_launches": self.library_launches,
            "read_bytes": self.traffic.read_bytes,
            "write_bytes": self.traffic.write_bytes,
            "atomic_bytes": self.traffic.atomic_bytes,
            "total_bytes": self.traffic.total_bytes,
        }


@dataclass(frozen=True, slots=True)
class AgainstEager:
    """A target derived twice."""

    compiled: Derived
    eager: Derived

    @property
    def sides(self) -> tuple[Side, Side]:
        """The sums as compiled, and eager."""
        return Side.of(self.compiled), Side.of(self.eager)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form: both results, their sums, and what the compiler saves."""
        compiled, eager = (side.to_dict() for side in self.sides)
        saved = {name: value - compiled[name] for name, value in eager.items() if None not in (value, compiled[name])}
        results = {"compiled": self.compiled.to_dict(), "eager": self.eager.to_dict()}
        return {"compiled": compiled, "eager": eager, "saved": saved, "results": results}


def against_eager(
    target: Target,
    params: Mapping[str, ParamValue],
    *,
    gpu: GPUTarget = DEFAULT_GPU,
    autotune: Mapping[str, ParamValue] | None = None,
    data: Mapping[str, int] | None = None,
) -> AgainstEager:
    """Derive `target` as compiled and uncompiled.

    Raises `UsageError` as `derive` does, and where nothing is compiled.
    """
    compiled = derive(target, params, gpu=gpu, autotune=autotune, data=data)
    eager = derive(target, params, gpu=gpu, data=data, eager=True)
    if [launch.kernel for launch in compiled.launches] == [launch.kernel for launch in eager.launches]:
        raise UsageError(
            f"{target.name} makes the same launches with and without torch.compile", "Decorate a function with @torch.compile."
        )
    return AgainstEager(compiled, eager)
