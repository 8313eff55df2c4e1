"""Execution of a zoo launch by the concrete interpreter.

It has the contents of the launch's integer tensors.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from ioaware.analysis.ir.concrete.interpret import interpret
from ioaware.analysis.ir.concrete.interpreter_state import Opaque
from ioaware.analysis.ir.concrete.tally import Memory, Tally
from tests.support.ir_zoo.compiled import Described, Launched, Tensor, number


def concrete_run(launched: Launched, values: Mapping[str, int], **limits: Any) -> Tally:
    """Return what the launch requests at these sizes.

    No argument may be a descriptor made on the host. `limits` are those of `interpret`.
    """
    given: list[Any] = []
    memory = Memory([], [])
    for argument in launched.arguments:
        if isinstance(argument, Tensor):
            size = number(argument.size, values)
            held = argument.fill(size).to(argument.dtype) if argument.fill else torch.zeros(size, dtype=argument.dtype)
            whole = held.is_floating_point()
            given.append(np.asarray(Memory.start(len(memory.sizes)), np.int64))
            memory.contents.append(None if whole else held.contiguous().numpy().reshape(-1).view(np.uint8).copy())
            memory.sizes.append(held.numel() * held.element_size())
        else:
            assert not isinstance(argument, Described)
            value = number(argument, values)
            given.append(Opaque(()) if isinstance(value, float) else np.asarray(value, np.int32))
    return interpret(launched.text(), given, [number(size, values) for size in launched.grid], memory, **limits)
