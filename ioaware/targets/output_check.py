"""Check outputs.

The checks are the relative error against a float64 reference, norms, and changed inputs.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from ioaware.errors import UsageError

if TYPE_CHECKING:
    from torch import Tensor

NOT_FINITE_ERROR = sys.float_info.max
"""Relative error of an output with NaN or infinity.

JSON has neither, and it exceeds every tolerance.
"""


def relative_error(output: Tensor, reference: Tensor) -> float:
    """Return ||output - reference|| / ||reference|| (Frobenius), in float64.

    It is computed on the tensors' device.
    """
    if output.shape != reference.shape:
        raise UsageError(
            f"the output has shape {tuple(output.shape)}, its reference {tuple(reference.shape)}", "Make the two shapes equal."
        )
    if not bool(output.isfinite().all()):
        return NOT_FINITE_ERROR
    exact = reference.double()
    scale = _norm(exact)
    error = _norm(output.double() - exact)
    return error / scale if scale else error


def worst_error(outputs: Sequence[Tensor], reference: Tensor | Sequence[Tensor]) -> float:
    """Return the largest relative error over the references.

    A single reference is for the first output.
    """
    import torch

    wanted = [reference] if isinstance(reference, torch.Tensor) else list(reference)
    if len(outputs) < len(wanted) or (len(wanted) > 1 and len(outputs) > len(wanted)):
        raise UsageError(
            f"the work returned {len(outputs)} tensors, its reference {len(wanted)}",
            "Return one output for each tensor of the reference.",
        )
    return max(relative_error(output, exact) for output, exact in zip(outputs, wanted, strict=False))


def _norm(tensor: Tensor) -> float:
    import torch

    return float(cast(Any, torch.linalg).vector_norm(tensor))


def tensors(value: object) -> list[Tensor]:
    """Return every tensor in a nesting of tuples, lists and dictionaries."""
    import torch

    if isinstance(value, torch.Tensor):
        return [value]
    items: Iterable[object] = ()
    if isinstance(value, Mapping):
        items = cast("Mapping[object, object]", value).values()
    elif isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
        items = cast("Sequence[object]", value)
    return [tensor for item in items for tensor in tensors(item)]


def output_norm(value: object) -> float | None:
    """Return the Frobenius norm of an output, in float64.

    It covers all floating-point tensors.
    """
    parts = [_norm(tensor.double()) for tensor in tensors(value) if tensor.is_floating_point()]
    norm = sum(part * part for part in parts) ** 0.5
    return norm if parts and norm < NOT_FINITE_ERROR else None


def output_bytes(value: object) -> int:
    """Return the bytes of the storages an output keeps alive, shared ones once."""
    storages = {tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes() for tensor in tensors(value)}
    return sum(storages.values())


def changed_inputs(before: Sequence[Tensor], after: Sequence[Tensor]) -> list[int]:
    """Return the positions of the inputs that the work changed; NaN equals NaN here."""
    return [
        position
        for position, (old, new) in enumerate(zip(before, after, strict=True))
        if not bool(((old == new) | ((old != old) & (new != new))).all())
    ]
