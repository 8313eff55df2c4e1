"""Let torch's compiler, Inductor, generate code for the fake GPU.

Graphs move there before its passes see them.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, nullcontext
from functools import partial
from typing import Any

import torch.nn.functional as functional

from ioaware._monkeypatch import Patches
from ioaware.errors import UsageError
from ioaware.fakegpu.cuda_stand_in import StandIn
from ioaware.fakegpu.generated_code import load_kernels_as_autotuners
from ioaware.fakegpu.host_tensors import CPU, CUDA
from ioaware.torchcompile.attention_choice import ATTENTION, call_differences, graph_differences
from ioaware.torchcompile.graph_device import move_to_gpu, on_gpu
from ioaware.torchcompile.tracing_patches import Phase

SETTINGS = {
    "fx_graph_cache": False,
    "autotune_local_cache": False,
    "compile_threads": 1,
    "triton.autotune_at_compile_time": False,
    "triton.cudagraphs": False,
}
TIMES_KERNELS = ("max_autotune", "max_autotune_gemm", "max_autotune_pointwise", "coordinate_descent_tuning")
"""Settings of the compiler under which it chooses kernels by their time on a GPU."""

NOT_PADDED = (
    "torch.compile times on a GPU whether to pad a matmul's operands, which takes a kernel each; here they are not padded"
)


def compile_for_the_gpu(
    patches: Patches,
    stack: ExitStack,
    stand_in: StandIn,
    phase: Phase,
    compiling: Callable[[], AbstractContextManager[None]],
) -> None:
    """Move graphs to the GPU where the compiler receives them.

    The graph of a backward is compiled when it first runs, perhaps after the block: `compiling` is entered again for it.
    """
    from torch._inductor import compile_fx, config
    from torch._inductor.fx_passes import joint_graph, misc_patterns, pad_mm

    inductor: Any = compile_fx
    patterns: Any = misc_patterns
    settings: Any = config
    folder: Any = joint_graph.UniformValueConstantFolder
    plain_deduce: Callable[..., Any] = folder._deduce_value

    def deduce(folds: Any, node: Any) -> Any:
        given = node.kwargs
        if "device" not in given:
            return plain_deduce(folds, node)
        node.kwargs = given | {"device": CPU}  # constants are folded on tensors with memory
        try:
            return plain_deduce(folds, node)
        finally:
            node.kwargs = given

    def without_padding(_: str) -> bool:
        stand_in.choices.add(NOT_PADDED)
        return False

    forget_missing_gpu()
    stack.callback(forget_missing_gpu)
    patches.set(pad_mm, "get_cached_should_pad", without_padding)
    patches.set(folder, "_deduce_value", deduce)
    load_kernels_as_autotuners(patches)
    stack.enter_context(settings.patch(SETTINGS))

    def joint_passes(module: Any, *args: Any, **kwargs: Any) -> Any:
        with phase.set_to(False):
            move_to_gpu(module)
            return plain_passes(module, *args, **(kwargs | {"input_device": CUDA}))

    def inner(module: Any, inputs: Any, **kwargs: Any) -> Any:
        with compiling() if kwargs.get("is_backward") else nullcontext(), phase.set_to(False):
            move_to_gpu(module)
            return plain_inner(module, [on_gpu(value) for value in inputs], **kwargs)

    def whole(
        module: Any,
        inputs: Any,
        inner_compile: Any = None,
        config_patches: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> Any:
        chosen = {name: value for name, value in (config_patches or {}).items() if name not in SETTINGS}
        if timed := [name for name in TIMES_KERNELS if chosen.get(name) or getattr(settings, name)]:
            raise UsageError(
                f"torch.compile with {timed[0]} chooses kernels by their time on a GPU",
                "Compile with the default mode, or derive the function uncompiled: --eager.",
            )
        stand_in.differences.update(graph_differences(module))
        with Patches() as calls:
            calls.set(functional, ATTENTION, attention)
            return plain_whole(module, inputs, inner_compile=inner_compile or inner, config_patches=chosen or None, **kwargs)

    def attention(*args: Any, **kwargs: Any) -> Any:
        if phase.is_tracing:  # torch's own functions call it where dynamo does not look
            stand_in.differences.update(call_differences(*args, **kwargs))
        return plain_attention(*args, **kwargs)

    plain_attention: Callable[..., Any] = functional.scaled_dot_product_attention
    plain_passes: Callable[..., Any] = patches.set(inductor, "_recursive_joint_graph_passes", joint_passes)
    plain_inner: Callable[..., Any] = inductor.compile_fx_inner
    plain_whole: Callable[..., Any] = patches.set(inductor, "compile_fx", whole)
    patches.set(patterns, "_misc_patterns_init", partial(_on_the_cpu, patterns._misc_patterns_init))


def forget_missing_gpu() -> None:
    """Clear what torch remembers of Triton and the GPU.

    It asks once in a process, perhaps while no fake GPU was there.
    """
    from torch.utils import _triton

    for function in vars(_triton).values():
        if hasattr(function, "cache_clear"):
            function.cache_clear()


def _on_the_cpu(register: Callable[..., Any], *_: Any) -> None:
    """Register patterns that torch traces on tensors with memory."""
    register(CPU)
