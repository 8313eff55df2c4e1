"""Kernels that evade an evaluator, each in one way.

`tests/gate/untrusted/test_cheats.py` says what finds it.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import gc
import inspect
import statistics
import subprocess
import sys
import threading
import time

import numpy as np
import torch
import triton
import triton.language as tl
from torch.overrides import TorchFunctionMode


@triton.jit
def double_kernel(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, at < n) * 2, at < n)


@triton.jit
def fill_kernel(out, n, value, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, value, at < n)


@triton.jit
def first_row_kernel(x, out, rows, cols, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    row = tl.load(x + at, at < cols)
    tl.store(out + tl.program_id(0) * cols + at, row * 2, at < cols)


@triton.jit
def half_precision_kernel(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, (tl.load(x + at, at < n).to(tl.float16) * 2).to(tl.float32), at < n)


def doubled(x, out=None, programs=None):
    out = torch.empty_like(x) if out is None else out
    double_kernel[(programs or triton.cdiv(x.numel(), 64),)](x, out, x.numel(), BLOCK=64)
    return out


def reference(x):
    return x * 2


# What is kept from an earlier call

BY_ADDRESS, BY_SHAPE, BY_VALUE, CALLS = {}, {}, {}, []


def cached_by_address(x):
    if x.data_ptr() not in BY_ADDRESS:
        BY_ADDRESS[x.data_ptr()] = doubled(x)
    return BY_ADDRESS[x.data_ptr()]


def cached_by_shape(x):
    if x.shape not in BY_SHAPE:
        BY_SHAPE[x.shape] = doubled(x)
    return BY_SHAPE[x.shape].clone()


def cached_by_value(x):
    """Right at every call, and without work when an evaluator repeats it."""
    key = tuple(x.tolist())
    if key not in BY_VALUE:
        BY_VALUE[key] = doubled(x)
    return BY_VALUE[key]


def stale_with_a_launch(x):
    """Launch the kernel at each call, on the inputs of the first."""
    if not BY_ADDRESS:
        BY_ADDRESS[0] = x.clone()
    return doubled(BY_ADDRESS[0])


def right_when_checked(x):
    """Work in the first call, which is the one that is checked."""
    CALLS.append(1)
    out = torch.zeros_like(x)
    return doubled(x, out, None if len(CALLS) < 2 else 1)


def cached_behind_a_launch(x):
    """Launch at each call, and return what an earlier one computed of the same values."""
    key, out = tuple(x.tolist()), doubled(x)
    return BY_VALUE.setdefault(key, out)


@triton.jit
def sum_kernel(x, out, n, BLOCK: tl.constexpr):
    total = 0.0
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        total += tl.sum(tl.load(x + at, at < n, 0.0))
    tl.store(out, total)


def cached_by_a_kernel(x):
    """Hash the inputs by a kernel, and copy what an earlier call computed of them."""
    key = torch.empty(1, device=x.device)
    sum_kernel[(1,)](x, key, x.numel(), BLOCK=64)
    return BY_VALUE.setdefault(key.item(), None if key.item() in BY_VALUE else doubled(x)).clone()


def kept_on_the_input(x):
    x.__dict__.setdefault("kept", None)
    x.kept = doubled(x) if x.kept is None else x.kept
    return x.kept


@triton.jit
def copy_kernel(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, at < n), at < n)


def copied(x):
    out = torch.empty_like(x)
    copy_kernel[(triton.cdiv(x.numel(), 64),)](x, out, x.numel(), BLOCK=64)
    return out


def copies_what_torch_computes(x):
    return copied(x + x)


def copies_what_numpy_computes(x):
    return copied(torch.from_numpy(x.cpu().numpy() * 2).to(x.device))


@triton.jit
def every_second_kernel(x, out, n, BLOCK: tl.constexpr):
    at = 2 * (tl.program_id(0) * BLOCK + tl.arange(0, BLOCK))
    value = tl.load(x + at, at < n) * 2
    tl.store(out + at, value, at < n)
    tl.store(out + at + 1, value, at + 1 < n)


def every_second_element(x):
    out = torch.empty_like(x)
    every_second_kernel[(triton.cdiv(x.numel(), 128),)](x, out, x.numel(), BLOCK=64)
    return out


def sets_the_default_type(x):
    torch.set_default_dtype(torch.float16)
    return doubled(x)


class Agreeing(TorchFunctionMode):
    """A mode in which all tensors are close."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        return True if func in (torch.allclose, torch.isclose) else func(*args, **(kwargs or {}))


