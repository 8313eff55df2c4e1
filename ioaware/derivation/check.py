"""Check derived numbers by an independent method.

It is a plain interpretation of each launch at the given values. All launches together get `CHECK_SECONDS`, those with few
programs first, and a launch that is not interpreted to its end is not checked.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sympy import Expr
from triton.backends.compiler import GPUTarget

from ioaware.analysis.ir import Count, KernelTraffic
from ioaware.analysis.ir.concrete.interpret import MAX_STEPS, interpret, public_function
from ioaware.analysis.ir.concrete.interpreter_state import Descriptor, Opaque, integer_type, parameters
from ioaware.analysis.ir.concrete.interpreter_state import Value as Plain
from ioaware.analysis.ir.concrete.tally import Memory, Tally, TooLongError, UndecidedError, UnsupportedOperationError
from ioaware.analysis.ir.mlir.parser import parse
from ioaware.analysis.ir.mlir.types import Type
from ioaware.capture.capture import Capture
from ioaware.compilation.execution.program_values import Moved
from ioaware.compilation.launches import CapturedLaunch, DescriptorValue, TensorValue, Value, launch_at
from ioaware.compilation.triton_ir import first_ir, integer_at
from ioaware.derivation.derived_launch import DerivedLaunch

BYTES = ("read_bytes", "write_bytes", "atomic_bytes", "flops")
SECTORS = ("read_sector_bytes", "write_sector_bytes")
Contents = Mapping[str, Any]
"""Elements of the storages whose contents are known, by parameter of the IR."""
CHECK_SECONDS = 20.0
"""CPU time in which the launches of one derivation are interpreted."""
CHECKED = "counted again by plain interpretation"


def interpret_launch(
    launch: CapturedLaunch,
    values: Mapping[str, int],
    gpu: GPUTarget,
    contents: Contents | None = None,
    max_steps: int = MAX_STEPS,
    seconds: float = math.inf,
) -> Tally:
    """Return what one captured launch requests at these values, by running its IR.

    `seconds` is the most CPU time of the interpretation.

    Raises as `interpret` does.
    """
    ir = first_ir(launch, values, gpu)
    _, function = public_function(parse(ir.text))
    kinds = [kind for _, kind in parameters(function)]
    memory, places = Memory([], []), dict[int, int]()
    given: list[Plain] = []
    for name, value in ir.parameters:
        tensor = value.base if isinstance(value, DescriptorValue) else value
        if isinstance(tensor, TensorValue) and tensor.storage not in places:
            places[tensor.storage] = len(memory.sizes)
            memory.sizes.append(integer_at(tensor.storage_bytes, values))
            memory.contents.append(None)
        if isinstance(tensor, TensorValue) and contents and name in contents:
            memory.contents[places[tensor.storage]] = contents[name].copy().view(np.uint8)
        given += _given(value, kinds[len(given) :], places, values)
    return interpret(ir.text, given, [integer_at(size, values) for size in launch.grid], memory, max_steps, seconds)


def _given(value: Value, kinds: list[Type], places: Mapping[int, int], values: Mapping[str, int]) -> list[Plain]:
    """Return the values of the IR's parameters for one argument.

    A descriptor is followed by its sizes and strides.
    """

    def number(size: Any) -> int:
        return integer_at(size, values) if isinstance(size, Expr) else int(size)

    if isinstance(value, DescriptorValue):
        start = Memory.start(places[value.base.storage]) + number(value.base.offset) * value.base.itemsize
        shape, strides = tuple(map(number, value.shape)), tuple(map(number, value.strides))
        behind = zip(kinds[1:], (*shape, *strides), strict=False)
        return [
            Descriptor(start, shape, strides, kinds[0]),
            *(np.asarray(size).astype(integer_type(kind) or np.int64) for kind, size in behind),
        ]
    if isinstance(value, TensorValue):
        is_empty = any(number(size) == 0 for size in value.shape)  # whose address is null
        start = Memory.start(places[value.storage]) + number(value.offset) * value.itemsize
        return [np.asarray(0 if is_empty else start, np.int64)]
    kind = integer_type(kinds[0])
    return [Opaque(()) if kind is None else np.asarray(number(value)).astype(kind)]


def difference(counted: KernelTraffic | Moved, tally: Tally, values: Mapping[str, int]) -> str:
    """Return how exact numbers differ from a plain interpretation at these values.

    Empty where they agree.
    """
    with_sectors = counted.has_sectors if isinstance(counted, Moved) else counted.sectors_exact
    found: list[str] = []
    for name in (*BYTES, *(SECTORS if with_sectors and tally.sectors_known else ())):
        count: Count | int | None = getattr(counted, name)
        if isinstance(count, Count):
            count = int(count.evaluate(values)) if count.symbols <= values.keys() else None
        if count is not None and count != getattr(tally, name):
            found.append(f"{name} is {count}, and {getattr(tally, name)} by plain interpretation")
    return "; ".join(found)


def check_launch(
    launch: CapturedLaunch,
    counted: KernelTraffic | Moved,
    values: Mapping[str, int],
    gpu: GPUTarget,
    contents: Contents | None = None,
    seconds: float = math.inf,
) -> tuple[bool | None, str]:
    """Return whether a launch's numbers are confirmed, and why not.

    It is None where they cannot be checked.

    They are those of formulas, or those at the `contents` of index tensors that host code built.
    """
    try:
        tally = interpret_launch(launch, values, gpu, contents, seconds=seconds)
    except UndecidedError as error:
        return None, f"data decide {error}"
    except TooLongError as error:
        return None, str(error)
    except UnsupportedOperationError as error:
        return None, f"plain interpretation has no rule for {error}"
    except (ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
        return None, f"plain interpretation does not understand its IR ({type(error).__name__})"
    wrong = difference(counted, tally, values)
    beyond = [f"{line} reaches beyond its tensor with {lanes} elements" for line, lanes in tally.beyond.items()]
    return not wrong, "; ".join((*([wrong] if wrong else []), *beyond))


def cross_check(
    parts: Sequence[DerivedLaunch], captured: Capture, values: Mapping[str, int], gpu: GPUTarget
) -> tuple[list[DerivedLaunch], str]:
    """Return the launches with the outcome of their check, and how many were checked.

    The outcome of a launch is its first note. A launch that differs is not exact. Those that are not exact by themselves are
    not interpreted.
    """
    events = [event for event in captured.events if isinstance(event, CapturedLaunch)]
    places = [place for place, event in enumerate(captured.events) if isinstance(event, CapturedLaunch)]
    order = sorted(range(len(events)), key=lambda number: _programs(events[number], values))
    checked, deadline, confirmed = list(parts), time.thread_time() + CHECK_SECONDS, 0
    for number in order:
        part, moved = parts[places[number]], captured.moved.get(number)
        if part.traffic is None or not part.launch.exact:
            continue
        contents = moved.contents if isinstance(moved, Moved) else None
        left = deadline - time.thread_time()
        launch = launch_at(events[number], values) if part.moved else events[number]  # which was executed as compiled there
        right, why = check_launch(launch, part.moved or part.traffic, values, gpu, contents, left)
        said = {True: CHECKED, False: "WRONG", None: "not checked"}[right]
        note = f"check: {said}{': ' + why if why else ''}"
        exact, notes = right is not False, (note, *part.launch.notes)
        checked[places[number]] = replace(part, launch=replace(part.launch, exact=exact, notes=notes))
        confirmed += right is not None
    return checked, f"check: {confirmed} of {len(events)} launches {CHECKED}, at most {CHECK_SECONDS:.0f} s of CPU for all"


def _programs(launch: CapturedLaunch, values: Mapping[str, int]) -> int:
    return math.prod(integer_at(size, values) for size in launch.grid)
