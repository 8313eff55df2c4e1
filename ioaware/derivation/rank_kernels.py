"""Derive what the kernels of each rank request, beside what it exchanges.

The host code runs as one rank after another, as on a GPU in a group of NCCL. What the other ranks give to its all-gathers is
known from the run of all ranks that counted the transfers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from ioaware._monkeypatch import Patches
from ioaware.derivation.derive import derive
from ioaware.derivation.derived import Derived
from ioaware.derivation.exchanges import Done, RankExchange, RankGroup, patch_distributed
from ioaware.errors import IoawareError, UsageError
from ioaware.result import Params
from ioaware.targets.target import Target


def derive_rank_kernels(
    target: Target, params: Params, exchanges: Sequence[RankExchange], **options: Any
) -> list[Derived | str]:
    """Return what `derive` finds for each rank, or why it finds nothing.

    `exchanges` are those of `derive_exchanges` for the same call; `options` are those of `derive`.
    """
    return [_derive_one(target, params, exchanges, rank, options) for rank in range(len(exchanges))]


def _derive_one(
    target: Target, params: Params, exchanges: Sequence[RankExchange], rank: int, options: dict[str, Any]
) -> Derived | str:
    group = _LoneRank(exchanges, rank)
    with Patches() as patches:
        patch_distributed(patches, group)
        try:
            return derive(replace(target, call=group.restarting(target.call)), params, machine_code=False, **options)
        except IoawareError as error:
            return error.what


class _LoneRank(RankGroup):
    """A group of which one rank runs."""

    backend = "nccl"

    def __init__(self, exchanges: Sequence[RankExchange], rank: int) -> None:
        super().__init__(len(exchanges))
        self.exchange = RankExchange(rank)
        self.known = list(zip(*(one.given for one in exchanges), strict=True))
        """The numbers of all ranks in each all-gather of one call."""
        self.calls = 0

    @property
    def mine(self) -> RankExchange:
        """The rank that runs."""
        return self.exchange

    def restarting(self, call: Callable[..., object]) -> Callable[..., object]:
        """Return the target's function; each call of it begins with the first all-gather."""

        def run(**arguments: Any) -> object:
            self.calls = 0
            return call(**arguments)

        return run

    def batch(self, ops: Sequence[object]) -> list[Done]:
        """Start nothing: the transfers are counted already."""
        del ops
        return [Done()]

    def all_gather(self, out: list[Any], tensor: Any, group: Any = None, async_op: bool = False) -> Any:
        """Give the numbers that the ranks gave in the run of all."""
        del tensor, group
        if self.calls == len(self.known):
            raise UsageError(
                "derive --gpus: on a GPU the host code gathers more often than on the CPU",
                "Let both gather equally often: what the ranks exchange must not depend on the device.",
            )
        out[:] = self.known[self.calls]
        self.calls += 1
        return Done() if async_op else None
