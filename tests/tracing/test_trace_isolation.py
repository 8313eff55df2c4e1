"""A trace leaves results, Triton and torch unchanged.

This is so with or without TRITON_INTERPRET.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest
import torch
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, CompiledKernel
from triton.runtime.autotuner import Autotuner
from triton.runtime.driver import driver
from triton.runtime.interpreter import InterpretedFunction, interpreter_builder
from triton.runtime.jit import JITFunction

from ioaware.errors import UsageError
from ioaware.fakegpu.fake_cuda import cuda_on_cpu
from ioaware.targets.target import load_target
from ioaware.tracing.byte_counter import ByteCounter, count_accesses
from ioaware.tracing.interpreter import interpret_kernels
from ioaware.tracing.trace import trace
from tests.support import SUPPORT
from tests.support.kernel_zoo.zoo_files import zoo

ZOO = SUPPORT / "kernel_zoo/zoo.py"
NAMES = ("masked_add", "histogram", "softmax", "matmul")


@triton.jit
def polynomial(x, DEGREE: tl.constexpr):
    total = tl.zeros_like(x)
    for _ in tl.static_range(DEGREE):
        total = total * x + 1.0
    return total


@triton.jit
def polynomial_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n, other=0.0)
    tl.store(out_ptr + offsets, polynomial(x, 5) / tl.sum(x, axis=0), mask=offsets < n)


def state() -> dict[str, object]:
    """Return everything that a trace replaces."""
    owners = (
        JITFunction,
        InterpretedFunction,
        Autotuner,
        interpreter_builder,
        CompiledKernel,
        tl,
        tl.core,
        tl.tensor,
        tl.math,
        torch.cuda,
    )
    held = {
        f"{i}.{name}": value for i, owner in enumerate(owners) for name, value in vars(owner).items() if "grid_" not in name
    }
    return held | {"driver": driver._active, "generator": torch.Generator, "backward": torch.autograd._engine_run_backward}


def polynomial_on_cpu(n: int = 50) -> torch.Tensor:
    torch.manual_seed(1)
    x, out = torch.rand(n), torch.empty(n)
    polynomial_kernel[(triton.cdiv(n, 16),)](x, out, n, BLOCK=16)
    return out


def test_all_patches_are_undone() -> None:
    trace(load_target(zoo("softmax")), {"rows": 3})  # first-time caches of torch and Triton
    before = state()
    trace(load_target(zoo("softmax")), {"rows": 3})
    assert state() == before
    with pytest.raises(UsageError):
        trace(load_target(f"{ZOO}:raises"), {})
    assert state() == before
    with pytest.raises(RuntimeError, match=r"0 active drivers|cpu tensor"):
        polynomial_on_cpu()


def test_kernel_modules_are_not_changed() -> None:
    names = set(globals())
    with interpret_kernels():
        polynomial_on_cpu()
    assert set(globals()) == names


def test_a_kernel_compiles_after_it_was_traced() -> None:
    with interpret_kernels():
        polynomial_on_cpu()
    source = ASTSource(
        polynomial_kernel, {"x_ptr": "*fp32", "out_ptr": "*fp32", "n": "i32", "BLOCK": "constexpr"}, constexprs={"BLOCK": 16}
    )
    compiled = triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"enable_fp_fusion": True})
    assert "polynomial_kernel" in compiled.asm["ptx"]


def test_counting_does_not_change_the_output() -> None:
    with interpret_kernels():
        plain = polynomial_on_cpu()
    counter = ByteCounter()
    with interpret_kernels(lambda *_: count_accesses(counter)):
        counted = polynomial_on_cpu()
    assert torch.equal(plain, counted)
    assert (counter.read_bytes, counter.write_bytes) == (200, 200)


UNDER_INTERPRET = f"""
import importlib.util, json
from ioaware.targets.target import load_target
from ioaware.tracing.trace import trace
found = {{spec: trace(load_target(spec), {{}}).to_dict() for spec in {list(map(zoo, NAMES))!r}}}
spec = importlib.util.spec_from_file_location("isolation", {__file__!r})
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
print(json.dumps({{"traced": found, "values": module.polynomial_on_cpu().tolist()}}))
"""


@pytest.fixture(scope="module")
def under_interpret() -> dict[str, Any]:
    """Return traces, and Triton's own values, of a process.

    The process was started with TRITON_INTERPRET=1.
    """
    environment = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", UNDER_INTERPRET]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=120)
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("name", NAMES)
def test_traces_are_the_same_with_triton_interpret_set(name: str, under_interpret: dict[str, Any]) -> None:
    here = json.loads(json.dumps(trace(load_target(zoo(name)), {}).to_dict()))
    assert under_interpret["traced"][zoo(name)] == here


def test_values_are_those_of_tritons_own_interpreter(under_interpret: dict[str, Any]) -> None:
    with interpret_kernels():
        assert polynomial_on_cpu().tolist() == under_interpret["values"]


def test_a_gluon_kernel_is_refused() -> None:
    from triton.experimental import gluon

    @gluon.jit
    def nothing():
        pass

    with interpret_kernels(), pytest.raises(UsageError, match="nothing is a Gluon kernel"):
        nothing[(1,)]()


def test_a_warmup_runs_nothing() -> None:
    out = torch.zeros(16)
    with cuda_on_cpu(), interpret_kernels():
        compiled = polynomial_kernel.warmup(out, out, 16, BLOCK=16, grid=(1,), enable_fp_fusion=True)
    assert not out.any()
    assert "polynomial_kernel" in compiled.asm["ptx"]
    assert not polynomial_kernel.device_caches  # a later launch may run on another GPU


def test_an_unknown_configuration_names_the_known_ones() -> None:
    with pytest.raises(UsageError, match=r"tuned_kernel has no configuration with .*\n.*BLOCK=32"):
        trace(load_target(zoo("tuned")), {}, autotune={"BLOCK": 33})


def test_host_code_sees_a_gpu_and_allocates_on_the_cpu() -> None:
    with cuda_on_cpu() as stand_in:
        assert torch.cuda.is_available()
        assert torch.cuda.get_device_capability() == (9, 0)
        assert not stand_in.notes
        x = torch.zeros(3, device="cuda:0", pin_memory=False)
        assert (x.is_cuda, x.is_cpu, str(x.device), x.get_device()) == (True, False, "cuda:0", 0)
        assert x.to(0) is x
        assert x.to("cuda", torch.float64).dtype is torch.float64
        assert x.new_empty(2, device=torch.device("cuda")).is_cuda
        assert torch.device("cuda").type == "cuda"
        with torch.device("cuda"), torch.cuda.stream(torch.cuda.Stream()):
            y = torch.ones(2)
            torch.cuda.current_stream().synchronize()
        assert torch.cuda.get_device_properties(0).multi_processor_count == 132
        assert stand_in.notes
    assert x.device.type == y.device.type == "cpu"
    assert torch.equal(y, torch.ones(2))


def test_a_default_device_from_outside_is_redirected_too() -> None:
    torch.set_default_device("cuda")
    try:
        with cuda_on_cpu():
            x = torch.arange(4) + torch.tensor([1.0])
    finally:
        torch.set_default_device(None)
    assert x.device.type == "cpu"


def test_prints_of_kernels_and_hosts_go_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    def chatty() -> torch.Tensor:
        print("host")
        return polynomial_on_cpu()

    trace(load_target(chatty), {})
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "host" in captured.err


TRACE_THEN_COMPILE = """
import sys, ioaware
ioaware.trace(sys.argv[1] + "/kernel_zoo/zoo.py:masked_add")
print(ioaware.derive(sys.argv[1] + "/targets/derived_targets.py:shares").requested.read_bytes)
"""


def test_a_kernel_compiles_after_the_first_trace_of_a_process() -> None:
    """Triton's compiler reads `min` at its first import.

    The interpreter must not have replaced it then.
    """
    command = [sys.executable, "-c", TRACE_THEN_COMPILE, str(SUPPORT)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    assert int(done.stdout) == 4 * 40 * 100
