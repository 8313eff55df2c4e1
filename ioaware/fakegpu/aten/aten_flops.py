"""Count the FLOPs of torch's matrix products and attention between kernels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch.fx.experimental.symbolic_shapes import statically_known_true

from ioaware.fakegpu.storages import strided_tensors

ATTENTION = "aten::_scaled_dot_product_"
PRODUCTS = frozenset(f"aten::{name}" for name in ("mm", "addmm", "bmm", "baddbmm", "_scaled_mm"))
LEFT, RIGHT = ("mat1", "batch1", "self"), ("mat2", "batch2")
"""Names of the factors; the first that an operator has is the factor."""
CONVOLUTIONS = frozenset(
    f"aten::{name}" for name in ("convolution", "_convolution", "cudnn_convolution", "convolution_overrideable")
)


ELEMENTS = {
    torch.float32: "f32",
    torch.float16: "f16",
    torch.bfloat16: "bf16",
    torch.float8_e4m3fn: "f8E4M3FN",
    torch.float8_e5m2: "f8E5M2",
    torch.int8: "i8",
}
"""Names of element types in MLIR."""


def operator_products(func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], outcome: object) -> tuple[Any, str] | None:
    """Return the FLOPs of an operator's matrix products and their element type.

    None for an operator without any, or of unknown ones.
    """
    flops = operator_flops(func, args, kwargs, outcome)
    operands = strided_tensors((args, kwargs))
    return None if flops is None or not operands else (flops, ELEMENTS.get(operands[0].dtype, str(operands[0].dtype)))


def operator_flops(func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], outcome: object) -> Any | None:
    """Return the FLOPs of an operator's matrix products, an integer or a SymInt.

    None for an operator without any, or of unknown ones. Masked scores of causal attention are not counted.
    """
    name: str = func._schema.name
    given = {one.name: value for one, value in zip(func._schema.arguments, args, strict=False)} | dict(kwargs)
    if name in PRODUCTS:
        left, right = (next(given[one] for one in names if one in given) for names in (LEFT, RIGHT))
        return 2 * _product(left.shape) * right.shape[-1]
    if name in CONVOLUTIONS:
        (result,) = strided_tensors(outcome)
        weight = given["weight"]
        return None if given.get("transposed") else 2 * _product(result.shape) * _product(weight.shape[1:])
    if name.startswith(ATTENTION):
        return _attention(given, backward=name.endswith("_backward"))
    return None


def _attention(given: Mapping[str, Any], *, backward: bool) -> Any | None:
    """Return the FLOPs of both products of attention, backward of all five."""
    query, key, value = given["query"], given["key"], given["value"]
    rows, keys, width, out_width = query.shape[-2], key.shape[-2], query.shape[-1], value.shape[-1]
    if not given.get("is_causal"):
        scores = 2 * rows * keys
    elif statically_known_true(rows == keys):
        scores = rows * (rows + 1)
    else:
        return None
    return _product(query.shape[:-2]) * scores * ((3 * width + 2 * out_width) if backward else (width + out_width))


def _product(sizes: Iterable[Any]) -> Any:
    found: Any = 1
    for size in sizes:
        found = found * size
    return found
