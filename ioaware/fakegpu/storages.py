"""Track the storages that torch operators allocate.

The result is the peak of bytes beyond inputs and output.
"""

from __future__ import annotations

import weakref
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from ioaware.fakegpu.host_tensors import is_host_work, tensor_leaves


class OperatorMode(TorchDispatchMode):
    """Base of dispatch modes that observe operators.

    Why: the default `_should_skip_dynamo` imports dynamo (seconds).
    """

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False


class AllocationTracker(OperatorMode):
    """Track the bytes of storages that torch operators create and free in the block.

    A storage is new when an operator returns it and none of its operands has it. It is freed with the last tensor that views
    it, as by CUDA's caching allocator. Sizes are as requested: no rounding, no pools.
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
        if is_host_work():
            return outcome
        operands = set(storages((args, kwargs)))
        if func is torch.ops.aten.lift_fresh.default:  # torch.tensor(...) allocates before a mode is called
            operands = set[int]()
        for key, storage in storages(outcome).items():
            self._record(key, storage, new=key not in operands)
        return outcome

    def _record(self, key: int, storage: torch.UntypedStorage, *, new: bool) -> None:
        """Count a new storage, or the growth of a known one that was resized."""
        if key not in self._sizes:
            if not new:
                return
            self._sizes[key] = 0
            weakref.finalize(storage, self._forget, key).atexit = False
        self.live_bytes += storage.nbytes() - self._sizes[key]
        self._sizes[key] = storage.nbytes()
        self.peak_bytes = max(self.peak_bytes, self.live_bytes)

    def _forget(self, key: int) -> None:
        self.live_bytes -= self._sizes.pop(key)

    def extra_bytes(self, output: object) -> int:
        """Return the peak of live bytes less those of `output` (tensors in any nesting)."""
        return self.peak_bytes - sum(self._sizes.get(key, 0) for key in storages(output))


def strided_tensors(values: object) -> list[torch.Tensor]:
    """Return the strided tensors in nested lists, tuples and dictionaries.

    Strided tensors are those with a storage.
    """
    return [leaf for leaf in tensor_leaves(values) if leaf.layout == torch.strided]


def storages(values: object) -> dict[int, torch.UntypedStorage]:
    """Return the distinct storages of the strided tensors.

    The key is the identity of the C++ object.
    """
    owned: list[Any] = [tensor.untyped_storage() for tensor in strided_tensors(values)]
    return {storage._cdata: storage for storage in owned}
