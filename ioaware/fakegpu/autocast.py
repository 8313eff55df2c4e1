"""Apply `torch.autocast("cuda")` on the fake GPU, whose tensors are on the CPU.

It casts the operands of operators as it would on a GPU.

torch's own kernels of AutocastCUDA leave tensors on the CPU alone. Here the same policies are registered under a dispatch key
that nothing else uses, and that is active while autocast for CUDA is. Which operators have which policy is read from the
header that torch was built from, so that it is that of the installed version.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch

from ioaware._monkeypatch import Patches
from ioaware.errors import UsageError

_torch: Any = torch
native: Any = _torch._C
KEY_NAME = "AutocastPrivateUse1"
KEY: Any = getattr(native.DispatchKey, KEY_NAME)
WITHOUT_KEY: Any = native.DispatchKeySet(KEY)
HEADER = Path(torch.__file__).parent / "include" / "ATen" / "autocast_mode.h"
OUTSIDE_OF_THE_HEADER = {
    "cudnn_convolution": "LOWER_PRECISION_FP",
    "cudnn_convolution_transpose": "LOWER_PRECISION_FP",
    "binary_cross_entropy": "BANNED",
}
"""Operators that torch registers for CUDA alone.

They stand beside the lists that all devices share.
"""
APPENDED_DTYPE = {
    "norm.Scalar": "ScalarOpt_dtype",
    "norm.ScalarOpt_dim": "ScalarOpt_dim_dtype",
    "norm.names_ScalarOpt_dim": "names_ScalarOpt_dim_dtype",
}
"""Overloads that run as another one, which takes the type of the result.

Not every release of torch registers the one with names.
"""
NOT_ON_THE_CPU = {"_cudnn_rnn"}
"""Operators of torch built with CUDA that no tensor on the CPU reaches."""

_casts: dict[int, tuple[Any, Any]] = {}
"""Parameters and their casts, until the outermost region ends.

