"""A guard on symbolic parameters, and what the formulas assume because of it."""

from __future__ import annotations

from dataclasses import dataclass

from ioaware.symints.guards import Condition


@dataclass(frozen=True, slots=True)
class Decision:
    """Guard: host code needed the value of a symbolic expression.

    It did for a branch, an integer or a constexpr.
    """

    takes: Condition | str
    """Assumption of the formulas that results from it; text where it is no condition."""
    reason: str
    """`branch at file.py:12`, `taken as a number at file.py:12`, `constexpr HEAD_DIM`."""
    names: frozenset[str]
    """The parameters that the expression depends on."""
    equals: tuple[str, str] | None
    """Two parameters that are equal, where the guard compares two parameters."""
    pins: bool
    """Whether it specialises its parameters.

    It does by `int(n)`, the true branch of `n == 64`, or a parameter as constexpr.
    """
    condition: Condition | None = None
    """The condition on other parameter values; None for a data read."""

    @property
    def note(self) -> str:
        """The assumption as a sentence; formatted lazily, since sympy is slow."""
        return self.takes if isinstance(self.takes, str) else f"assumes {self.takes} ({self.reason})"
