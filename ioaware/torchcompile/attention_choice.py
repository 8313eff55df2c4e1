"""Find attention that torch computes in another way on a CPU than on a GPU.

Why: torch traces on tensors of the CPU, and chooses there between a fused operator and products with a softmax between. Where
a GPU chooses otherwise, the compiler writes other kernels around it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
import torch.utils._pytree as _pytree

pytree: Any = _pytree
ATTENTION, SETTING = "scaled_dot_product_attention", "sdpa_kernel"
OPERANDS = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal", "scale", "enable_gqa")
FUSED_TYPES = (torch.float16, torch.bfloat16, torch.float32)
HEAD_DIM_MULTIPLE, LARGEST_HEAD_DIM = 8, 256
RANK = 4
"""Dimensions of an operand: batch, heads, rows, head dimension."""


def graph_differences(module: Any) -> Iterator[str]:
    """Yield why a GPU may run other kernels than dynamo's graph leads to.

    Each is a sentence.
    """
    for graph_module in module.modules():
        for node in graph_module.graph.nodes if isinstance(graph_module, torch.fx.GraphModule) else ():
            name = getattr(node.target, "__name__", str(node.target))
            if name == ATTENTION:
                yield from call_differences(*pytree.tree_map(_example, node.args), **pytree.tree_map(_example, node.kwargs))
            elif SETTING in name:
                yield _sentence("its kernel is chosen by name")


def call_differences(*args: Any, **kwargs: Any) -> Iterator[str]:
    """Yield why torch may choose otherwise on a GPU for a call of attention.

    Each is a sentence. There is none where both have a fused operator with the same layouts.
    The arguments are those of torch's function.
    """
    given: Mapping[str, Any] = dict(zip(OPERANDS, args, strict=False)) | kwargs
    operands = [given[name] for name in OPERANDS[:3]]
    if any(getattr(one, "ndim", None) != RANK for one in operands):
        yield _sentence(f"operands without {RANK} dimensions")
        return
    sizes = {one.size(-1) for one in operands}
    head_dim, dtype = sizes.pop(), operands[0].dtype
    unlike = {
        "with gradients": any(one.requires_grad for one in operands),
        "with a mask": given.get("attn_mask") is not None,
        "with dropout": given.get("dropout_p", 0.0) != 0.0,
        "with grouped heads": bool(given.get("enable_gqa", False)),
        f"of {dtype}".replace("torch.", ""): dtype not in FUSED_TYPES,
        "with several head dimensions": bool(sizes),
        f"with head dimension {head_dim}": head_dim % HEAD_DIM_MULTIPLE != 0 or head_dim > LARGEST_HEAD_DIM,
        "with a kernel switched off": not torch.backends.cuda.flash_sdp_enabled(),
    }
    yield from (_sentence(reason) for reason, is_so in unlike.items() if is_so)


def _sentence(reason: str) -> str:
    return (
        f"torch.compile traces attention as on a CPU ({reason}): on a GPU its operator, and the kernels around it, may differ"
    )


def _example(value: Any) -> Any:
    """Return the tensor that a node of the graph stands for."""
    return value.meta.get("example_value") if isinstance(value, torch.fx.Node) else value
