"""Put back what host code sets for the whole process.

These are default type and device, precision, gradients, autocast, and environment variables.

Why: the host function runs several times, and after it other targets. Each run must see what the first one saw.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch

_torch: Any = torch
FLAGS = (
    (torch.backends.cudnn, ("enabled", "benchmark", "deterministic", "allow_tf32")),
    (
        torch.backends.cuda.matmul,
        ("allow_tf32", "allow_fp16_reduced_precision_reduction", "allow_bf16_reduced_precision_reduction"),
    ),
)


@contextmanager
def torch_settings_restored() -> Generator[None]:
    """Restore torch's process-wide settings when the block ends."""
    undo = [_setter(*setting) for setting in _settings()]
    flags = [(owner, name, getattr(owner, name)) for owner, names in FLAGS for name in names]
    try:
        yield
    finally:
        for restore in undo:
            restore()
        for owner, name, value in flags:
            if getattr(owner, name) != value:
                setattr(owner, name, value)


def _settings() -> list[tuple[Callable[[], Any], Callable[[Any], Any]]]:
    """Return getter and setter of each setting."""
    return [
        (_torch.get_default_dtype, _torch.set_default_dtype),
        (_default_device, _torch.set_default_device),
        (_torch.get_float32_matmul_precision, _torch.set_float32_matmul_precision),
        (_torch.is_grad_enabled, _torch.set_grad_enabled),
        (_torch.get_deterministic_debug_mode, _torch.set_deterministic_debug_mode),
        (_torch.is_autocast_cache_enabled, _torch.set_autocast_cache_enabled),
        (lambda: dict(os.environ), _set_environment),
        *(
            (partial(read, device), partial(write, device))
            for read, write in (
                (_torch.get_autocast_dtype, _torch.set_autocast_dtype),
                (_torch.is_autocast_enabled, _torch.set_autocast_enabled),
            )
            for device in ("cuda", "cpu")
        ),
    ]


def _setter(read: Callable[[], Any], write: Callable[[Any], Any]) -> Callable[[], None]:
    """Return a function that sets the present value again where it has changed."""
    before = read()

    def restore() -> None:
        if read() != before:
            write(before)

    return restore


def _set_environment(variables: Mapping[str, str]) -> None:
    """Make these the environment variables of the process."""
    for name in os.environ.keys() - variables.keys():
        del os.environ[name]
    os.environ.update(variables)


def _default_device() -> Any:
    """Return the device that `torch.set_default_device` was given, None for none."""
    return getattr(getattr(_torch._GLOBAL_DEVICE_CONTEXT, "device_context", None), "device", None)