The key is the parameter's identity.
"""


@contextmanager
def autocast_on_cpu() -> Generator[None]:
    """Apply autocast for CUDA to tensors on the CPU inside the block.

    Autocast for the CPU applies to none.
    """
    on_the_cpu = [plain_is_enabled("cpu")]

    def set_enabled(*args: Any) -> None:
        device, enabled = args if len(args) == 2 else ("cuda", *args)
        if device == "cpu":
            on_the_cpu[0] = enabled
        else:
            plain_set_enabled(device, enabled)
            _activate(plain_is_enabled("cuda"))

    def is_enabled(device: str = "cuda") -> bool:
        return on_the_cpu[0] if device == "cpu" else plain_is_enabled(device)

    def clear() -> None:
        _casts.clear()
        plain_clear()

    with Patches() as patches:
        plain_set_enabled: Callable[..., None] = patches.set(torch, "set_autocast_enabled", set_enabled)
        patches.set(torch, "is_autocast_enabled", is_enabled)
        plain_clear: Callable[[], None] = patches.set(torch, "clear_autocast_cache", clear)
        plain_set_enabled("cpu", False)
        _activate(plain_is_enabled("cuda"))
        try:
            yield
        finally:
            _activate(False)
            _casts.clear()
            plain_set_enabled("cpu", on_the_cpu[0])


plain_is_enabled: Callable[[str], bool] = torch.is_autocast_enabled


def _activate(enabled: bool) -> None:
    """Send operators through the kernels registered here, or not."""
    if enabled:
        _register()
    native._dispatch_tls_set_dispatch_key_excluded(KEY, not enabled)
    native._dispatch_tls_set_dispatch_key_included(KEY, enabled)


@cache
def _register() -> tuple[Any, ...]:
    """Register a kernel for each operator that has a policy; all others pass."""
    fallback: Any = torch.library.Library("_", "IMPL")
    kernels: Any = torch.library.Library("aten", "IMPL")
    fallback.fallback(torch.library.fallthrough_kernel, KEY_NAME)
    for name, policy in policies().items():
        operator, _, overload = name.partition(".")
        run = getattr(getattr(torch.ops.aten, operator), APPENDED_DTYPE.get(name, overload or "default"))
        kernels.impl(name, partial(POLICIES["APPEND_DTYPE" if name in APPENDED_DTYPE else policy], run), KEY_NAME)
    return fallback, kernels  # a library that is collected takes its kernels along


def policies() -> dict[str, str]:
    """Return the policy of each operator that autocast covers.

    The key is the operator's name without `aten::`.

    Raises `UsageError` where torch's header lacks it for an operator that torch has registered.
    """
    found = dict(OUTSIDE_OF_THE_HEADER) | dict.fromkeys(APPENDED_DTYPE, "APPEND_DTYPE")
    text = HEADER.read_text() if HEADER.exists() else ""
    for policy, body in re.findall(r"#define AT_FORALL_(LOWER_PRECISION_FP|FP32\w*|PROMOTE)\(_\)((?:.*\\\n)*.*)", text):
        found |= {".".join(filter(None, name)): policy for name in re.findall(r"\b_\((\w+)(?:, *(\w+))?\)", body)}
    named = native._dispatch_get_registrations_for_dispatch_key("AutocastCUDA")
    registered = {name.removeprefix("aten::") for name in named} - NOT_ON_THE_CPU
    if unknown := registered - found.keys():
        raise UsageError(
            f"what autocast does to {', '.join(sorted(unknown)[:3])} in torch {torch.__version__} is not known here",
            "Derive the function without autocast, its tensors cast by .to(dtype).",
        )
    return {name: found[name] for name in sorted(registered)}


def _lower_precision(run: Any, *args: Any, **kwargs: Any) -> Any:
    """Run in the type of the region."""
    with native._ExcludeDispatchKeyGuard(WITHOUT_KEY):
        dtype: torch.dtype = _torch.get_autocast_dtype("cuda")
        return run(*_cast(args, dtype), **_cast(kwargs, dtype))


def _float32(run: Any, *args: Any, **kwargs: Any) -> Any:
    """Run in float32."""
    with native._ExcludeDispatchKeyGuard(WITHOUT_KEY):
        return run(*_cast(args, torch.float32), **_cast(kwargs, torch.float32))


def _float32_result(run: Any, *args: Any, **kwargs: Any) -> Any:
    """Let the result be float32 unless the call names its type."""
    with native._ExcludeDispatchKeyGuard(WITHOUT_KEY):
        if not _is_eligible(args[0]):
            return run(*args, **kwargs)
        names = [argument.name for argument in run._schema.arguments if not argument.kwarg_only]
        given = dict(zip(names, args, strict=False)) | kwargs
        return run(**(given if given.get("dtype") is not None else given | {"dtype": torch.float32}))


def _append_dtype(run: Any, *args: Any) -> Any:
    """Run the overload that takes the type of the result."""
    with native._ExcludeDispatchKeyGuard(WITHOUT_KEY):
        return run(*args, dtype=torch.float32 if _is_eligible(args[0]) else args[0].dtype)


def _promote(run: Any, *args: Any, **kwargs: Any) -> Any:
    """Run in the widest type among the operands, that of the region at least."""
    with native._ExcludeDispatchKeyGuard(WITHOUT_KEY):
        lower: torch.dtype = _torch.get_autocast_dtype("cuda")
        types = {tensor.dtype for tensor in _tensors((args, kwargs)) if _is_eligible(tensor)}
        if not types <= {lower, torch.float32}:
            raise RuntimeError("Unexpected floating ScalarType in at::autocast::prioritize")
        dtype = torch.float32 if torch.float32 in types else lower
        return run(*_cast(args, dtype), **_cast(kwargs, dtype))


def _banned(run: Any, *_: Any, **__: Any) -> Any:
    raise RuntimeError(f"{run._schema.name} is unsafe to autocast: use binary_cross_entropy_with_logits")


POLICIES: dict[str, Callable[..., Any]] = {
    "LOWER_PRECISION_FP": _lower_precision,
    "FP32": _float32,
    "FP32_SET_OPT_DTYPE": _float32_result,
    "APPEND_DTYPE": _append_dtype,
    "PROMOTE": _promote,
    "BANNED": _banned,
}


def _cast(value: Any, dtype: torch.dtype) -> Any:
    """Cast the floating-point tensors in a nesting.

    Casts of parameters to the region's type are cached.
    """
    if isinstance(value, dict):
        return {name: _cast(item, dtype) for name, item in value.items()}  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, (list, tuple)):
        return [_cast(item, dtype) for item in value]  # pyright: ignore[reportUnknownVariableType]
    if not _is_eligible(value) or value.dtype == dtype:
        return value
    if not (_is_cacheable(value) and dtype == _torch.get_autocast_dtype("cuda")):
        return value.to(dtype)
    if id(value) not in _casts:
        _casts[id(value)] = value, value.to(dtype)
    return _casts[id(value)][1]


def _is_eligible(value: Any) -> bool:
    """Return whether autocast casts it; double precision stays."""
    return isinstance(value, torch.Tensor) and value.is_floating_point() and value.dtype != torch.float64


def _is_cacheable(tensor: Any) -> bool:
    """Return whether a cast serves the whole region.

    Only that of a parameter in float32 does, unless the region has no cache.
    """
    is_parameter = tensor.requires_grad and tensor.is_leaf and not tensor._is_view()
    return is_parameter and tensor.dtype == torch.float32 and _torch.is_autocast_cache_enabled()


def _tensors(value: Any) -> list[Any]:
    """Return the tensors in a nesting."""
    if isinstance(value, dict):
        value = list(value.values())  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    if isinstance(value, (list, tuple)):
        return [tensor for item in value for tensor in _tensors(item)]  # pyright: ignore[reportUnknownVariableType]
    return [value] if isinstance(value, torch.Tensor) else []
