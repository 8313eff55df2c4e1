"""Hold what is known of an untrusted kernel: trials, derivation, measurements."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ioaware.gate.untrusted.trials import Trials
from ioaware.machine.model import Machine
from ioaware.result import ParamValue, Result, Traffic

if TYPE_CHECKING:
    from ioaware.derivation.derived import Derived


@dataclass(frozen=True, slots=True)
class Measured:
    """A time of one call, and a record.

    With `cold`, the L2 was flushed before each repetition.
    """

    machine: Machine
    time_ns: float | None = None
    cold: bool = False
    record: Result | None = None


@dataclass(frozen=True, slots=True)
class Evidence:
    """Input of the rules. A part that is None was not examined.

    `not_derived` says why there are no formulas.
    """

    target: str
    params: Mapping[str, ParamValue]
    trial_params: Mapping[str, ParamValue]
    trials: Trials
    derived: Derived | None = None
    not_derived: str = ""
    measured: Measured | None = None
    output_checked_elsewhere: bool = False

    @property
    def compulsory(self) -> Traffic | None:
        """Return the compulsory bytes at `params`: every input once, every output once.

        From the trials where they had these sizes, else from the derivation. What a reference shows to be needless is left out,
        as the rows of a table that no index names; what the target may write is counted as output only.
        """
        if not self.trials.repeated or self.params != self.trial_params:
            return self.derived.compulsory if self.derived else None
        call, reads = self.trials.repeated[-1], 0
        ignored = self.trials.reference is not None and self.trials.reference.ignores_unread
        for name, tensor, unread in zip(self.trials.names, self.trials.inputs[0], call.unread, strict=True):
            if name not in self.trials.writable:
                reads += tensor.nbytes - (int(unread.sum()) * tensor.element_size() if ignored else 0)
        return Traffic(reads, sum(tensor.nbytes for tensor in call.outputs))
