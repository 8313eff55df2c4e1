"""Fresh memory filled with NaN: an element that a kernel forgets to write is then wrong, and not right by chance."""

from __future__ import annotations

from typing import Any

from ioaware.fakegpu.aten_traffic import ALLOCATIONS
from ioaware.fakegpu.storages import OperatorMode, strided_tensors


class Poison(OperatorMode):
    """Inside the block, what `torch.empty` and its kin return holds NaN; integers are left as they are.

    Enter it before the modes that watch operators, so that they do not see the filling.
    """

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None) -> Any:
        outcome = func(*args, **(kwargs or {}))
        if func._schema.name in ALLOCATIONS and "empty" in func._schema.name:
            for tensor in strided_tensors(outcome):
                if tensor.is_floating_point():
                    tensor.fill_(float("nan"))
        return outcome
