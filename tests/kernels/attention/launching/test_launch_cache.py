"""`Launch` without a GPU: the first launch goes through Triton.

Later ones are cached.

A hook that observes launches turns the cache off.
"""

# Triton's runtime has no Python types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false, reportAttributeAccessIssue=false, reportMissingParameterType=false
# pyright: reportUnknownParameterType=false, reportPrivateUsage=false
from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
import triton
import triton.language as tl
from triton.compiler import CompiledKernel

from ioaware.kernels.attention.launching import launch_cache
from ioaware.kernels.attention.launching.launch_cache import Launch, same_view
from ioaware.kernels.attention.launching.tma import tma_view
from ioaware.measurement.counters.launch_log import watch_launches

GPU = torch.device("cuda", 0)


@triton.jit
def kernel(X, n, BLOCK: tl.constexpr, FLAG: tl.constexpr):
    pass


class Compiled(CompiledKernel):
    """A compiled kernel that records the arguments of its launcher."""

    function: Any = "function"
    packed_metadata: Any = "metadata"

    def __init__(self) -> None:
        self.module = None
        self.received: list[tuple[Any, ...]] = []

    @property
    def run(self) -> Any:
        return lambda *arguments: self.received.append(arguments)


class LaunchRecorder:
    """Launches through Triton (`via_triton`), and those with the cached launcher."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.compiled = Compiled()
        self.via_triton: list[tuple[Any, ...]] = []
        self.launch = Launch("test", kernel, (7,), GPU, {"BLOCK": 64, "FLAG": False}, num_warps=4)

        def first(launch: Launch, arguments: tuple[Any, ...]) -> None:
            self.via_triton.append(arguments)
            launch._compiled = self.compiled

        monkeypatch.setattr(Launch, "_first", first)
        monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
        monkeypatch.setattr(
            launch_cache, "driver", SimpleNamespace(active=SimpleNamespace(get_current_stream=lambda d: f"stream {d}"))
        )

    def next_is_cached(self) -> bool:
        """Launch once, and return whether the launch bypasses Triton."""
        before = len(self.via_triton)
        self.launch("x", 5)
        return len(self.via_triton) == before


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> LaunchRecorder:
    found = LaunchRecorder(monkeypatch)
    assert not found.next_is_cached()
    return found


def test_the_cached_launch_passes_the_same_arguments_as_triton(recorder: LaunchRecorder) -> None:
    assert recorder.next_is_cached()
    hooks = (None, None, None)
    assert recorder.compiled.received == [(7, 1, 1, "stream 0", "function", "metadata", *hooks, "x", 5, 64, False)]


def test_the_tensors_device_is_made_the_current_one(recorder: LaunchRecorder, monkeypatch: pytest.MonkeyPatch) -> None:
    entered: list[torch.device] = []

    class Device:
        def __init__(self, device: torch.device) -> None:
            entered.append(device)

        def __enter__(self) -> None:
            assert recorder.compiled.received == []

        def __exit__(self, *error: object) -> None:
            assert len(recorder.compiled.received) == 1

    monkeypatch.setattr(torch.cuda, "current_device", lambda: 1)
    monkeypatch.setattr(torch.cuda, "device", Device)
    assert recorder.next_is_cached()
    assert entered == [GPU]


def test_hooks_and_launch_logs_see_every_launch(recorder: LaunchRecorder, monkeypatch: pytest.MonkeyPatch) -> None:
    with watch_launches():
        assert not recorder.next_is_cached()
    assert recorder.next_is_cached()

    hooks: Any = triton.knobs.runtime
    for chain in (hooks.launch_enter_hook, hooks.launch_exit_hook):
        chain.add(print)
        assert not recorder.next_is_cached()
        chain.remove(print)
    with monkeypatch.context() as patch:
        patch.setattr(kernel, "pre_run_hooks", [print])
        assert not recorder.next_is_cached()
    with monkeypatch.context() as patch:
        patch.setattr(triton.knobs.compilation, "instrumentation_mode", "proton")
        assert not recorder.next_is_cached()
    assert recorder.next_is_cached()


@pytest.mark.parametrize(("version", "known"), [("3.5.1", False), ("3.6.0", True), ("3.9.0", True), ("3.10.0", False)])
def test_launchers_of_other_triton_versions_are_unknown(monkeypatch: pytest.MonkeyPatch, version: str, known: bool) -> None:
    monkeypatch.setattr(triton, "__version__", version)
    assert launch_cache._launcher_is_known() is known


@pytest.mark.parametrize(("returned", "known"), [(None, True), (Compiled(), False)])
def test_other_results_of_a_launch_are_not_cached(monkeypatch: pytest.MonkeyPatch, returned: Any, known: bool) -> None:
    """An interceptor returns no compiled kernel.

    An unknown launcher must not be called directly.
    """
    monkeypatch.setattr(launch_cache, "LAUNCHER_IS_KNOWN", known)
    calls: list[dict[str, Any]] = []

    class Kernel:
        arg_names = ("X", "n", "BLOCK", "FLAG")
        pre_run_hooks = ()
        run = kernel.run

        def __getitem__(self, grid: tuple[int, ...]) -> Any:
            return lambda *arguments, **options: (calls.append({"grid": grid, "arguments": arguments, **options}), returned)[1]

    launch = Launch("test", Kernel(), (7,), torch.device("cpu"), {"BLOCK": 64, "FLAG": False}, num_warps=4)
    launch("x", 5)
    launch("x", 5)
    options = {"num_warps": 4, "enable_fp_fusion": True}
    assert calls == [{"grid": (7, 1, 1), "arguments": ("x", 5), "BLOCK": 64, "FLAG": False, **options}] * 2


def test_a_view_of_another_tensor_holds_no_reference_to_the_first() -> None:
    first, second = (torch.zeros(2, 3, 40, 64, dtype=torch.float16) for _ in range(2))
    template = tma_view(first, 64, 64)
    view = same_view(template, second)
    assert view.base is second
    assert template.base is None
    assert (type(view), view.shape, view.strides) == (type(template), [2, 3, 40, 64], [7680, 2560, 64, 1])


def test_a_given_option_overrides_the_default() -> None:
    passed: dict[str, Any] = {}

    class Kernel:
        arg_names = ("X", "BLOCK")

        def __getitem__(self, grid: tuple[int, ...]) -> Any:
            return lambda *_arguments, **options: passed.update(options)

    Launch("test", Kernel(), (1,), torch.device("cpu"), {"BLOCK": 64}, enable_fp_fusion=False)._first((None,))
    assert passed == {"BLOCK": 64, "enable_fp_fusion": False}
