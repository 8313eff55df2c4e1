"""Memory that the work holds beyond its inputs and output, without a GPU: every storage torch creates, from birth to death."""

from __future__ import annotations

import weakref
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class OperatorMode(TorchDispatchMode):
    """A mode that only looks at operators: torch.compile's machinery need not be loaded (seconds) to keep it out."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False


class AllocationTracker(OperatorMode):
    """Inside the block, follows the bytes of the storages that torch operators create and drop.

    A storage is new when an operator returns it that none of its operands had. It dies when the last tensor that views it
    does, which is when CUDA's caching allocator would take it back. Sizes are what was asked for: no rounding, no pools.
    """

    def __init__(self) -> None:
        super().__init__()  # pyright: ignore[reportUnknownMemberType]
        self.live_bytes = 0
        self.peak_bytes = 0
        self._sizes: dict[int, int] = {}

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        outcome = func(*args, **(kwargs or {}))
        operands = set(storages((args, kwargs)))
        if func is torch.ops.aten.lift_fresh.default:  # what torch.tensor(...) makes before a mode can see it
            operands = set[int]()
        for key, storage in storages(outcome).items():
            self._see(key, storage, born=key not in operands)
        return outcome

    def _see(self, key: int, storage: torch.UntypedStorage, *, born: bool) -> None:
        """Counts a new storage, and the growth of a known one that was resized."""
        if key not in self._sizes:
            if not born:
                return
            self._sizes[key] = 0
            weakref.finalize(storage, self._forget, key).atexit = False
        self.live_bytes += storage.nbytes() - self._sizes[key]
        self._sizes[key] = storage.nbytes()
        self.peak_bytes = max(self.peak_bytes, self.live_bytes)

    def _forget(self, key: int) -> None:
        self.live_bytes -= self._sizes.pop(key)

    def extra_bytes(self, output: object) -> int:
        """Peak of the bytes alive at once, less those of `output`, what the work returned (tensors in any nesting)."""
        return self.peak_bytes - sum(self._sizes.get(key, 0) for key in storages(output))


def strided_tensors(values: object) -> list[torch.Tensor]:
    """The strided tensors, those that have a storage, in a nesting of lists, tuples and dictionaries."""
    leaves: list[Any] = tree_leaves(values)
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor) and leaf.layout == torch.strided]


def storages(values: object) -> dict[int, torch.UntypedStorage]:
    """The different storages of those tensors, by the identity that tensors sharing one have in common."""
    found: list[Any] = [tensor.untyped_storage() for tensor in strided_tensors(values)]
    return {storage._cdata: storage for storage in found}