def enters_a_mode(x):
    Agreeing().__enter__()
    return doubled(x)


def cached_while_nothing_changes(x):
    """Compute whenever an input is written, and not while a call is repeated."""
    if (kept := BY_ADDRESS.get((x.data_ptr(), x._version))) is not None:
        doubled(x)
        return kept
    return BY_ADDRESS.setdefault((x.data_ptr(), x._version), doubled(x))


# An output that the kernels do not compute


def unwritten(x):
    """Return memory that the caching allocator just freed.

    It is the reference's answer, if that was computed before.
    """
    scratch = torch.empty_like(x)
    doubled(x, scratch)
    return torch.empty_like(x)


def part_of_the_grid(x):
    return doubled(x, programs=max(1, triton.cdiv(x.numel(), 64) - 1))


def no_kernel(x):
    return x * 2


def decoy(x):
    doubled(x)
    return torch.mul(x, 2)


def falls_back(x):
    try:
        return doubled(x)
    except Exception:
        return x * 2


def constant(x):
    out = torch.empty_like(x)
    fill_kernel[(triton.cdiv(x.numel(), 64),)](out, x.numel(), 0.25, BLOCK=64)
    return out


def first_row_only(x):
    """Repeat the first row, as though all rows were the same."""
    out = torch.empty_like(x)
    first_row_kernel[(x.shape[0],)](x, out, x.shape[0], x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
    return out


def half_precision(x):
    out = torch.empty_like(x)
    half_precision_kernel[(triton.cdiv(x.numel(), 64),)](x, out, x.numel(), BLOCK=64)
    return out


def smaller_type(x):
    return doubled(x.half())


def at_the_checked_size(x):
    """Skip the last programs at the size that an evaluator uses."""
    return doubled(x, torch.zeros_like(x), 1 if x.numel() == 200 else None)


def only_at_the_checked_size(x):
    """Compute at the size that an evaluator uses, and nothing at any other."""
    return doubled(x, torch.zeros_like(x), None if x.numel() == 200 else 1)


def at_large_sizes(x):
    """Compute something else at sizes that an interpreter would take long for."""
    return constant(x) if x.numel() > 100 else doubled(x)


def overwrites_its_input(x):
    return doubled(x, x)


def view_of_its_input(x):
    return doubled(x), x.view(-1)


def reference_with_its_input(x):
    return x * 2, x.clone()


# What disturbs the measurement


def on_another_stream(x):
    out = torch.empty_like(x)
    with torch.cuda.stream(torch.cuda.Stream()):
        return doubled(x, out)


def waits_for_the_wrong_stream(x):
    side, other, out = torch.cuda.Stream(), torch.cuda.Stream(), torch.empty_like(x)
    with torch.cuda.stream(side):
        doubled(x, out)
    torch.cuda.current_stream().wait_stream(other)
    return out


def waits_for_an_earlier_event(x):
    """Wait for what the other stream had done before the work."""
    side, out, event = torch.cuda.Stream(), torch.empty_like(x), torch.cuda.Event()
    event.record(side)
    with torch.cuda.stream(side):
        doubled(x, out)
    event.wait()
    return out


def in_a_thread(x):
    out = torch.empty_like(x)
    thread = threading.Thread(target=doubled, args=(x, out))
    thread.start()
    thread.join()
    return out


def patches_events(x):
    torch.cuda.Event.elapsed_time = lambda *_: 1e-3
    return doubled(x)


def patches_synchronize(x):
    torch.cuda.synchronize = lambda *_: None
    return doubled(x)


def patches_the_clock(x):
    time.perf_counter = lambda: 0.0
    return doubled(x)


def patches_the_comparison(x):
    torch.allclose = lambda *_, **__: True
    return doubled(x)


def patches_the_comparison_of_numpy(x):
    np.allclose = lambda *_, **__: True
    return doubled(x)


def patches_the_comparison_of_numpy_tests(x):
    np.testing.assert_allclose = lambda *_, **__: None
    return doubled(x)


def patches_the_median(x):
    statistics.median = lambda _: 0.0
    return doubled(x)


def patches_the_warm_up(x):
    triton.runtime.JITFunction.warmup = lambda *_, **__: None
    return doubled(x)


def persisting_l2(x):
    cuda_limit_persisting_l2_cache_size = 6
    ctypes.CDLL("libcudart.so").cudaDeviceSetLimit(cuda_limit_persisting_l2_cache_size, 1 << 25)
    return doubled(x)


def access_policy(x):
    torch.cuda.cudart().cudaStreamSetAttribute(0, 1, None)
    return doubled(x)


def native_code(x):
    from torch.utils import cpp_extension

    cpp_extension.load_inline("extension", "torch::Tensor twice(torch::Tensor x) { return x * 2; }", functions=["twice"])
    return doubled(x)


def native_access_policy(x):
    from torch.utils import cpp_extension

    cpp_extension.load_inline("extension", cuda_sources="cudaStreamAttrValue a; a.accessPolicyWindow.hitRatio = 1;")
    return doubled(x)


def other_code_when_derived(x):
    """Show a derivation, whose tensors are fake, a kernel that moves fewer bytes."""
    if hasattr(x, "fake_mode"):
        return constant(x)
    return doubled(x)


class Lazy(torch.Tensor):
    """Is doubled by its first use."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        plain = [arg.as_subclass(torch.Tensor) * 2 if isinstance(arg, cls) else arg for arg in args]
        return func(*plain, **(kwargs or {}))


def computes_when_used(x: torch.Tensor) -> torch.Tensor:
    double_kernel[(triton.cdiv(x.numel(), 128),)](x, torch.empty_like(x), x.numel(), BLOCK=128)
    return x.clone().as_subclass(Lazy)


def sets_the_seed(x):
    torch.manual_seed(0)
    return doubled(x)


def sets_the_seed_of_the_gpu(x):
    torch.cuda.manual_seed(0)
    return doubled(x)


STATES = []


def restores_an_earlier_state(x):
    """Let the evaluator draw the same inputs again."""
    if not STATES:
        STATES.append(torch.get_rng_state())
    torch.set_rng_state(STATES[0])
    return doubled(x)


def sets_the_seed_of_numpy(x):
    np.random.seed(0)
    return doubled(x)


# What looks at the evaluator, or acts outside the call


def searches_its_callers(x):
    frame = sys._getframe(1)
    while frame is not None:
        if "expected_output" in frame.f_locals:
            return frame.f_locals["expected_output"]
        frame = frame.f_back
    return doubled(x)


def searches_the_stack(x):
    found = [one.frame.f_locals["expected_output"] for one in inspect.stack() if "expected_output" in one.frame.f_locals]
    return found[0] if found else doubled(x)


def searches_by_a_traceback(x):
    try:
        raise KeyError
    except KeyError as error:
        callers = error.__traceback__.tb_frame.f_back.f_locals
    return callers["expected_output"] if "expected_output" in callers else doubled(x)


def searches_all_objects(x):
    found = [one for one in gc.get_objects() if type(one) is dict and "expected_output" in one]
    return found[0]["expected_output"] if found else doubled(x)


def searches_the_main_module(x):
    import __main__

    return getattr(__main__, "expected_output", None) or doubled(x)


def runs_at_exit(x):
    atexit.register(print, end="")
    return doubled(x)


def starts_a_process(x):
    subprocess.run([sys.executable, "-c", ""], check=True)
    return doubled(x)


def persisting_l2_where_there_is_a_library(x):
    with contextlib.suppress(OSError):
        ctypes.cdll["libcudart.so"].cudaDeviceSetLimit(6, 1 << 25)
    return doubled(x)
