"""Fill fresh allocations with NaN.

An element that no kernel writes is then never right by chance.
"""

from __future__ import annotations

from typing import Any

from ioaware.fakegpu.aten.aten_traffic import ALLOCATIONS
from ioaware.fakegpu.storages import OperatorMode, strided_tensors


class Poison(OperatorMode):
    """Fill floating-point results of `torch.empty` with NaN inside the block.

    Similar functions are covered, too.

    Enter it before the modes that record operators, so that they do not record the fill.
    """

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None) -> Any:
        outcome = func(*args, **(kwargs or {}))
        if func._schema.name in ALLOCATIONS and "empty" in func._schema.name:
            for tensor in strided_tensors(outcome):
                if tensor.is_floating_point():
                    tensor.fill_(float("nan"))
        return outcome
