"""Count what each rank of a group sends and receives, from the host code's calls.

The function runs once for each rank, in threads, on tensors without memory, as if it were in a group of `torch.distributed`
with gloo. Sends and receives are counted as they are started, and each must have its counterpart on the other rank. The count
knows no formula of an algorithm, so that it is a witness of closed forms.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from ioaware._monkeypatch import Patches
from ioaware.errors import IoawareError, UsageError
from ioaware.result import Params
from ioaware.targets.target import Target, work_of

HANG_S = 60.0
"""Longest wait of a rank for the others' call of the same collective."""
REFUSED = (
    "all_reduce", "reduce", "reduce_scatter", "reduce_scatter_tensor", "all_to_all", "all_to_all_single", "broadcast",
    "all_gather_into_tensor", "gather", "scatter", "send", "recv",
)  # fmt: skip
"""Transfers that are refused.

Their bytes depend on the backend's algorithm, or they are not started as a batch.
"""


@dataclass
class RankExchange:
    """Bytes of one rank's sends and receives, and of its all-gathers of numbers.

    `sends` and `receives`: bytes of each message, by the other rank and in order.
    """

    rank: int
    sends: dict[int, list[int]] = field(default_factory=dict[int, list[int]])
    receives: dict[int, list[int]] = field(default_factory=dict[int, list[int]])
    gathered_bytes: int = 0
    given: list[Any] = field(default_factory=list[Any])
    """The host's numbers that this rank gave to each all-gather.

    Those of building the inputs are among them.
    """

    def clear(self) -> None:
        """Forget what was counted."""
        self.sends, self.receives, self.gathered_bytes = {}, {}, 0

    @property
    def sent_bytes(self) -> int:
        """Bytes of all sends."""
        return sum(map(sum, self.sends.values()))

    @property
    def received_bytes(self) -> int:
        """Bytes of all receives."""
        return sum(map(sum, self.receives.values()))

    def to_dict(self) -> dict[str, int]:
        """Return the totals, as `--json` prints them."""
        messages = {"messages_sent": sum(map(len, self.sends.values()))}
        moved = {"received_bytes": self.received_bytes, "sent_bytes": self.sent_bytes}
        return {"rank": self.rank, **moved, **messages, "gathered_bytes": self.gathered_bytes}


