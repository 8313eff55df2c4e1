"""The launch log: each Triton launch once, in its own profiler range."""

import sys
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import triton
import triton.language as tl
from triton.compiler.compiler import CompiledKernel
from triton.experimental import gluon
from triton.runtime.jit import JITFunction

from ioaware.measurement.counters.launch_log import TritonLaunch, watch_launches


@triton.jit
def add_one(x, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + offsets, tl.load(x + offsets, mask=offsets < n) + 1, mask=offsets < n)


@triton.autotune([triton.Config({"BLOCK": 64})], key=["n"])
@triton.heuristics({"EVEN": lambda arguments: True})
@triton.jit
def tuned(x, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    tl.store(x, 1)


@gluon.jit
def gluon_kernel(x):
    pass


class Recorder(list[str]):
    """A log of profiler ranges that open and close."""

    def push(self, name: str) -> None:
        self.append(name)

    def pop(self) -> None:
        self.append("end")


@pytest.fixture(autouse=True)
def gpu_stub(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """A launcher without a GPU.

    It evaluates the grid like Triton and returns a compiled kernel's metadata.
    """
    launched: list[Any] = []

    def run(self: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
        for hook in self.pre_run_hooks:
            hook(*args, **kwargs)
        meta = {"n": args[1] if len(args) > 1 else 0, **kwargs}
        launched.append((self.__name__, warmup, grid(meta) if callable(grid) else grid))
        if kwargs.get("n") == "fails":
            raise RuntimeError("out of resources")
        return SimpleNamespace(metadata=SimpleNamespace(name=f"{self.__name__}_on_gpu", shared=1024), n_regs=32)

    monkeypatch.setattr(JITFunction, "run", run)
    return launched


def test_a_launch_has_its_data_and_a_range() -> None:
    ranges = Recorder()
    with watch_launches(ranges.push, ranges.pop) as launches:
        add_one[(4,)](None, 256, BLOCK=64)
        add_one[lambda meta: (triton.cdiv(meta["n"], meta["BLOCK"]), 2)](None, 256, BLOCK=128)
    assert launches == [
        TritonLaunch("add_one", "add_one_on_gpu", (4,), 32, 1024),
        TritonLaunch("add_one", "add_one_on_gpu", (2, 2), 32, 1024),
    ]
    assert ranges == ["ioaware:0", "end", "ioaware:1", "end"]


def test_launches_of_a_compiled_kernel_are_logged(monkeypatch: pytest.MonkeyPatch) -> None:
    """As by a persistent kernel whose grid depends on registers.

    A warm-up reports the registers.
    """
    launched: list[Any] = []
    monkeypatch.setattr(CompiledKernel, "__getitem__", lambda self, grid: lambda *args: launched.append((grid, args)))
    compiled: Any = object.__new__(CompiledKernel)
    compiled.src, compiled.metadata, compiled.n_regs, compiled.n_spills = (
        SimpleNamespace(fn=add_one),
        SimpleNamespace(name="add_one_on_gpu", shared=64),
        24,
        2,
    )
    ranges = Recorder()
    with watch_launches(ranges.push, ranges.pop) as launches:
        compiled[(132, 1, 1)]("x", 7)
    assert launches == [TritonLaunch("add_one", "add_one_on_gpu", (132, 1, 1), 24, 64, 8)]
    assert launched == [((132, 1, 1), ("x", 7))]
    assert ranges == ["ioaware:0", "end"]


def test_wrapped_and_gluon_kernels_are_logged_once() -> None:
    with watch_launches() as launches:
        tuned.fn[(1,)](None, 1, BLOCK=64)
        gluon_kernel[(3,)](None)
    assert [launch.kernel for launch in launches] == ["tuned", "gluon_kernel"]


def test_compiling_is_no_launch() -> None:
    with watch_launches() as launches:
        add_one.run(None, 1, BLOCK=64, grid=(1,), warmup=True)
    assert launches == []


def test_a_hook_that_launches_gets_a_range_of_its_own() -> None:
    ranges = Recorder()
    hook = lambda *args, **kwargs: add_one[(1,)](None, 1, BLOCK=64)  # noqa: E731
    gluon_kernel.add_pre_run_hook(hook)
    try:
        with watch_launches(ranges.push, ranges.pop) as launches:
            gluon_kernel[(1,)](None)
    finally:
        gluon_kernel.pre_run_hooks.remove(hook)
    assert [launch.kernel for launch in launches] == ["gluon_kernel", "add_one"]
    assert ranges == ["ioaware:0", "ioaware:1", "end", "end"]


def test_patches_are_undone_even_after_an_error() -> None:
    ranges, before = Recorder(), JITFunction.run
    with pytest.raises(RuntimeError, match="out of resources"), watch_launches(ranges.push, ranges.pop):
        add_one[(1,)](None, n="fails", BLOCK=64)
    assert JITFunction.run is before
    assert ranges == ["ioaware:0", "end"]


def test_a_zero_in_the_grid_launches_nothing() -> None:
    assert TritonLaunch("k", "k", (4, 0)).is_empty
    assert not TritonLaunch("k", "k", (4, 1)).is_empty
    assert not TritonLaunch("k", "k").is_empty  # unknown


@triton.autotune([triton.Config({"BLOCK": 64}), triton.Config({"BLOCK": 128}, num_warps=8, num_stages=2)], key=["n"])
@triton.jit
def chosen(x, n, BLOCK: tl.constexpr):
    tl.store(x, 1)


def test_the_configuration_that_ran_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tuner of several configurations names what it passes.

    One without a choice has none, nor has a plain launch.
    """
    slow_first = [3.0, 1.0]
    monkeypatch.setattr(chosen, "_bench", lambda *_, config, **__: [slow_first[chosen.configs.index(config)]] * 3)
    with watch_launches() as launches:
        chosen[(4,)](None, 256)
        tuned[(4,)](None, 256)
        add_one[(4,)](None, 256, BLOCK=64)
    assert [launch.configuration for launch in launches] == [{"BLOCK": 128, "num_warps": 8, "num_stages": 2}, None, None]
    assert triton.runtime.Autotuner.run.__name__ == "run"


def test_kernels_of_torch_compile_are_logged(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are launched by the compiler's own launcher, which keeps what it chose."""

    class CachingAutotuner:
        fn = SimpleNamespace(__name__="triton_poi_fused_add_0")
        launchers = (SimpleNamespace(n_regs=16, n_spills=2, config=triton.Config({"XBLOCK": 512}, num_warps=8)),)

        def run(self, *arguments: object, stream: int) -> tuple[object, ...]:
            return (*arguments, stream)

    heuristics: Any = ModuleType("triton_heuristics")
    heuristics.CachingAutotuner = CachingAutotuner
    monkeypatch.setitem(sys.modules, "torch._dynamo", ModuleType("torch._dynamo"))
    monkeypatch.setitem(sys.modules, "torch._inductor.runtime.triton_heuristics", heuristics)
    ranges = Recorder()
    with watch_launches(ranges.push, ranges.pop) as launches:
        assert CachingAutotuner().run("x", stream=3) == ("x", 3)
    (launch,) = launches
    assert (launch.kernel, launch.registers, launch.local_bytes) == ("triton_poi_fused_add_0", 16, 8)
    assert (launch.configuration or {}).items() >= {"XBLOCK": 512, "num_warps": 8}.items()
    assert ranges == ["ioaware:0", "end"]
