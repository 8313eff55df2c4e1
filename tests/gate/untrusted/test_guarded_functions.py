"""Replaced public functions are named with their place, and put back."""

from __future__ import annotations

import builtins
import time
from typing import Any

import torch
import triton

from ioaware.gate.untrusted.guarded_functions import GuardedFunctions

cuda: Any = torch.cuda
jit: Any = triton.runtime.jit


def replacement() -> float:
    return 0.0


def test_nothing_replaced() -> None:
    with GuardedFunctions() as guard:
        pass
    assert guard.changed() == {}


def test_functions_methods_and_classes() -> None:
    places: list[tuple[Any, str, Any, str]] = [
        (time, "perf_counter", replacement, "time.perf_counter"),
        (torch, "allclose", 3, "torch.allclose"),
        (torch.Tensor, "__rsub__", len, "torch.Tensor.__rsub__"),
        (torch.testing, "assert_close", replacement, "torch.testing.assert_close"),
        (torch.nn.functional, "softmax", replacement, "torch.nn.functional.softmax"),
        (cuda, "synchronize", replacement, "torch.cuda.synchronize"),
        (cuda.Event, "elapsed_time", staticmethod(replacement), "torch.cuda.Event.elapsed_time"),
        (triton, "cdiv", replacement, "triton.cdiv"),
        (triton.testing, "do_bench", replacement, "triton.testing.do_bench"),
        (builtins, "hash", replacement, "builtins.hash"),
        (jit.JITFunction, "run", replacement, "triton.JITFunction.run"),
        (jit.KernelInterface, "warmup", replacement, "triton.KernelInterface.warmup"),
        (jit.KernelInterface, "__getitem__", replacement, "triton.KernelInterface.__getitem__"),
    ]
    before = [vars(owner)[name] for owner, name, *_ in places]
    with GuardedFunctions() as guard:
        for owner, name, value, _ in places:
            setattr(owner, name, value)
        found = guard.changed()
    assert [vars(owner)[name] for owner, name, *_ in places] == before
    assert guard.changed() == {}
    assert found.keys() == {full for *_, full in places}
    line = replacement.__code__.co_firstlineno
    assert found["time.perf_counter"] == found["torch.cuda.Event.elapsed_time"] == f"test_guarded_functions.py:{line}"
    assert (found["torch.allclose"], found["torch.Tensor.__rsub__"]) == ("int", "builtin_function_or_method")


def test_the_warm_up_that_a_kernel_inherits() -> None:
    with GuardedFunctions() as guard:
        jit.JITFunction.warmup = replacement
        assert guard.changed().keys() == {"triton.JITFunction.warmup"}
    assert "warmup" not in vars(jit.JITFunction)


def test_methods_that_a_base_class_has() -> None:
    """An evaluator's `(a - b).abs().max()` uses methods that are inherited."""
    one = torch.tensor([-1.0])
    with GuardedFunctions() as guard:
        torch.Tensor.abs = lambda self: self * 0  # type: ignore[method-assign]
        torch.Tensor.__eq__ = lambda *_: True  # type: ignore[method-assign]
        torch.Tensor.of_a_test = replacement  # type: ignore[attr-defined]  # replaces nothing
        assert float(one.abs()) == 0.0
        assert guard.changed().keys() == {"torch.Tensor.abs", "torch.Tensor.__eq__"}
    del torch.Tensor.of_a_test  # type: ignore[attr-defined]
    assert float(one.abs()) == 1.0
    assert not {"abs", "__eq__"} & vars(torch.Tensor).keys()


def test_a_function_that_is_removed() -> None:
    with GuardedFunctions() as guard:
        del time.monotonic
        assert guard.changed() == {"time.monotonic": "removed"}
    assert callable(time.monotonic)


def test_a_function_that_a_module_gains_replaces_nothing() -> None:
    with GuardedFunctions() as guard:
        time.of_a_test = replacement  # type: ignore[attr-defined]
        assert guard.changed() == {}
    del time.of_a_test  # type: ignore[attr-defined]


def test_private_names_and_modules_are_free() -> None:
    with GuardedFunctions() as guard:
        cuda._of_a_test = 1
        before, torch.linalg = torch.linalg, None  # type: ignore[assignment]
        try:
            assert guard.changed() == {}
        finally:
            torch.linalg = before
            del cuda._of_a_test
