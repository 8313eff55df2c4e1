"""Run transfers between the ranks of a group that overlap with computation.

They have a time limit and one clear error.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta

import torch
import torch.distributed as dist

from ioaware.errors import MachineError
from ioaware.kernels.attention.distributed.deadline import Deadline, start_within

Message = tuple[int, torch.Tensor]
"""A rank of the group, and a contiguous tensor to send to it or to fill from it."""
ABORT_S = 20.0
"""Longest wait until a group whose transfer failed has released its GPU."""


@dataclass(frozen=True, slots=True)
class Transfers:
    """Sends and receives of this rank in a group of `ranks`."""

    group: dist.ProcessGroup
    rank: int
    ranks: int
    timeout_s: float | None
    what: str
    """The call, for errors."""

    @property
    def device(self) -> torch.device | None:
        """The GPU of this rank in a group of NCCL; None in other groups.

        It is that of `init_process_group`, else the current one.
        """
        if dist.get_backend(self.group) != "nccl":
            return None
        return self.group.bound_device_id or torch.device("cuda", torch.cuda.current_device())

    def exchange(self, sends: Sequence[Message], receives: Sequence[Message]) -> Pending:
        """Start sends and receives at once; their tensors may be used after `wait`.

        Empty tensors are left out on both sides. All ranks must start matching exchanges in one order: NCCL pairs them so.
        """
        ops = [
            dist.P2POp(op, tensor, group=self.group, group_peer=peer)
            for op, messages in ((dist.isend, sends), (dist.irecv, receives))
            for peer, tensor in messages
            if tensor.numel()
        ]
        peers = tuple(sorted({peer for peer, _ in (*sends, *receives)}))
        if not ops:
            return Pending(self, (), peers)
        return self._start(lambda: dist.batch_isend_irecv(ops), peers, tuple(op.tensor for op in ops))

    def gather_numbers(self, numbers: Sequence[int]) -> list[list[int]]:
        """Return the integers of every rank, in the ranks' order.

        Blocks until they are there.
        """
        mine = torch.tensor(list(numbers), dtype=torch.int64, device=self.device or "cpu")
        everyone = [torch.empty_like(mine) for _ in range(self.ranks)]
        peers = tuple(peer for peer in range(self.ranks) if peer != self.rank)

        def gather() -> list[dist.Work]:
            work = dist.all_gather(everyone, mine, group=self.group, async_op=True)
            return [work] if work else []

        self._start(gather, peers, (mine, *everyone)).wait()
        try:
            return [received.tolist() for received in everyone]
        except RuntimeError as error:
            raise self.failure(peers, error) from error

    def _start(
        self, start: Callable[[], Sequence[dist.Work]], peers: tuple[int, ...], tensors: tuple[torch.Tensor, ...]
    ) -> Pending:
        """Start transfers.

        On NCCL a time limit holds for the start, and from then on for the transfers.
        """
        limit, limited = self.timeout_s or 0.0, self.timeout_s is not None and self.device is not None
        try:
            works = start_within(limit, start, self.device) if limited else tuple(start())
        except (RuntimeError, ValueError) as error:
            raise self.failure(peers, error) from error
        return Pending(self, works, peers, tensors, Deadline(limit, works, self.abort) if limited else None)

    def failure(self, peers: Sequence[int], error: Exception) -> MachineError:
        """Return the error of a transfer with these ranks that did not complete."""
        others = f"rank {peers[0]}" if len(peers) == 1 else f"ranks {', '.join(map(str, peers))}"
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        limit = "the group's" if self.timeout_s is None else f"{self.timeout_s:g} s"
        return MachineError(
            f"{self.what}, rank {self.rank} of {self.ranks}: a transfer with {others} did not complete ({reason})",
            f"See whether every rank still runs and makes the same call; the time limit was {limit}. Start the group anew.",
        )

    def abort(self) -> None:
        """End all transfers of the group.

        Why: a kernel of NCCL would spin on the GPU for a rank that is gone.
        """

        def end() -> None:
            with contextlib.suppress(RuntimeError):
                self.group.abort()

        thread = threading.Thread(target=end, daemon=True)
        thread.start()
        thread.join(ABORT_S)


@dataclass(frozen=True, slots=True)
class Pending:
    """Transfers under way."""

    transfers: Transfers
    works: tuple[dist.Work, ...]
    peers: tuple[int, ...]
    tensors: tuple[torch.Tensor, ...] = ()
    """What they read and write, which must not be freed before they have ended."""

    deadline: Deadline | None = None

    def wait(self) -> None:
        """Wait until all have completed.

        On a GPU, without a time limit, only this stream waits.

        Raises MachineError for a peer that died, or the time limit.
        """
        limit = self.transfers.timeout_s
        try:
            if self.deadline:
                self.deadline.wait()
            for work in self.works:
                if limit is None or self.deadline:
                    work.wait()
                else:
                    work.wait(timedelta(seconds=limit))
        except RuntimeError as error:
            raise self.transfers.failure(self.peers, error) from error