def derive_exchanges(target: Target, params: Params, ranks: int) -> list[RankExchange]:
    """Return what each of `ranks` ranks exchanges in one call of a target.

    Raises the error of the first rank that has one. Raises UsageError for a collective whose bytes are not known from the
    call, and for a message without its counterpart.
    """
    group = _ThreadGroup(ranks)
    found = [RankExchange(rank) for rank in range(ranks)]
    errors: list[tuple[bool, int, Exception]] = []

    def run(rank: int) -> None:
        from torch._subclasses.fake_tensor import FakeTensorMode

        group.local.exchange = found[rank]
        try:
            with FakeTensorMode(allow_non_fake_inputs=True):
                work = work_of(target.call(device="cpu", **params))
                if work is not None:
                    found[rank].clear()  # building the inputs is not part of the work
                    work.run()
        except Exception as error:
            with group.arrived:
                errors.append((getattr(group.local, "waits", False), rank, error))
                group.failed = True
                group.arrived.notify_all()

    with Patches() as patches:
        patch_distributed(patches, group)
        _patch_host(patches)
        threads = [threading.Thread(target=run, args=(rank,), daemon=True) for rank in range(ranks)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    _raise_first(errors)
    _check_counterparts(found)
    return found


class RankGroup:
    """A group of torch.distributed as one of its ranks sees it."""

    backend = "gloo"
    bound_device_id = None

    def __init__(self, ranks: int) -> None:
        self.ranks = ranks

    @property
    def mine(self) -> RankExchange:
        """What the calling rank has exchanged."""
        raise NotImplementedError

    def get_rank(self, group: object = None) -> int:
        """Return the calling rank."""
        del group
        return self.mine.rank

    def get_world_size(self, group: object = None) -> int:
        """Return the number of ranks."""
        del group
        return self.ranks

    def get_backend(self, group: object = None) -> str:
        """Return the name of the backend."""
        del group
        return self.backend

    def batch(self, ops: Sequence[_Op]) -> list[Done]:
        """Start sends and receives."""
        raise NotImplementedError

    def all_gather(self, out: list[Any], tensor: Any, group: Any = None, async_op: bool = False) -> Any:
        """Give every rank the numbers of all."""
        raise NotImplementedError


class _ThreadGroup(RankGroup):
    """A group of ranks that are threads of this process."""

    def __init__(self, ranks: int) -> None:
        super().__init__(ranks)
        self.local = threading.local()
        self.numbers: list[dict[int, Any]] = []
        """The tensors of each all-gather, by rank."""
        self.arrived = threading.Condition()
        self.failed = False

    @property
    def mine(self) -> RankExchange:
        return self.local.exchange

    def all_gather(self, out: list[Any], tensor: Any, group: Any = None, async_op: bool = False) -> Any:
        """Give every rank the numbers of all: those decide what the host code does."""
        from torch._subclasses.fake_tensor import FakeTensor

        del group
        if isinstance(tensor, FakeTensor):
            raise UsageError("derive --gpus: all_gather of a tensor on the GPU", "Its bytes depend on the backend's algorithm.")
        index = self.local.gathers = getattr(self.local, "gathers", -1) + 1
        with self.arrived:
            if index == len(self.numbers):
                self.numbers.append({})
            given = self.numbers[index]
            given[self.mine.rank] = tensor
            self.arrived.notify_all()
            self.arrived.wait_for(lambda: len(given) == self.ranks or self.failed, HANG_S)
        if len(given) < self.ranks:
            self.local.waits = True
            raise RuntimeError("a rank makes no such call")
        out[:] = [given[rank] for rank in range(self.ranks)]
        self.mine.gathered_bytes += (self.ranks - 1) * tensor.nbytes
        self.mine.given.append(tensor)
        return Done() if async_op else None

    def batch(self, ops: Sequence[_Op]) -> list[Done]:
        """Count a batch of sends and receives."""
        for op in ops:
            side = self.mine.sends if op.kind == "send" else self.mine.receives
            side.setdefault(op.peer, []).append(int(op.tensor.nbytes))
        return [Done()]


class Done:
    """A transfer that has completed."""

    def wait(self, timeout: object = None) -> bool:
        """Return at once."""
        del timeout
        return True

    def is_completed(self) -> bool:
        """Return True."""
        return True


@dataclass
class _Op:
    kind: str
    tensor: Any
    peer: int


def _send(*_: object) -> str:
    return "send"


def _receive(*_: object) -> str:
    return "receive"


def _nothing(*_: object, **__: object) -> None:
    """Do nothing."""


def _yes() -> bool:
    return True


def _op(
    kind: Callable[[], str], tensor: Any, peer: int = -1, group: object = None, tag: int = 0, group_peer: int | None = None
) -> _Op:
    del group, tag
    return _Op(kind(), tensor, peer if group_peer is None else group_peer)


def _refuse(name: str) -> Callable[..., Any]:
    def refused(*_: object, **__: object) -> Any:
        what = f"derive --gpus: torch.distributed.{name}: its bytes are not known from the call"
        raise UsageError(what, "Known: batch_isend_irecv, and all_gather of the host's numbers.")

    return refused


def patch_distributed(patches: Patches, group: RankGroup) -> None:
    """Let torch.distributed have this group alone, its default."""
    import torch.distributed as dist

    replaced: dict[str, object] = {
        "is_available": _yes,
        "is_initialized": _yes,
        "get_rank": group.get_rank,
        "get_world_size": group.get_world_size,
        "get_backend": group.get_backend,
        "isend": _send,
        "irecv": _receive,
        "P2POp": _op,
        "batch_isend_irecv": group.batch,
        "all_gather": group.all_gather,
        "barrier": _nothing,
        "group": SimpleNamespace(WORLD=group),
        **{name: _refuse(name) for name in REFUSED},
    }
    for name, value in replaced.items():
        patches.set(dist, name, value)


def _patch_host(patches: Patches) -> None:
    """Let the host's numbers be real, and kernels not run: they send nothing."""
    import torch
    from torch._subclasses.fake_tensor import unset_fake_temporarily
    from triton.runtime.autotuner import Autotuner
    from triton.runtime.jit import JITFunction

    real_tensor: Callable[..., Any] = torch.tensor

    def host_tensor(*arguments: Any, **options: Any) -> Any:
        with unset_fake_temporarily():
            return real_tensor(*arguments, **options)

    patches.set(torch, "tensor", host_tensor)
    for launcher in (JITFunction, Autotuner):
        patches.set(launcher, "run", _nothing)


def _raise_first(errors: Sequence[tuple[bool, int, Exception]]) -> None:
    """Raise the error of the first rank that did not merely wait for another one."""
    for _, rank, error in sorted(errors, key=lambda one: one[:2]):
        if isinstance(error, IoawareError):
            raise error
        what = f"rank {rank}: {type(error).__name__}: {str(error).strip()[:300]}"
        raise UsageError(f"derive --gpus: {what}", "The target runs on CPU tensors without memory; see whether it can.")


def _check_counterparts(found: Sequence[RankExchange]) -> None:
    """Raise UsageError for a message that the other rank does not start alike."""
    for one in found:
        for other in found:
            sent, received = one.sends.get(other.rank, []), other.receives.get(one.rank, [])
            if sent != received:
                raise UsageError(
                    f"derive --gpus: rank {one.rank} sends {len(sent)} messages of {sum(sent)} bytes to rank {other.rank}, "
                    f"which receives {len(received)} of {sum(received)}",
                    "Sends and receives between two ranks must match in order and size.",
                )
