"""Move a traced graph from the CPU to the GPU.

The devices of its tensors change, and of the operators that create them.

Why: torch traces host code on the fake GPU's tensors, which are on the CPU, because a build without CUDA cannot trace any on a
GPU. The compiler must see the graph that a GPU's tensors give.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.utils._pytree as _pytree
from torch._subclasses.fake_tensor import FakeTensor

from ioaware.errors import UsageError
from ioaware.fakegpu.host_tensors import CUDA

pytree: Any = _pytree
ONLY_ON_THE_CPU = ("mkldnn", "onednn", "quantized", "_cpu.")
"""Parts of the names of operators that torch chooses for tensors on the CPU alone.

Attention's moves the same on a GPU.
"""


def on_gpu(value: Any) -> Any:
    """Return a fake tensor or device of the CPU as one of the GPU.

    Anything else unchanged.
    """
    if isinstance(value, torch.device):
        return CUDA if value.type in ("cpu", "cuda") else value
    if not (isinstance(value, FakeTensor) and value.fake_device.type == "cpu"):
        return value
    with value.fake_mode:
        moved: Any = torch.empty_strided(value.size(), value.stride(), dtype=value.dtype, device=CUDA)
        if value.storage_offset():
            moved = torch.empty(value.untyped_storage().nbytes() // value.element_size(), dtype=value.dtype, device=CUDA)
            moved = moved.as_strided(value.size(), value.stride(), value.storage_offset())
    return moved


def move_to_gpu(module: Any) -> None:
    """Move a graph module, and those within it, in place.

    Raises `UsageError` where it has an operator of the CPU alone.
    """
    for graph_module in module.modules():
        if not isinstance(graph_module, torch.fx.GraphModule):
            continue
        for node in graph_module.graph.nodes:
            _refuse_cpu_operators(node)
            for key in ("val", "example_value"):
                if key in node.meta:
                    node.meta[key] = pytree.tree_map(on_gpu, node.meta[key])
            node.args = _devices(node.args)
            node.kwargs = _devices(node.kwargs)
        graph_module.recompile()


def _devices(value: Any) -> Any:
    """Return the arguments of a node with every device that of the GPU."""
    if isinstance(value, torch.device):
        return on_gpu(value)
    if isinstance(value, dict):
        return {name: _devices(item) for name, item in value.items()}  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, (list, tuple)):
        return type(value)(_devices(item) for item in value)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    return value


def _refuse_cpu_operators(node: Any) -> None:
    name = str(node.target)
    if any(part in name for part in ONLY_ON_THE_CPU) and "scaled_dot_product" not in name:
        raise UsageError(
            f"torch.compile meets {node.target}, which torch chooses for tensors on the CPU and not for those on a GPU",
            "Derive the function as it runs without the compiler: --eager.",
        )
