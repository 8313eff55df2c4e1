"""A `Case`: something studied. It joins a kernel (practice) with its counts (theory); neither knows of the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from ioaware.params import Param
from ioaware.result import ParamValue

if TYPE_CHECKING:
    import torch

    from ioaware.analysis.theory.counting import Counts


@dataclass(frozen=True)
class Work:
    """A built target: calling `run` is the work that is counted and timed; building it was outside.

    `run` returns the output alone, so that whatever else it allocates counts as extra memory. `reference` computes the
    same output, or outputs in the same order, in float64; `tolerance` is the relative Frobenius error allowed against it.
    """

    run: Callable[[], object]
    inputs: tuple[torch.Tensor, ...] = ()
    reference: Callable[[], torch.Tensor | Sequence[torch.Tensor]] | None = None
    tolerance: float | None = None


class Build(Protocol):
    """Builds the inputs on a device and returns the work, for parameters already checked."""

    def __call__(self, *, device: str, **params: ParamValue) -> Work: ...


@dataclass(frozen=True)
class Case:
    """A named study object. `build` and `counts` import torch and sympy only when called."""

    name: str
    title: str
    paper: str
    params: tuple[Param, ...]
    build: Build
    counts: Callable[[bool], Counts]
    """The closed form, given whether it is causal."""
    values: Callable[[Mapping[str, ParamValue]], dict[str, int]]
    """The integers of the formulas' symbols (B, H, N, N_k, d, B_r, B_c, e, and what else they name) for checked parameters."""
