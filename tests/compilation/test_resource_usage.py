"""Registers and shared memory equal those of Triton's own compilation."""

from __future__ import annotations

import io
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest
import torch
import triton
import triton.language as tl
from triton.backends.nvidia.compiler import CUDABackend

from ioaware.capture.capture import DEFAULT_GPU, capture
from ioaware.compilation import resource_usage
from ioaware.compilation import triton_ir as compile_module
from ioaware.compilation.launches import CapturedLaunch
from ioaware.compilation.resource_usage import MachineCode, registers_declared, resources_by_triton
from ioaware.compilation.shared_allocation import shared_bytes
from ioaware.compilation.triton_ir import compiled, find_gpu
from ioaware.derivation.derive import derive
from ioaware.errors import UsageError
from ioaware.fakegpu.cubin import resources
from ioaware.targets.target import load_target
from tests.support import SUPPORT
from tests.support.kernel_zoo.zoo_files import zoo

TARGETS = SUPPORT / "targets/uncompiled_targets.py"


@pytest.mark.parametrize("spec", ["flash2", f"{TARGETS}:plain"])
@pytest.mark.parametrize("gpu", ["cuda:80", "cuda:90", "hip:gfx942"])
def test_resources_equal_those_of_triton(spec: str, gpu: str) -> None:
    target, compiled_for = load_target(spec), find_gpu(gpu)
    resource_usage.resource_cache.clear()
    plain: list[CapturedLaunch] = []
    with MachineCode(compiled_for) as code:
        found = capture(
            target,
            target.resolve({}),
            gpu=compiled_for,
            on_launches=lambda launches: plain.extend(launches) or code.start(launches),
        )
        used = [code.of(at, "an IR") for at, _ in enumerate(found.launches)]
    assert used == [resources_by_triton(launch, {}, compiled_for) for launch in plain]
    assert used == [resources_by_triton(launch, found.values, compiled_for) for launch in found.launches]
    assert used[0].shared_bytes or spec != "flash2"
    if gpu != "hip:gfx942":  # which has no such pass
        kept = shared_bytes(compiled(plain[0], {}, compiled_for).asm["ttgir"], compiled_for)
        assert (kept or 0) == used[0].shared_bytes


def test_maxnreg_of_setmaxnreg_kernels_is_used() -> None:
    """ptxas is not run, and gives the same number."""
    target = load_target("ioaware.kernels.attention.targets:hopper")
    derived = derive(target, target.resolve({"seq_len": 256}))
    found = capture(target, target.resolve({"seq_len": 256}))
    (kernel,) = (compiled(launch, found.values, DEFAULT_GPU) for launch in found.launches)
    assert derived.launches[0].registers == registers_declared(kernel.asm["ptx"]) == resources(kernel.asm["cubin"])[0]
    assert registers_declared(kernel.asm["ptx"].replace("setmaxnreg", "other")) is None
    assert registers_declared(kernel.asm["ptx"].replace("sm_90a", "sm_100a")) is None


class ImmediateExecutor(ThreadPoolExecutor):
    """An executor whose work is done at submission."""

    def submit(self, *given: Any, **named: Any) -> Future[Any]:
        done = super().submit(*given, **named)
        wait([done])
        return done


@pytest.mark.parametrize(("spec", "times"), [("ioaware.kernels.attention.targets:hopper", 1), ("flash2", 3)])
def test_unspecialised_integers_share_one_front_end_run(spec: str, times: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The IR for the given numbers then holds for any numbers.

    flash2 is specialised to multiples of 16, and compiled once more with arguments of 1, where loads may merge.
    """
    plain, made = compile_module.fresh_ir, list[object]()

    def counted(source: object, *rest: object) -> object:
        made.append(source)
        return plain(source, *rest)

    for module in (compile_module, resource_usage):
        monkeypatch.setattr(module, "fresh_ir", counted)
    monkeypatch.setattr(resource_usage, "ThreadPoolExecutor", ImmediateExecutor)
    monkeypatch.setenv("IOAWARE_CACHE_DIR", "")
    for cache in (compile_module._texts, resource_usage.resource_cache):
        cache.clear()
    target = load_target(spec)
    derive(target, target.resolve({"seq_len": 1024}))
    assert len(made) == times


@triton.jit
def squares_of_tiles(x, y, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)[:, None] * BLOCK + tl.arange(0, BLOCK)[None, :]
    tile = tl.load(x + at)
    tl.store(y + at, tl.dot(tile, tile))


def squared_tile(block: int) -> Any:
    x = torch.empty(block, block, dtype=torch.float16, device="cuda")
    return lambda: squares_of_tiles[(1,)](x, x, BLOCK=block)


def test_a_launch_that_does_not_fit_makes_no_machine_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would take minutes, and the shared memory is known before.

    A tile of 512 x 512 float16 is 524,288 bytes.
    """

    def make_llir(*_: Any) -> Any:
        raise ZeroDivisionError

    monkeypatch.setattr(CUDABackend, "make_llir", make_llir)
    derived = derive(load_target(squared_tile), {"block": 512})
    assert derived.launches[0].shared_bytes == 524_288
    assert not derived.exact
    assert "needs 524,288 bytes of shared memory" in derived.launches[0].notes[-1]


def test_threads_end_after_a_failure() -> None:
    """Also if the host function fails while threads compile."""
    target = load_target("flash2")
    resource_usage.resource_cache.clear()
    code = MachineCode(DEFAULT_GPU)

    def fails() -> None:
        with code:
            capture(target, target.resolve({}), on_launches=code.start)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fails()
    assert code._threads._threads
    assert all(not thread.is_alive() for thread in code._threads._threads)


def test_ptxas_errors_are_not_printed(capfd: pytest.CaptureFixture[str]) -> None:
    target = load_target(zoo("host_descriptor"))
    with pytest.raises(UsageError, match="ptxas"):
        derive(target, target.resolve({}))
    assert capfd.readouterr().out == ""


def test_ptxas_errors_are_not_in_the_output_of_host_code() -> None:
    """Threads compile while host code runs, which has a stdout of its own."""
    output = io.StringIO()
    with MachineCode(DEFAULT_GPU), redirect_stdout(output):
        resource_usage.ptxas_stage.print("the whole program")
    assert output.getvalue() == ""
    assert not hasattr(resource_usage.ptxas_stage, "print")


def test_user_compiler_hook_is_applied(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Also after the same kernel was lowered without the hook."""
    from triton import knobs

    target, calls = load_target(f"{TARGETS}:plain"), list[object]()
    assert derive(target, target.resolve({})).launches[-1].registers

    def hook(*args: object) -> tuple[str, str]:
        calls.append(args)
        return "key", "hash"

    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(knobs.runtime, "add_stages_inspection_hook", hook)
    assert derive(target, target.resolve({})).launches[-1].registers
    assert calls
