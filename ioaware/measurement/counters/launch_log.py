"""Log every Triton and Gluon launch of a host function.

Each is inside an NVTX range for the profiler.
"""

from __future__ import annotations

import importlib
import math
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, cast

from ioaware.result import ParamValue

REGISTER_BYTES = 4


@dataclass(frozen=True, slots=True)
class TritonLaunch:
    """Describe a launch.

    It holds the Python function's name, the compiled kernel's name, and what the compiler chose.
    """

    kernel: str
    compiled_name: str
    grid: tuple[int, ...] = ()
    registers: int | None = None
    shared_bytes: int | None = None
    local_bytes: int | None = None
    configuration: Mapping[str, ParamValue] | None = None
    """What the autotuner chose, for a kernel with several configurations."""

    @property
    def is_empty(self) -> bool:
        """Whether the grid has a zero, so that no kernel runs."""
        return bool(self.grid) and math.prod(self.grid) == 0


def _ignore(_: str) -> None:
    pass


def _nothing() -> None:
    pass


@contextmanager
def watch_launches(
    push: Callable[[str], object] = _ignore, pop: Callable[[], object] = _nothing
) -> Generator[list[TritonLaunch]]:
    """Append each launch inside the block to the list.

    Run it between `push("ioaware:<index>")` and `pop()`.

    Autotuned, heuristic and Gluon kernels all end in `JITFunction.run` (Triton 3.6 to 3.9), which is patched here. What a
    warm-up returned is launched by its own `[grid]`, patched as well. So is the launcher of kernels that torch.compile wrote.
    """
    from triton.compiler.compiler import CompiledKernel
    from triton.runtime.jit import JITFunction

    from ioaware._monkeypatch import Patches
    from ioaware.fakegpu.autotuning import autotuner_kinds, configuration_values

    jit_function, compiled_kernel = cast(Any, JITFunction), cast(Any, CompiledKernel)
    original, relaunch = jit_function.run, compiled_kernel.__getitem__
    launches: list[TritonLaunch] = []
    tuners: list[tuple[Any, Sequence[Any]]] = []

    def tuned(plain: Callable[..., Any]) -> Callable[..., Any]:
        def run_tuned(self: Any, *args: Any, **kwargs: Any) -> Any:
            tuners.append((self, tuple(self.configs)))
            try:
                return plain(self, *args, **kwargs)
            finally:
                tuners.pop()

        return run_tuned

    def configuration_of(kernel: Any, given: Mapping[str, Any]) -> dict[str, ParamValue] | None:
        """Return what the autotuner that is running passes to its own kernel.

        None where it had no choice.
        """
        tuner, configs = next((one for one in tuners if one[0].base_fn is kernel.fn), (None, ()))
        if tuner is None or len(configs) < 2:
            return None
        names = {name for config in configs for name in config.all_kwargs()}
        return configuration_values({name: value for name, value in given.items() if name in names})

    @contextmanager
    def listed(kernel: str) -> Generator[int]:
        """Append the launch before it runs: a pre-run hook may launch another kernel."""
        index = len(launches)
        launches.append(TritonLaunch(kernel, kernel))
        push(f"ioaware:{index}")
        try:
            yield index
        except Exception:  # as of an autotuned configuration that needs too much shared memory: it launched nothing
            del launches[index:]
            raise
        finally:
            pop()

    def run(self: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
        if warmup:  # compiles only
            return original(self, *args, grid=grid, warmup=warmup, **kwargs)
        seen: list[tuple[int, ...]] = []

        def chosen(meta: Any) -> Any:
            value = grid(meta) if callable(grid) else grid
            seen.append(tuple(int(extent) for extent in cast("tuple[int, ...]", value)))
            return value

        with listed(self.__name__) as index:
            compiled = original(self, *args, grid=chosen, warmup=warmup, **kwargs)
        described = _describe(self.__name__, compiled, seen[-1] if seen else ())
        launches[index] = replace(described, configuration=configuration_of(self, kwargs))
        return compiled

    def again(self: Any, grid: tuple[int, ...]) -> Callable[..., Any]:
        start, name = relaunch(self, grid), self.src.fn.__name__

        def launch(*args: Any, **kwargs: Any) -> Any:
            with listed(name) as index:
                result = start(*args, **kwargs)
            launches[index] = _describe(name, self, tuple(int(extent) for extent in grid))
            return result

        return launch

    def run_generated(plain: Callable[..., Any]) -> Callable[..., Any]:
        def launch(self: Any, *args: Any, **kwargs: Any) -> Any:
            name = str(self.fn.__name__)
            with listed(name) as index:
                result = plain(self, *args, **kwargs)
            launcher = self.launchers[0]
            spills, config = getattr(launcher, "n_spills", None), getattr(launcher, "config", None)
            launches[index] = TritonLaunch(
                name,
                name,
                registers=getattr(launcher, "n_regs", None),
                local_bytes=None if spills is None else REGISTER_BYTES * spills,
                configuration=None if config is None else configuration_values(config.all_kwargs()),
            )
            return result

        return launch

    with Patches() as patches:
        if "torch._dynamo" in sys.modules:
            generated: Any = importlib.import_module("torch._inductor.runtime.triton_heuristics").CachingAutotuner
            patches.set(generated, "run", run_generated(generated.run))
        patches.set(jit_function, "run", run)
        patches.set(compiled_kernel, "__getitem__", again)
        for kind in autotuner_kinds():
            if "run" in vars(kind):
                patches.set(kind, "run", tuned(vars(kind)["run"]))
        yield launches


def _describe(name: str, compiled: Any, grid: tuple[int, ...]) -> TritonLaunch:
    metadata = getattr(compiled, "metadata", None)
    spills = getattr(compiled, "n_spills", None)
    return TritonLaunch(
        kernel=name,
        compiled_name=str(getattr(metadata, "name", None) or name),
        grid=grid,
        registers=getattr(compiled, "n_regs", None),
        shared_bytes=getattr(metadata, "shared", None),
        local_bytes=None if spills is None else REGISTER_BYTES * spills,
    )
