"""Compulsory bytes of captured launches.

Each input tensor is read once, and each returned tensor written once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ioaware.analysis.formulas.evaluate import evaluate
from ioaware.analysis.ir import Access, KernelTraffic
from ioaware.capture.capture import Capture
from ioaware.compilation.launches import CapturedLaunch, DescriptorValue, TensorValue, Value, items_of
from ioaware.result import Traffic

NOTE = "compulsory: each tensor that the kernels read before they write it once, and each that the function returns once"
NOTE_WRITTEN = "compulsory: each tensor that the kernels read before they write it once, and each that they write once"
MADE_BY_TORCH = "compulsory is unknown: what the function returns is made by torch's operators of what the kernels write"


@dataclass
class _Storage:
    """Use of one storage: the bytes of views, and the bytes requested.

    The bytes are those of each view passed to kernels.
    """

    views: dict[TensorValue, int] = field(default_factory=dict[TensorValue, int])
    requested_bytes: int = 0
    size_bytes: int = 0

    @property
    def bytes(self) -> int:
        """Bytes of the views together, at most those of the storage.

        The views may overlap.
        """
        return min(sum(self.views.values()), self.size_bytes)


def compulsory_of_launches(
    captured: Capture, kernels: Sequence[KernelTraffic | None]
) -> tuple[Traffic | None, tuple[str, ...]]:
    """Return compulsory bytes at the given values, with a note.

    None where counts do not identify the bytes: a kernel accesses part of a tensor, or memory that is not an argument, or
    torch's operators make what the function returns. A function that returns nothing leaves what its kernels write.
    """
    inputs: dict[int, _Storage] = defaultdict(_Storage)
    outputs: dict[int, _Storage] = defaultdict(_Storage)
    produced: set[int] = set()
    for launch, kernel in zip(captured.events, kernels, strict=True):
        if kernel is None or not isinstance(launch, CapturedLaunch):
            continue
        tensors = dict(_tensors(launch.arguments.items()))
        if any(access.tensor not in tensors for access in kernel.accesses):
            return None, (f"compulsory is unknown: {launch.name} accesses memory that is not an argument",)
        read = {tensors[access.tensor].storage for access in kernel.accesses if access.kind == "read"}
        for access in kernel.accesses:
            tensor = tensors[access.tensor]
            if access.kind == "read" and tensor.storage not in produced:
                _add(inputs[tensor.storage], tensor, access, captured.values)
            if access.kind != "read":
                _add(outputs[tensor.storage], tensor, access, captured.values)
        produced |= {tensors[access.tensor].storage for access in kernel.accesses if access.kind == "write"} - read
    returned = {number: storage for number, storage in outputs.items() if number in captured.returned}
    if captured.returned and not returned:
        return None, (MADE_BY_TORCH,)
    results = returned or outputs
    sides = (list(inputs.values()), list(results.values()))
    if any(storage.requested_bytes < storage.bytes for side in sides for storage in side):
        return None, ("compulsory is unknown: a kernel accesses only part of a tensor",)
    read_bytes, write_bytes = (sum(storage.bytes for storage in side) for side in sides)
    return Traffic(read_bytes, write_bytes), (NOTE if returned else NOTE_WRITTEN,)


def cold_cache_bytes(captured: Capture, kernels: Sequence[KernelTraffic | None]) -> tuple[Traffic | None, ...]:
    """Return the least HBM bytes of each launch with a cold L2.

    The L2 then holds what is read again. A launch reads each of its tensors once and writes it once; an atomic counts as a
    write. None for a torch operator, where data decide the bytes, and where counts do not identify them.
    """
    found: list[Traffic | None] = []
    for event, kernel in zip(captured.events, kernels, strict=True):
        if kernel is None or not kernel.exact or not isinstance(event, CapturedLaunch):
            found.append(None)
        else:
            alone = replace(captured, events=[event], returned=frozenset())
            found.append(compulsory_of_launches(alone, [kernel])[0])
    return tuple(found)


def _tensors(arguments: Any) -> Iterator[tuple[str, TensorValue]]:
    """Yield the tensor arguments of a launch, those in tuples included.

    They are given by their names in the formulas.
    """
    name: str
    value: Value
    for name, value in arguments:
        if isinstance(value, TensorValue):
            yield name, value
        elif isinstance(value, DescriptorValue):
            yield name, value.base
        elif (items := items_of(value)) is not None:
            yield from _tensors((f"{name}[{index}]", item) for index, item in enumerate(items))


def _add(storage: _Storage, tensor: TensorValue, access: Access, values: Mapping[str, int]) -> None:
    """Add a view of the storage, and the bytes one access requests.

    Dimensions of stride 0 are counted once.
    """
    count = 1
    for size, stride in zip(tensor.shape, tensor.strides, strict=True):
        count *= evaluate(size, values) if stride != 0 else 1
    storage.views[tensor] = count * tensor.itemsize
    storage.size_bytes = evaluate(tensor.storage_bytes, values)
    if access.bytes.symbols <= values.keys():
        storage.requested_bytes += int(access.bytes.evaluate(values))  # pyright: ignore[reportArgumentType]
    else:
        storage.requested_bytes += storage.views[tensor]  # depends on data: counted in full
