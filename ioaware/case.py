"""Define `Case`: a kernel joined with its closed form; neither imports the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from ioaware.params import Param
from ioaware.result import ParamValue

if TYPE_CHECKING:
    import torch

    from ioaware.analysis.theory.counting import Counts


@dataclass(frozen=True)
class Work:
    """Target with its inputs built.

    A call of `run` is counted and timed; building is not.

    `run` returns only the output: any other allocation counts as extra memory. `reference` computes the same outputs in
    float64, in the same order. `tolerance` is the relative Frobenius error allowed against it. `arguments` are the
    tensors that a plain function is called with: it may change them.
    """

    run: Callable[[], object]
    inputs: tuple[torch.Tensor, ...] = ()
    reference: Callable[[], torch.Tensor | Sequence[torch.Tensor]] | None = None
    tolerance: float | None = None
    arguments: Mapping[str, torch.Tensor] = field(default_factory=dict[str, "torch.Tensor"])


class Build(Protocol):
    """Build the inputs on a device and return the work, for checked parameters."""

    def __call__(self, *, device: str, **params: ParamValue) -> Work: ...


@dataclass(frozen=True)
class Case:
    """A named kernel with its closed form.

    `build` and `counts` import torch and sympy when called.
    """

    name: str
    title: str
    paper: str
    params: tuple[Param, ...]
    build: Build
    counts: Callable[[bool], Counts]
    """Return the closed form; the argument is whether the mask is causal."""
    values: Callable[[Mapping[str, ParamValue]], dict[str, int]]
    """Return the integers of the formulas' symbols for checked parameters.

    The symbols are B, H, N, N_k, d, B_r, B_c, e and so on.
    """
    family: str = "theorem 2"
    """Cases of one family are compared with each other, in figures and claims."""
